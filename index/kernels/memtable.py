"""Memtable: filing entries in its pages, and gathering them for segments."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, prefetch
from index.kernels.scan import DIVIDED, PARTS, Pages, prefetch_page

SORTED_MAX = 64
"""Entries in a bucket that insertion sorts: the cost grows with their number squared."""


PAGES_AHEAD = 3
"""Bucket pages to load ahead."""

BUCKETS_APART = 3
"""Buckets between two successive page prefetches."""

ROWS_AHEAD = 2
"""Rows between a page's prefetch and its use; the heads load as many rows earlier."""

ENTRIES_AHEAD = 16
"""Entries between a prefetch and its use."""


@compiled
def _page_of(pages: Pages, table: int, key: Any) -> Any:
    head = np.int64(pages.heads[table, key >> 16])
    return np.int64(pages.parts[DIVIDED - head, (key >> 8) & 0xFF]) if head <= DIVIDED else head


@compiled
def _put_page(pages: Pages, table: int, key: Any, page: Any) -> None:
    head = np.int64(pages.heads[table, key >> 16])
    if head <= DIVIDED:
        pages.parts[DIVIDED - head, (key >> 8) & 0xFF] = page
    else:
        pages.heads[table, key >> 16] = page


@compiled
def file_entries(keys: npt.NDArray[np.uint32], begin: int, pages: Pages, hot_entries: int) -> None:
    """File entries with places from `begin` on under their page keys, uint32 [n, tables]; changes pages.

    Requires n * tables free pages, and a free division for every `hot_entries` entries in all tables.

    hot_entries  a bucket with this many entries is divided before the next one
    """
    size, heads, buckets = pages.places.shape[1], np.uint64(pages.heads.ctypes.data), pages.heads.shape[1]
    for row in range(keys.shape[0]):
        if row + 2 * ROWS_AHEAD < keys.shape[0]:
            for table in range(keys.shape[1]):
                bucket = np.int64(keys[row + 2 * ROWS_AHEAD, table]) >> 16
                prefetch(heads + np.uint64(4 * (table * buckets + bucket)))
        if row + ROWS_AHEAD < keys.shape[0]:
            for table in range(keys.shape[1]):
                prefetch_page(pages, _page_of(pages, table, np.int64(keys[row + ROWS_AHEAD, table])))
        for table in range(keys.shape[1]):
            key = np.int64(keys[row, table])
            page = _page_of(pages, table, key)
            # A full or missing page gets a new one in front. Only a head page has room.
            if page < 0 or pages.links[page, 1] == size:
                older, page = page, np.int64(pages.used[0])
                pages.used[0] += 1
                depth = np.int64(0) if older < 0 else np.int64(pages.links[older, 2]) + 1
                pages.links[page, 0], pages.links[page, 1], pages.links[page, 2] = older, 0, depth
                # A lookup reads a whole chain. From here on, later entries go to parts by their next byte, so it reads
                # a few parts.
                if depth * size >= hot_entries and pages.heads[table, key >> 16] > DIVIDED:
                    division = np.int64(pages.used[1])
                    pages.used[1] += 1
                    pages.parts[division], pages.firsts[division] = older, page
                    pages.heads[table, key >> 16] = DIVIDED - division
                _put_page(pages, table, key, page)
            slot = pages.links[page, 1]
            pages.following[page, slot] = key & 0xFFFF
            pages.places[page, slot] = begin + row
            pages.links[page, 1] = slot + 1


@compiled
def take_back(keys: npt.NDArray[np.uint32], pages: Pages) -> None:
    """Revert `file_entries` for the entries filed last."""
    # Backwards: the last page in use is always the next one to free.
    for row in range(keys.shape[0] - 1, -1, -1):
        for table in range(keys.shape[1] - 1, -1, -1):
            key = np.int64(keys[row, table])
            page = _page_of(pages, table, key)
            pages.links[page, 1] -= 1
            if pages.links[page, 1]:
                continue
            pages.used[0] -= 1
            # The page that divided the bucket leaves, so the bucket is whole again.
            if pages.used[1] and pages.firsts[pages.used[1] - 1] == page:
                pages.used[1] -= 1
                pages.heads[table, key >> 16] = pages.links[page, 0]
            else:
                _put_page(pages, table, key, pages.links[page, 0])


