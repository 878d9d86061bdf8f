"""Compiled loops of a memtable: filing entries in its pages, and merging them into segments. See `index.kernels`."""

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled
from index.kernels.scan import Pages


@compiled
def file_entries(keys: npt.NDArray[np.uint32], begin: int, pages: Pages, page_count: int) -> int:
    """File entries with the places from `begin` on under their page keys, uint32 [n, tables]; changes pages.

    page_count  pages in use; n * tables further ones must exist

    Gives the pages in use afterwards.
    """
    for row in range(keys.shape[0]):
        for table in range(keys.shape[1]):
            value = keys[row, table] >> 16
            page = pages.heads[table, value]
            if page < 0 or pages.links[page, 1] == pages.places.shape[1]:
                pages.links[page_count, 0], pages.links[page_count, 1] = page, 0
                page = page_count
                page_count += 1
                pages.heads[table, value] = page
            slot = pages.links[page, 1]
            pages.following[page, slot] = keys[row, table] & 0xFFFF
            pages.places[page, slot] = begin + row
            pages.links[page, 1] = slot + 1
    return page_count


@compiled
def take_back(keys: npt.NDArray[np.uint32], pages: Pages, page_count: int) -> int:
    """The reverse of `file_entries` for the entries filed last; gives the pages in use afterwards."""
    for row in range(keys.shape[0] - 1, -1, -1):
        for table in range(keys.shape[1] - 1, -1, -1):
            value = keys[row, table] >> 16
            page = pages.heads[table, value]
            pages.links[page, 1] -= 1
            if pages.links[page, 1] == 0:
                pages.heads[table, value] = pages.links[page, 0]
                page_count -= 1
    return page_count


@compiled
def gathered(
    pages: Pages, table: int, begin: int, end: int, count_max: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], int]:
    """Entries in the buckets of a table from `begin` to below `end`, which are high halves of page keys.

    Stops before the first bucket that finds `count_max` entries gathered. Gives places int32 [m], in no promised order,
    page keys uint32 [m], and the bucket to go on at; `end`: none is left.
    """
    count, stopped = 0, begin
    while stopped < end and count < count_max:
        page = pages.heads[table, stopped]
        while page >= 0:
            count += pages.links[page, 1]
            page = pages.links[page, 0]
        stopped += 1
    places, keys, count = np.empty(count, np.int32), np.empty(count, np.uint32), 0
    for value in range(begin, stopped):
        page = pages.heads[table, value]
        while page >= 0:
            for slot in range(pages.links[page, 1]):
                places[count] = pages.places[page, slot]
                keys[count] = np.uint32(value) << np.uint32(16) | np.uint32(pages.following[page, slot])
                count += 1
            page = pages.links[page, 0]
    return places, keys, stopped


@compiled
def _order(left: npt.NDArray[np.uint16], one: int, right: npt.NDArray[np.uint16], other: int) -> int:
    """-1, 0 or 1: entry `one` of left, uint16 [columns, n], is below entry `other` of right, equal, or above."""
    for column in range(left.shape[0]):
        if left[column, one] != right[column, other]:
            return -1 if left[column, one] < right[column, other] else 1
    return 0


@compiled
def merged(
    old: npt.NDArray[np.uint16],
    old_numbers: npt.NDArray[np.uint64],
    new: npt.NDArray[np.uint16],
    new_numbers: npt.NDArray[np.uint64],
    removed: npt.NDArray[np.uint16],
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
    """Old entries without the removed ones, merged with new entries: columns uint16 [columns, m] and numbers uint64 [m].

    Old, new and removed entries are uint16 [columns, n] each, ascending. Both numbers may have length 0; so has the result
    then.
    """
    total, kept_numbers = old.shape[1] + new.shape[1], len(old_numbers) + len(new_numbers)
    columns, numbers = np.empty((old.shape[0], total), np.uint16), np.empty(kept_numbers, np.uint64)
    left, right, gone, count = 0, 0, 0, 0
    while left < old.shape[1] or right < new.shape[1]:
        if left < old.shape[1]:
            while gone < removed.shape[1] and _order(removed, gone, old, left) < 0:
                gone += 1
            if gone < removed.shape[1] and _order(removed, gone, old, left) == 0:
                left += 1
                continue
        old_first = right == new.shape[1] or (left < old.shape[1] and _order(old, left, new, right) < 0)
        for column in range(old.shape[0]):
            columns[column, count] = old[column, left] if old_first else new[column, right]
        if kept_numbers:
            numbers[count] = old_numbers[left] if old_first else new_numbers[right]
        left, right, count = left + old_first, right + (not old_first), count + 1
    return columns[:, :count], numbers[: min(count, kept_numbers)]
