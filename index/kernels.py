"""Loops over whole batches, compiled. The only importer of numba; pure functions of arrays.

A compiled function calls only those of its own module: what numba keeps on disk is made anew when the module of a
function has changed, but not when that of a function it calls has. A chunk is named by the address of its first byte, as
`layout` draws it: whoever calls promises that it stays there during the call. Where a column meets a number of Python's,
the number is turned into the column's type first: numba makes a float of uint64 with int64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Hits = tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.uint64], int]

HOT_ENTRIES = 4096
"""Of a bucket with more entries in a chunk only the parts are read that can hold entries with the next block wanted."""


class Pages(NamedTuple):
    """Entries by the high half of their page keys, one lot of buckets for each table; in units of pages.

    heads      int32 [tables, 65536], the newest page of a bucket, -1: the bucket is empty
    links      int32 [pages, 2], the next older page of the bucket or -1, and the entries in this one
    following  uint16 [pages, p], the low halves of the page keys of a page's entries
    places     int32 [pages, p], their places in the columns of whoever filed them

    All pages but a bucket's newest are full.
    """

    heads: npt.NDArray[np.int32]
    links: npt.NDArray[np.int32]
    following: npt.NDArray[np.uint16]
    places: npt.NDArray[np.int32]


class Spans(NamedTuple):
    """Where to look keys up: int64 [n, keys] twice, the chunks from begins to below ends, as places in addresses.

    addresses  uint64 [chunks]; of a chunk in no span it is not read
    """

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]


def compiled(function: Function) -> Function:
    """The function as machine code, made at its first call and kept on disk for the next process."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


@compiled
def address_of(value: Any) -> Any:
    """Where a buffer, which has a byte at least, begins in memory: uint64."""
    return np.frombuffer(value, np.uint8).ctypes.data


def _pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """An address, uint64, as a pointer to uint16."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint16)(types.uint64), code  # type: ignore[no-untyped-call]


def _population(typing_context: Any, value: Any) -> Any:  # noqa: ARG001
    """How many bits of a uint64 are set, as uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


_columns_at: Any = intrinsic(_pointer)
_ones: Any = intrinsic(_population)
_array: Any = numba.carray  # type: ignore[attr-defined]


@compiled
def _bits(value: Any) -> Any:
    """How many bits are set."""
    return np.int64(_ones(np.uint64(value)))


@compiled
def _count_at(address: Any) -> Any:
    """How many entries a chunk has."""
    halves = _array(_columns_at(address), 2)
    return np.int64(halves[0]) | np.int64(halves[1]) << 16


@compiled
def _chunk_at(address: Any, columns: int, count: int) -> Any:
    """The columns of a chunk where they stand: uint16 [columns, count]."""
    return _array(_columns_at(address + np.uint64(8)), (columns, count))