@compiled
def _chain(pages: Pages, table: int, bucket: int, part: int) -> Any:
    """Newest page in a bucket's part, and the page past its last one; -1: none.

    Part 0 also has the entries from before the division. In an undivided bucket it has all.
    """
    head = np.int64(pages.heads[table, bucket])
    if head > DIVIDED:
        return (head if part == 0 else np.int64(-1)), np.int64(-1)
    division = DIVIDED - head
    return np.int64(pages.parts[division, part]), np.int64(pages.links[pages.firsts[division], 0] if part else -1)


@compiled
def _gathered(
    pages: Pages, table: int, begin: int, end: int, count_max: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], int]:
    """Entries in the buckets from `begin` to below `end` in a table; buckets are page keys' high halves.

    Stops before the first bucket after `count_max` entries. Returns places int32 [m], unordered, page keys uint32 [m],
    and the bucket to go on at; `end`: all done.
    """
    count, stopped = 0, begin
    while stopped < end and count < count_max:
        # Prefetch a distant bucket's newest page, a closer one's second page, and so on.
        for depth in range(PAGES_AHEAD):
            bucket = stopped + (PAGES_AHEAD - depth) * BUCKETS_APART
            if bucket < end:
                page = np.int64(pages.heads[table, bucket])
                for _ in range(depth):
                    page = np.int64(pages.links[page, 0]) if page >= 0 else page
                prefetch_page(pages, page)
        for part in range(PARTS if pages.heads[table, stopped] <= DIVIDED else 1):
            page, behind = _chain(pages, table, stopped, part)
            while page != behind:
                count += pages.links[page, 1]
                page = np.int64(pages.links[page, 0])
        stopped += 1
    # The first pass counted the entries, so the columns have their final length.
    places, keys, count = np.empty(count, np.int32), np.empty(count, np.uint32), 0
    for value in range(begin, stopped):
        for part in range(PARTS if pages.heads[table, value] <= DIVIDED else 1):
            page, behind = _chain(pages, table, value, part)
            while page != behind:
                for slot in range(pages.links[page, 1]):
                    places[count] = pages.places[page, slot]
                    keys[count] = np.uint32(value) << np.uint32(16) | np.uint32(pages.following[page, slot])
                    count += 1
                page = np.int64(pages.links[page, 0])
    return places, keys, stopped


@compiled
def gathered(
    pages: Pages,
    rests: npt.NDArray[np.uint8],
    numbers: npt.NDArray[np.uint64],
    table: int,
    begin: int,
    end: int,
    count_max: int,
) -> tuple[npt.NDArray[np.uint64], int]:
    """As `_gathered`, but the entries: uint64 [2, m], hashes and numbers, ascending except in large buckets.

    rests    uint8 [capacity, tables], hash bits below those in the page keys
    numbers  uint64 [capacity]
    """
    places, keys, stopped = _gathered(pages, table, begin, end, count_max)
    found, bucket = np.empty((2, len(places)), np.uint64), 0
    rests_address, numbers_address = np.uint64(rests.ctypes.data), np.uint64(numbers.ctypes.data)
    for count in range(len(places)):
        if count + ENTRIES_AHEAD < len(places):
            ahead = np.int64(places[count + ENTRIES_AHEAD])
            prefetch(rests_address + np.uint64(ahead * rests.shape[1] + table))
            prefetch(numbers_address + np.uint64(8 * ahead))
        place = places[count]
        # Page key 0xABCD1234, rest 0x56: the hash is 0xABCD123456 at the top of the word.
        hashed = np.uint64(keys[count]) << np.uint64(32) | np.uint64(rests[place, table]) << np.uint64(24)
        number, to = numbers[place], count
        if count and keys[count] >> np.uint32(16) != keys[count - 1] >> np.uint32(16):
            bucket = count
        while (
            to > bucket
            and count - bucket < SORTED_MAX
            and (found[0, to - 1] > hashed or (found[0, to - 1] == hashed and found[1, to - 1] > number))
        ):
            found[0, to], found[1, to] = found[0, to - 1], found[1, to - 1]
            to -= 1
        found[0, to], found[1, to] = hashed, number
    return found, stopped
