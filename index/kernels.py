"""Loops over whole batches, compiled. The only importer of numba; pure functions of arrays.

The fingerprints of the arguments are uint64 [n, words]; a key is a table times 65,536 plus the value of a block, as
`blocks.probe_keys` makes them. A chunk is named by the address of its first byte, as `layout` draws it: whoever calls
promises that it stays there during the call.

Where a column meets a number of Python's, the number is turned into the column's type first: numba makes a float of
uint64 with int64.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Hits = tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.uint64], int]


def compiled(function: Function) -> Function:
    """The function as machine code, made at its first call and kept on disk for the next process."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def _pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """An address, uint64, as a pointer to uint16."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint16)(types.uint64), code  # type: ignore[no-untyped-call]


_columns_at: Any = intrinsic(_pointer)
_array: Any = numba.carray  # type: ignore[attr-defined]


@compiled
def _count_at(address: Any) -> Any:
    """How many entries a chunk has."""
    halves = _array(_columns_at(address), 2)
    return np.int64(halves[0]) | np.int64(halves[1]) << 16


@compiled
def _chunk_at(address: Any, blocks: int, count: int) -> Any:
    """The columns of a chunk where they stand: uint16 [blocks, count]."""
    return _array(_columns_at(address + np.uint64(8)), (blocks, count))


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
def _bits(value: Any) -> Any:
    """How many bits of a uint64 are set (Warren, Hacker's Delight, 5-1)."""
    value = np.uint64(value)
    value = value - ((value >> np.uint64(1)) & np.uint64(0x5555555555555555))
    value = (value & np.uint64(0x3333333333333333)) + ((value >> np.uint64(2)) & np.uint64(0x3333333333333333))
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((value * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _grown(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column twice as long that begins with this one."""
    larger = np.empty((column.shape[0] * 2, *column.shape[1:]), column.dtype)
    larger[: column.shape[0]] = column
    return larger


@compiled
def block_values(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """The blocks of fingerprints, block 0 the top 16 bits of word 0: uint16 [n, words * 4]."""
    count, words = fingerprints.shape
    values = np.empty((count, words * 4), np.uint16)
    for row in range(count):
        for block in range(words * 4):
            shift = np.uint64(48 - 16 * (block & 3))
            values[row, block] = np.uint16((fingerprints[row, block >> 2] >> shift) & np.uint64(0xFFFF))
    return values


PAGE_ENTRIES = 16


@compiled
def file_entries(
    fingerprints: npt.NDArray[np.uint64],
    begin: int,
    heads: npt.NDArray[np.int32],
    links: npt.NDArray[np.int32],
    following: npt.NDArray[np.uint16],
    places: npt.NDArray[np.int32],
    page_count: int,
) -> int:
    """File fingerprints from place `begin` on in the pages of their blocks; gives the pages in use then.

    heads      int32 [blocks, 65536], the newest page of a bucket, -1: the bucket is empty
    links      int32 [pages, 2], the next older page of the bucket or -1, and the entries in this one
    following  uint16 [pages, PAGE_ENTRIES], the block behind the one an entry is filed by
    places     int32 [pages, PAGE_ENTRIES], its place in `fingerprints`

    All pages but a bucket's newest are full. There must be as many unused pages as there are blocks to file.
    """
    values = block_values(fingerprints[begin:])
    blocks = values.shape[1]
    for row in range(values.shape[0]):
        for block in range(blocks):
            page = heads[block, values[row, block]]
            if page < 0 or links[page, 1] == PAGE_ENTRIES:
                links[page_count, 0], links[page_count, 1] = page, 0
                page = page_count
                page_count += 1
                heads[block, values[row, block]] = page
            slot = links[page, 1]
            following[page, slot] = values[row, (block + 1) % blocks]
            places[page, slot] = begin + row
            links[page, 1] = slot + 1
    return page_count


@compiled
def take_back(
    fingerprints: npt.NDArray[np.uint64],
    begin: int,
    heads: npt.NDArray[np.int32],
    links: npt.NDArray[np.int32],
    page_count: int,
) -> int:
    """The reverse of `file_entries`, for the fingerprints filed last; gives the pages in use then."""
    values = block_values(fingerprints[begin:])
    for row in range(values.shape[0] - 1, -1, -1):
        for block in range(values.shape[1] - 1, -1, -1):
            page = heads[block, values[row, block]]
            links[page, 1] -= 1
            if links[page, 1] == 0:
                heads[block, values[row, block]] = links[page, 0]
                page_count -= 1
    return page_count


@compiled
def gathered(
    heads: npt.NDArray[np.int32],
    links: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    begin: int,
    end: int,
    count_max: int,
) -> tuple[npt.NDArray[np.int32], int]:
    """The places of the entries in the buckets of one block, for its values from `begin` to below `end`.

    heads      int32 [65536], of that block
    count_max  stop before a value that would begin with as many gathered

    Gives int32 [m] in no promised order, and the value not looked at any more (`end` where all were).
    """
    found = np.empty(1024, np.int32)
    count = 0
    for value in range(begin, end):
        if count >= count_max:
            return found[:count], value
        page = heads[value]
        while page >= 0:
            if count + PAGE_ENTRIES > len(found):
                found = _grown(found)
            for slot in range(links[page, 1]):
                found[count] = places[page, slot]
                count += 1
            page = links[page, 0]
    return found[:count], end


@compiled
def scan_pages(
    fingerprints: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint32],
    filed: npt.NDArray[np.uint64],
    heads: npt.NDArray[np.int32],
    links: npt.NDArray[np.int32],
    following: npt.NDArray[np.uint16],
    places: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    ringed: npt.NDArray[np.bool_],
    nearest_only: bool,
    best: npt.NDArray[np.int16],
    compared: npt.NDArray[np.int64],
    row: int,
    hits_max: int,
) -> Hits:
    """Compare rows with the entries that their keys name in pages, see `file_entries`.

    keys      uint32 [n, probes]
    filed     uint64 [capacity, words], the fingerprints in the pages
    ends      int64 [n], entries from this place on are no hits of the row
    ringed    bool [blocks], in these tables only entries whose next block differs in at most one bit are compared
    best      int16 [n], a hit lies at most so far; with `nearest_only` lowered to the distance of every hit
    compared  int64 [n], raised by the comparisons made
    row       begin at this row; stop behind the row that makes it `hits_max` hits

    Gives rows int64, distances int16 and places (as uint64 [m, 1]) of the hits, and the row to go on at.
    """
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, 1), np.uint64)
    asked = block_values(fingerprints)
    count, words, blocks = 0, fingerprints.shape[1], asked.shape[1]
    while row < keys.shape[0] and count < hits_max:
        for probe in range(keys.shape[1]):
            table = np.int64(keys[row, probe] >> 16)
            page = heads[table, keys[row, probe] & 0xFFFF]
            next_block = asked[row, (table + 1) % blocks]
            filtered = ringed[table]
            while page >= 0:
                for slot in range(links[page, 1]):
                    off = following[page, slot] ^ next_block
                    if filtered and off & (off - 1):
                        continue
                    place = places[page, slot]
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
                page = links[page, 0]
        row += 1
    return rows[:count], distances[:count], found[:count], row


@compiled
def scan_chunks(
    fingerprints: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint32],
    order: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    ringed: npt.NDArray[np.bool_],
    nearest_only: bool,
    best: npt.NDArray[np.int16],
    compared: npt.NDArray[np.int64],
    turn: int,
    hits_max: int,
) -> Hits:
    """Compare rows with the entries that their keys name in chunks. As `scan_pages`, but for:

    order         int64 [n * probes], the places in `keys` in the order to look them up: fastest as they ascend, for
                  neighbours are in the cache then
    turn          begin at this place of `order`, and stop behind the one that makes it `hits_max` hits
    begins, ends  int64 [n, probes], the chunks, as places in `addresses`, that may hold entries of a key
    addresses     uint64 [c]; of a chunk that no probe asks for it is not read

    Gives the fingerprints of the hits, uint64 [m, words], where `scan_pages` gives places, and the turn to go on at.
    """
    words = fingerprints.shape[1]
    blocks = words * 4
    asked = block_values(fingerprints)
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, words), np.uint64)
    count = 0
    probes = keys.shape[1]
    while turn < len(order) and count < hits_max:
        row, probe = order[turn] // probes, order[turn] % probes
        turn += 1
        table, value = np.int64(keys[row, probe] >> 16), np.int64(keys[row, probe] & 0xFFFF)
        following = asked[row, (table + 1) % blocks]
        filtered = ringed[table]
        for chunk in range(begins[row, probe], ends[row, probe]):
            size = _count_at(addresses[chunk])
            columns = _chunk_at(addresses[chunk], blocks, size)
            for entry in range(_first_place(columns[0], value), size):
                if columns[0, entry] != value:
                    break
                off = columns[1, entry] ^ following
                if filtered and off & (off - 1):
                    continue
                distance = 0
                for block in range(blocks):
                    distance += _bits(asked[row, (table + block) % blocks] ^ columns[block, entry])
                compared[row] += 1
                if distance > best[row]:
                    continue
                if count == len(rows):
                    rows, distances, found = _grown(rows), _grown(distances), _grown(found)
                for word in range(words):
                    found[count, word] = 0
                for block in range(blocks):
                    own = (table + block) % blocks
                    part = np.uint64(columns[block, entry]) << np.uint64(48 - 16 * (own & 3))
                    found[count, own >> 2] |= part
                if nearest_only:
                    best[row] = distance
                rows[count], distances[count] = row, distance
                count += 1
    return rows[:count], distances[:count], found[:count], turn


@compiled
def places_in_chunks(
    fingerprints: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where fingerprints stand in chunks of table 0: the chunk and the place in it, int64 [n] twice; -1: nowhere.

    begins, ends  int64 [n], the chunks that may hold them
    """
    asked = block_values(fingerprints)
    chunks, places = np.full(len(asked), -1, np.int64), np.full(len(asked), -1, np.int64)
    blocks = asked.shape[1]
    for row in range(len(asked)):
        for chunk in range(begins[row], ends[row]):
            size = _count_at(addresses[chunk])
            columns = _chunk_at(addresses[chunk], blocks, size)
            low, high = 0, size
            for block in range(blocks):
                value = np.int64(asked[row, block])
                low = _lower(columns[block], value, low, high)
                high = _lower(columns[block], value + 1, low, high)
            if low < high:
                chunks[row], places[row] = chunk, low
    return chunks, places


@compiled
def merged(
    old: npt.NDArray[np.uint16],
    old_numbers: npt.NDArray[np.uint64],
    new: npt.NDArray[np.uint16],
    new_numbers: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
    """Two ascending lots of entries as one: columns uint16 [blocks, n], by the first column, then the next; numbers.

    Numbers may be missing from both (length 0).
    """
    blocks, count, total = old.shape[0], old.shape[1], old.shape[1] + new.shape[1]
    columns, numbers = np.empty((blocks, total), np.uint16), np.empty(len(old_numbers) + len(new_numbers), np.uint64)
    left, right = 0, 0
    for place in range(total):
        old_first = right == new.shape[1]
        if left < count and not old_first:
            for block in range(blocks):
                if old[block, left] != new[block, right]:
                    old_first = old[block, left] < new[block, right]
                    break
        if old_first:
            for block in range(blocks):
                columns[block, place] = old[block, left]
            if len(numbers):
                numbers[place] = old_numbers[left]
            left += 1
        else:
            for block in range(blocks):
                columns[block, place] = new[block, right]
            if len(numbers):
                numbers[place] = new_numbers[right]
            right += 1
    return columns, numbers