@compiled
def _lower(column: npt.NDArray[np.uint16], value: Any, low: int, high: int) -> int:
    """The first place in column[low:high], ascending, that is not below the value."""
    while low < high:
        middle = (low + high) >> 1
        if column[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _first_place(column: npt.NDArray[np.uint16], value: Any) -> int:
    """As `_lower` over the whole column, by few steps where its values are spread evenly, as those of hashes are.

    A first guess by proportion, then steps of doubling length away from it: each step may be a miss of the cache.
    """
    size = len(column)
    if size == 0 or value <= np.int64(column[0]):
        return 0
    first, last = np.int64(column[0]), np.int64(column[size - 1])
    if value > last:
        return size
    low = high = (value - first) * size // (last - first + 1)
    step = 64
    while low > 0 and np.int64(column[low]) >= value:
        low, step = max(0, low - step), step * 2
    step = 64
    while high < size and np.int64(column[high]) < value:
        high, step = min(size, high + step), step * 2
    return _lower(column, value, low, high)


@compiled
def _grown(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column twice as long that begins with this one."""
    larger = np.empty((column.shape[0] * 2, *column.shape[1:]), column.dtype)
    larger[: column.shape[0]] = column
    return larger


@compiled
def _block_values(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """The blocks of fingerprints uint64 [n, words], block 0 the top 16 bits of word 0: uint16 [n, words * 4]."""
    count, words = fingerprints.shape
    values = np.empty((count, words * 4), np.uint16)
    for row in range(count):
        for block in range(words * 4):
            shift = np.uint64(48 - 16 * (block & 3))
            values[row, block] = np.uint16((fingerprints[row, block >> 2] >> shift) & np.uint64(0xFFFF))
    return values


@compiled
def scan_pages(
    fingerprints: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint32],
    allowed: npt.NDArray[np.int8],
    pages: Pages,
    filed: npt.NDArray[np.uint64],
    ends: npt.NDArray[np.int64],
    nearest_only: bool,
    best: npt.NDArray[np.int16],
    compared: npt.NDArray[np.int64],
    row: int,
    hits_max: int,
) -> Hits:
    """SimHash: compare rows, uint64 [n, words], with the entries that their keys name in pages.

    keys      uint32 [n, probes], as `blocks.probe_keys` makes them
    allowed   int8 [probes], only entries are compared whose next block differs in at most so many bits
    filed     uint64 [capacity, words], the fingerprints of the entries
    ends      int64 [n], entries from this place on are no hits of the row
    best      int16 [n], a hit lies at most so far; with `nearest_only` lowered to the distance of every hit
    compared  int64 [n], raised by the comparisons made
    row       begin at this row; stop behind the row that makes it `hits_max` hits

    Gives rows int64, distances int16 and places (as uint64 [m, 1]) of the hits, and the row to go on at.
    """
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, 1), np.uint64)
    asked = _block_values(fingerprints)
    count, words, blocks = 0, fingerprints.shape[1], asked.shape[1]
    while row < keys.shape[0] and count < hits_max:
        for probe in range(keys.shape[1]):
            table = np.int64(keys[row, probe] >> 16)
            page = pages.heads[table, keys[row, probe] & 0xFFFF]
            next_block = asked[row, (table + 1) % blocks]
            while page >= 0:
                for slot in range(pages.links[page, 1]):
                    if _bits(pages.following[page, slot] ^ next_block) > allowed[probe]:
                        continue
                    place = pages.places[page, slot]
                    distance = 0
                    for word in range(words):
                        distance += _bits(fingerprints[row, word] ^ filed[place, word])
                    compared[row] += 1
                    if distance > best[row] or place >= ends[row]:
                        continue
                    if nearest_only:
                        best[row] = distance
                    if count == len(rows):
                        rows, distances, found = _grown(rows), _grown(distances), _grown(found)
                    rows[count], distances[count], found[count, 0] = row, distance, place
                    count += 1
                page = pages.links[page, 0]
        row += 1
    return rows[:count], distances[:count], found[:count], row


@compiled
def scan_chunks(
    fingerprints: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint32],
    allowed: npt.NDArray[np.int8],
    spans: Spans,
    order: npt.NDArray[np.int64],
    nearest_only: bool,
    best: npt.NDArray[np.int16],
    compared: npt.NDArray[np.int64],
    turn: int,
    hits_max: int,
) -> Hits:
    """SimHash: compare rows with the entries that their keys name in chunks. As `scan_pages`, but for:

    order  int64 [n * probes], the places in `keys` in the order to look them up: fastest as they ascend, for neighbours
           are in the cache then
    turn   begin at this place of `order`, and stop behind the one that makes it `hits_max` hits

    Gives the fingerprints of the hits, uint64 [m, words], where `scan_pages` gives places, and the turn to go on at.
    """
    words, probes, count = fingerprints.shape[1], keys.shape[1], 0
    blocks, asked = words * 4, _block_values(fingerprints)
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, words), np.uint64)
    while turn < len(order) and count < hits_max:
        row, probe = order[turn] // probes, order[turn] % probes
        turn += 1
        table, value = np.int64(keys[row, probe] >> 16), np.int64(keys[row, probe] & 0xFFFF)
        following = np.int64(asked[row, (table + 1) % blocks])
        for chunk in range(spans.begins[row, probe], spans.ends[row, probe]):
            size = _count_at(spans.addresses[chunk])
            columns = _chunk_at(spans.addresses[chunk], blocks, size)
            begin = _first_place(columns[0], value)
            hot = begin + HOT_ENTRIES < size and columns[0, begin + HOT_ENTRIES] == value
            for off in range(256 if hot else 1):
                low, high = begin, size
                if hot:
                    # A bucket is sorted by the next block: all that have its top byte so far off stand together.
                    if _bits(off) > allowed[probe]:
                        continue
                    bucket_end = _lower(columns[0], value + 1, begin, size)
                    top = (following >> 8 ^ off) << 8
                    low = _lower(columns[1], top, begin, bucket_end)
                    high = _lower(columns[1], top + 256, low, bucket_end)
                for entry in range(low, high):
                    if columns[0, entry] != value:
                        break
                    if _bits(np.int64(columns[1, entry]) ^ following) > allowed[probe]:
                        continue
                    distance = 0
                    for block in range(blocks):
                        distance += _bits(asked[row, (table + block) % blocks] ^ columns[block, entry])
                    compared[row] += 1
                    if distance > best[row]:
                        continue
                    if count == len(rows):
                        rows, distances, found = _grown(rows), _grown(distances), _grown(found)
                    found[count] = 0
                    for block in range(blocks):
                        own = (table + block) % blocks
                        found[count, own >> 2] |= np.uint64(columns[block, entry]) << np.uint64(48 - 16 * (own & 3))
                    if nearest_only:
                        best[row] = distance
                    rows[count], distances[count] = row, distance
                    count += 1
    return rows[:count], distances[:count], found[:count], turn


@compiled
def _equal_span(columns: npt.NDArray[np.uint16], asked: npt.NDArray[np.uint16]) -> tuple[int, int]:
    """The places [low, high) in a chunk, uint16 [columns, n], of the entries that begin with these values."""
    low = _first_place(columns[0], np.int64(asked[0]))
    high = _lower(columns[0], np.int64(asked[0]) + 1, low, min(low + 64, columns.shape[1]))
    if high == low + 64:
        high = _first_place(columns[0], np.int64(asked[0]) + 1)
    for column in range(1, len(asked)):
        value = np.int64(asked[column])
        low = _lower(columns[column], value, low, high)
        high = _lower(columns[column], value + 1, low, high)
    return low, high


@compiled
def places_in_chunks(
    fingerprints: npt.NDArray[np.uint64], spans: Spans
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """SimHash: where fingerprints stand in chunks of table 0; the spans are int64 [n, 1].

    Gives the chunk and the place in it, int64 [n] twice; -1: nowhere.
    """
    asked = _block_values(fingerprints)
    chunks, places = np.full(len(asked), -1, np.int64), np.full(len(asked), -1, np.int64)
    for row in range(len(asked)):
        for chunk in range(spans.begins[row, 0], spans.ends[row, 0]):
            size = _count_at(spans.addresses[chunk])
            low, high = _equal_span(_chunk_at(spans.addresses[chunk], asked.shape[1], size), asked[row])
            if low < high:
                chunks[row], places[row] = chunk, low
    return chunks, places


@compiled
def page_candidates(
    keys: npt.NDArray[np.uint32], pages: Pages, met: npt.NDArray[np.int64], row: int, hits_max: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """MinHash: the entries with one of the page keys of a row, uint32 [n, tables], each once.

    met  int64 [capacity], the row that an entry was found for last

    Gives rows and places, int64 [m] twice, and the row to go on at: begins at `row`, and stops behind the one that makes
    it `hits_max`.
    """
    rows, places = np.empty(1024, np.int64), np.empty(1024, np.int64)
    count = 0
    while row < keys.shape[0] and count < hits_max:
        for table in range(keys.shape[1]):
            page = pages.heads[table, keys[row, table] >> 16]
            while page >= 0:
                for slot in range(pages.links[page, 1]):
                    place = pages.places[page, slot]
                    if pages.following[page, slot] != keys[row, table] & 0xFFFF or met[place] == row:
                        continue
                    if count == len(rows):
                        rows, places = _grown(rows), _grown(places)
                    met[place], rows[count], places[count] = row, row, place
                    count += 1
                page = pages.links[page, 0]
        row += 1
    return rows[:count], places[:count], row


@compiled
def chunk_candidates(
    keys: npt.NDArray[np.uint32], spans: Spans, turn: int, passed: int, hits_max: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], int, int]:
    """MinHash: the numbers of the entries with one of the page keys of a row, as often as they have one.

    turn    begin at this place of the n * tables keys, row by row
    passed  so many entries of this key were given before

    Gives rows int64 and numbers uint64 of at most `hits_max`, and where to go on: turn and passed.
    """
    rows, numbers = np.empty(1024, np.int64), np.empty(1024, np.uint64)
    count, tables, asked = 0, keys.shape[1], np.empty(2, np.uint16)
    while turn < keys.size:
        row, table = turn // tables, turn % tables
        asked[0], asked[1] = keys[row, table] >> 16, keys[row, table] & 0xFFFF
        before = 0
        for chunk in range(spans.begins[row, table], spans.ends[row, table]):
            columns = _chunk_at(spans.addresses[chunk], 5, _count_at(spans.addresses[chunk]))
            low, high = _equal_span(columns, asked)
            for entry in range(low + max(0, passed - before), high):
                if count == hits_max:
                    return rows[:count], numbers[:count], turn, before + entry - low
                if count == len(rows):
                    rows, numbers = _grown(rows), _grown(numbers)
                rows[count], numbers[count] = row, 0
                for column in range(2, 5):
                    numbers[count] = numbers[count] << np.uint64(16) | np.uint64(columns[column, entry])
                count += 1
            before += high - low
        turn, passed = turn + 1, 0
    return rows[:count], numbers[:count], turn, 0
