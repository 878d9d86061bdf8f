"""Key lookups in segments, many keys at once.

The key of a SimHash entry is its first two columns, 32 bits: two blocks.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.columns import columns_at, lower
from index.kernels.jit import compiled, prefetch
from index.kernels.scan import Spans

AT_ONCE = 64
"""Keys looked up together: enough to keep the memory busy, few enough to stay in the cache."""

STEP = 16
"""First step away from a guess, in places: half a cache line."""


@compiled
def _key_at(columns: npt.NDArray[np.uint16], place: Any) -> Any:
    """Key of an entry in columns uint16 [columns, n]: int64."""
    return np.int64(columns[0, place]) << 16 | np.int64(columns[1, place])


@compiled
def _prefetch_key(address: Any, size: Any, place: Any) -> None:
    prefetch(address + np.uint64(8 + 2 * place))
    prefetch(address + np.uint64(8 + 2 * (size + place)))


@compiled
def _first_near(columns: npt.NDArray[np.uint16], key: Any, guess: Any) -> Any:
    """First place whose key is not below this one, by doubling steps from a guess."""
    # Keys 0 2 4 .. 98, key 61, guess 10: `high` goes 10, 26, 50, then bisection ends at place 31.
    low, high, step = guess, guess, STEP
    while low > 0 and _key_at(columns, low) >= key:
        low, step = max(0, low - step), step * 2
    step = STEP
    while high < columns.shape[1] and _key_at(columns, high) < key:
        low, high, step = high + 1, min(columns.shape[1], high + step), step * 2
    while low < high:
        middle = (low + high) >> 1
        if _key_at(columns, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def fill_spans(
    tables: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.uint64],
    highest: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> None:
    """Fill in begins and ends, int64 [n, k]: segments that may hold entries of tables int64 [k] between two bounds.

    lowest, highest  uint64 [n, k] each, inclusive bounds
    order            int64 [n * k], places of the bounds, ascending by table and lowest bound
    edges            int64 [tables + 1], each table's first segment
    bounds           uint64 [segments], ascending within a table
    """
    lows, highs = lowest.reshape(-1), highest.reshape(-1)
    of_begins, of_ends = begins.reshape(-1), ends.reshape(-1)
    segment, table = 0, -1
    # Segments begin at 0, 10 and 20, the bounds are 12 and 20: segment 1 holds 12, so the span is 1 to below 3.
    for which in order:
        if tables[which % len(tables)] != table:
            table = tables[which % len(tables)]
            segment = edges[table]
        while segment < edges[table + 1] and bounds[segment] < lows[which]:
            segment += 1
        # The last segment with a lower bound comes first: it holds entries up to the next bound.
        of_begins[which], end = max(edges[table], segment - 1), segment
        while end < edges[table + 1] and bounds[end] <= highs[which]:
            end += 1
        of_ends[which] = end


@compiled
def fill_places(
    keys: npt.NDArray[np.uint32],
    breadth: int,
    order: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64],
    spans: Spans,
) -> None:
    """Fill in spans.places: the first entry, in each span's first segment, whose key is not below its key uint32 [n, k].

    Also moves spans.begins to that entry's segment. A span becomes empty, by spans.ends, if that entry's key is
    `breadth` or more above the requested key. Hashed keys are spread evenly, so two proportional guesses come first;
    those for AT_ONCE keys load together.

    order   int64 [n * k], the keys' places in look-up order: neighbours share pages
    firsts  int64 [segments], lower bound of each segment's keys
    widths  int64 [segments], exclusive bound of a segment's keys above its `firsts`
    """
    asked, begins, ends = keys.reshape(-1), spans.begins.reshape(-1), spans.ends.reshape(-1)
    places = spans.places.reshape(-1)
    for start in range(0, len(order), AT_ONCE):
        some = order[start : start + AT_ONCE]
        for which in some:
            # A segment's head has its number of entries, which the guess needs.
            prefetch(spans.addresses[begins[which]])
        # Rounds 0 and 1 guess and prefetch; round 2 searches from the guess.
        for again in range(3):
            for which in some:
                segment, place, key = begins[which], places[which], np.int64(asked[which])
                columns = columns_at(spans.addresses[segment], 2)
                size = columns.shape[1]
                if again == 2:
                    place = _first_near(columns, key, place)
                    begins[which], places[which] = (segment, place) if place < size else (segment + 1, 0)
                    if place < size and _key_at(columns, place) >= key + breadth:
                        ends[which] = segment
                    continue
                # Keys spread over 0..1000 in 50 entries: key 300 is guessed at place 15. If place 15 has key 320, the
                # next guess is 14.
                off = key - _key_at(columns, place) if again else key - firsts[segment]
                place = max(0, min(size - 1, (place if again else 0) + off * size // widths[segment]))
                places[which] = place
                _prefetch_key(spans.addresses[segment], size, place)


@compiled
def places_in_segments(
    entries: npt.NDArray[np.uint16], spans: Spans
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """SimHash: segments and places of entries uint16 [n, columns] in table 0, int64 [n] twice; -1 for a missing entry.

    spans  those of table 0, int64 [n, 1]
    """
    segments, places = np.full(len(entries), -1, np.int64), np.full(len(entries), -1, np.int64)
    for row in range(len(entries)):
        key = np.int64(entries[row, 0]) << 16 | np.int64(entries[row, 1])
        for segment in range(spans.begins[row, 0], spans.ends[row, 0]):
            columns = columns_at(spans.addresses[segment], entries.shape[1])
            low = spans.places[row, 0] if segment == spans.begins[row, 0] else 0
            high = _first_near(columns, key + 1, min(low, columns.shape[1] - 1))
            # Each further column narrows low..high to the entries that equal the row so far.
            for column in range(2, entries.shape[1]):
                value = np.int64(entries[row, column])
                low = lower(columns[column], value, low, high)
                high = lower(columns[column], value + 1, low, high)
            if low < high:
                segments[row], places[row] = segment, low
    return segments, places
