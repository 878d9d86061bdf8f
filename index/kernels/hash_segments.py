"""Segments of hashes and numbers, packed by `index.storage.segments.hash_codec`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.checksums import xxh64_of
from index.kernels.columns import grown
from index.kernels.jit import array_at, compiled, ones, pointer_at, prefetch, word_at
from index.kernels.scan import Probes

AT_ONCE = 64
"""Keys looked up together: enough to keep the memory busy."""

LOW_BITS = 24
"""Bits below a hash in its word."""

HEAD_WORDS = 5
"""Head words before the number checksums."""

BLOCK_WORDS = 512
"""Number words under one checksum: 4 KiB."""

HOT_ENTRIES = 128
"""In a bucket with more entries, twice as many for each differing bit, a look-up reads only what may be near enough."""


@compiled
def _checksum_of(words: npt.NDArray[np.uint64], seed: Any) -> Any:
    octets = words.view(np.uint8)
    return xxh64_of(octets, 0, len(octets), np.uint64(seed))


@compiled
def _bits_at(column: Any, place: Any, bits: Any) -> Any:
    """Value `place` in a column of `bits` bits each, at most 56: uint64. Reads up to a word past the last one.

    column  its address: counting references to an array at every call would take ten times as long as all the rest
    """
    # Bits 10, place 13: the value begins at bit 130, that is, 2 bits into byte 16.
    bit = np.uint64(place) * np.uint64(bits)
    value = word_at(column + (bit >> np.uint64(3))) >> (bit & np.uint64(7))
    return value & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))


@compiled
def _words_at(address: Any, count: Any) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = array_at(pointer_at(address), count * 4).view(np.uint64)
    return words


@compiled
def shape_at(address: Any) -> Any:
    """Entries, rest bits, number bits, parts, and the first words of starts, rests and numbers."""
    one, three = word_at(address + np.uint64(8)), word_at(address + np.uint64(24))
    count, bits = np.int64(one & np.uint64(0xFFFFFFFF)), one >> np.uint64(32)
    rest_bits, number_bits = np.int64(bits & np.uint64(0xFF)), np.int64((bits >> np.uint64(8)) & np.uint64(0xFF))
    parts, rests = np.int64(three & np.uint64(0xFFFFFFFF)), np.int64(three >> np.uint64(32))
    numbers = rests + ((count * rest_bits + 63) >> 6) + 1
    return count, rest_bits, number_bits, parts, np.int64(bits >> np.uint64(16)), rests, numbers


@compiled
def fill(
    words: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.uint64],
    key: npt.NDArray[np.uint64],
) -> None:
    """Fill in a segment's columns and checksums, uint64 [w], by the shape in its head.

    hashes, numbers  uint64 [n] each, ascending
    key              uint64 [3], the segment's key
    """
    count, rest_bits, number_bits, parts, starts, rests, at_numbers = shape_at(np.uint64(words.ctypes.data))
    part_starts, part, base = words[starts:rests].view(np.uint32), 0, words[2]
    mask = (np.uint64(1) << np.uint64(rest_bits)) - np.uint64(1)
    # Each column's last word stays in a register until full: reading it back would wait for the write.
    rest_word, rest_used, rest_held = rests, 0, np.uint64(0)
    number_word, number_used, number_held = at_numbers, 0, np.uint64(0)
    for place in range(count):
        # With 4 rest bits, offset 0x2F is part 2 and rest 0xF.
        off = (hashes[place] - base) >> np.uint64(LOW_BITS)
        own = np.int64(off >> np.uint64(rest_bits))
        # Empty parts begin at the next part's first entry.
        while part < own:
            part += 1
            part_starts[part] = place
        rest, number = off & mask, numbers[place]
        rest_held |= rest << np.uint64(rest_used)
        rest_used += rest_bits
        if rest_used >= 64:
            words[rest_word] = rest_held
            rest_word, rest_used = rest_word + 1, rest_used - 64
            rest_held = rest >> np.uint64(rest_bits - rest_used)
        number_held |= number << np.uint64(number_used)
        number_used += number_bits
        if number_used >= 64:
            words[number_word] = number_held
            number_word, number_used = number_word + 1, number_used - 64
            number_held = number >> np.uint64(number_bits - number_used)
    if rest_used:
        words[rest_word] = rest_held
    if number_used:
        words[number_word] = number_held
    while part < parts:
        part += 1
        part_starts[part] = count
    end = at_numbers + ((count * number_bits + 63) >> 6)
    for block in range(HEAD_WORDS, starts):
        begin = at_numbers + (block - HEAD_WORDS) * BLOCK_WORDS
        words[block] = _checksum_of(words[begin : min(end, begin + BLOCK_WORDS)], np.uint64(block))
    words[4] = _checksum_of(words[starts:at_numbers], np.uint64(0))
    words[0] = _checksum_of(words[1:starts], _checksum_of(key, np.uint64(0)))


@compiled
def _fits(words: npt.NDArray[np.uint64]) -> bool:
    """Whether a segment's head fits its length."""
    if len(words) <= HEAD_WORDS:
        return False
    count, rest_bits, number_bits, parts, starts, rests, at_numbers = shape_at(np.uint64(words.ctypes.data))
    if rest_bits > 40 or number_bits > 40 or not HEAD_WORDS <= starts < rests:
        return False
    return bool(
        rests - starts == (parts + 2) >> 1 and at_numbers + ((count * number_bits + 63) >> 6) < len(words) and count > 0
    )


@compiled
def _first_from(entries: npt.NDArray[np.uint64], low: Any, bound: npt.NDArray[np.uint64]) -> Any:
    """First place from `low` on in entries uint64 [2, n], ascending, not below a bound, uint64 [2] or [0]."""
    high = entries.shape[1]
    if len(bound) == 0:
        return high
    while low < high:
        middle = (low + high) >> 1
        if entries[0, middle] < bound[0] or (entries[0, middle] == bound[0] and entries[1, middle] < bound[1]):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def merged_entries(
    words: npt.NDArray[np.uint64],
    new: npt.NDArray[np.uint64],
    removed: npt.NDArray[np.uint64],
    other: int,
    gone: int,
    bound: npt.NDArray[np.uint64],
    first_number: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int, int, int]:
    """Merge a segment's entries, without the removed ones, with new entries below a bound.

    words         uint64 [w], the segment; w = 0: no segment
    new, removed  uint64 [2, n] each, hashes and numbers, ascending
    other, gone   first places to use in `new` and `removed`
    bound         uint64 [2], hash and number; uint64 [0]: no bound
    first_number  drops the segment's entries with lower numbers

    Returns the merged entries, and the removed entries missing from the segment; the places after the last new and the
    last removed entry below the bound; and the segment's entry count, -1 if its head does not fit its length.
    """
    nothing, count, size = np.empty((2, 0), np.uint64), 0, 0
    if len(words):
        if not _fits(words):
            return nothing, nothing, other, gone, -1
        size = shape_at(np.uint64(words.ctypes.data))[0]
    new_end, gone_end = _first_from(new, other, bound), _first_from(removed, gone, bound)
    found, left = np.empty((2, size + new_end - other), np.uint64), np.empty((2, gone_end - gone), np.uint64)
    hashes, numbers, new_hashes, new_numbers, absent = found[0], found[1], new[0], new[1], 0
    if size:
        _, rest_bits, number_bits, parts, starts, rests, at_numbers = shape_at(np.uint64(words.ctypes.data))
        part_starts, base_address = words[starts:rests].view(np.uint32), np.uint64(words.ctypes.data)
        rests_address, numbers_address = base_address + np.uint64(8 * rests), base_address + np.uint64(8 * at_numbers)
        place = 0
        for part in range(parts):
            base = words[2] + ((np.uint64(part) << np.uint64(rest_bits)) << np.uint64(LOW_BITS))
            end = min(np.int64(size), np.int64(part_starts[part + 1]))
            # Old 2 5 8, new 3, removed 5 6: 3 enters before 5, 5 cancels out, and 6 is absent when 8 comes.
            while place < end:
                hashed = base + (_bits_at(rests_address, place, rest_bits) << np.uint64(LOW_BITS))
                number = _bits_at(numbers_address, place, number_bits)
                place += 1
                while other < new_end and (
                    new_hashes[other] < hashed or (new_hashes[other] == hashed and new_numbers[other] < number)
                ):
                    hashes[count], numbers[count] = new_hashes[other], new_numbers[other]
                    other, count = other + 1, count + 1
                while gone < gone_end and (
                    removed[0, gone] < hashed or (removed[0, gone] == hashed and removed[1, gone] < number)
                ):
                    left[0, absent], left[1, absent] = removed[0, gone], removed[1, gone]
                    gone, absent = gone + 1, absent + 1
                if gone < gone_end and removed[0, gone] == hashed and removed[1, gone] == number:
                    gone += 1
                    continue
                if number < np.uint64(first_number):
                    continue
                hashes[count], numbers[count] = hashed, number
                count += 1
    while other < new_end:
        hashes[count], numbers[count] = new_hashes[other], new_numbers[other]
        other, count = other + 1, count + 1
    while gone < gone_end:
        left[0, absent], left[1, absent] = removed[0, gone], removed[1, gone]
        gone, absent = gone + 1, absent + 1
    return found[:, :count], left[:, :absent], other, gone, size


@compiled
def unpacked(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A segment's hashes and numbers, uint64 [2, n]; empty if its head does not fit its length."""
    nothing = np.empty((2, 0), np.uint64)
    return merged_entries(words, nothing, nothing, 0, 0, np.empty(0, np.uint64), 0)[0] if _fits(words) else nothing


@compiled
def _is_sound(words: npt.NDArray[np.uint64], size: Any, key: npt.NDArray[np.uint64]) -> bool:
    """Whether a segment's head and search columns match their checksums; size: in words."""
    starts = np.int64(words[1] >> np.uint64(48))
    if not HEAD_WORDS <= starts < size or words[0] != _checksum_of(words[1:starts], _checksum_of(key, np.uint64(0))):
        return False
    at_numbers = shape_at(np.uint64(words.ctypes.data))[6]
    return bool(at_numbers < size and words[4] == _checksum_of(words[starts:at_numbers], np.uint64(0)))


@compiled
def first_unsound(
    wanted: npt.NDArray[np.bool_],
    addresses: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint64],
    known: npt.NDArray[np.uint64],
) -> int:
    """First wanted segment, bool [segments], with a wrong checksum, or -1.

    addresses, sizes  uint64 and int64 [segments], sizes in bytes
    keys              uint64 [segments, 3]
    known             uint64 [segments], head checksum of each verified segment, 0: none; filled in
    """
    count = len(wanted)
    for segment in range(count):
        if segment + AT_ONCE < count and wanted[segment + AT_ONCE]:
            prefetch(addresses[segment + AT_ONCE])
        if wanted[segment]:
            words = _words_at(addresses[segment], sizes[segment] >> 3)
            if words[0] != known[segment] or known[segment] == 0:
                if not _is_sound(words, sizes[segment] >> 3, keys[segment]):
                    return segment
                known[segment] = words[0]
    return -1


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
    order            int64 [n * k], places of the bounds by table, then nearly ascending by lowest bound: a step back costs time
    edges            int64 [tables + 1], each table's first segment
    bounds           uint64 [segments], ascending within a table
    """
    lows, highs = lowest.reshape(-1), highest.reshape(-1)
    all_begins, all_ends = begins.reshape(-1), ends.reshape(-1)
    segment, table = 0, -1
    # Segments begin at 0, 10 and 20, the bounds are 12 and 20: segment 1 holds 12, so the span is 1 to below 3.
    for which in order:
        if tables[which % len(tables)] != table:
            table = tables[which % len(tables)]
            segment = edges[table]
        while segment < edges[table + 1] and bounds[segment] < lows[which]:
            segment += 1
        while segment > edges[table] and bounds[segment - 1] >= lows[which]:
            segment -= 1
        # The last segment with a lower bound comes first: it holds entries up to the next bound.
        all_begins[which], end = max(edges[table], segment - 1), segment
        while end < edges[table + 1] and bounds[end] <= highs[which]:
            end += 1
        all_ends[which] = end


@compiled
def _first_rest(rests: Any, bits: Any, value: Any, low: Any, high: Any) -> Any:
    """First place in [low, high) whose rest is not below a value, or `high`; rests: their address."""
    while low < high:
        middle = (low + high) >> 1
        if _bits_at(rests, middle, bits) < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _start_of(address: Any, starts: Any, part: Any) -> Any:
    """First place of a part: int64."""
    return np.int64(word_at(address + np.uint64(8 * starts + 4 * part)) & np.uint64(0xFFFFFFFF))


@compiled
def part_of(address: Any, hashed: Any) -> Any:
    """Part of the first entry not below a hash, and that hash's rest in it; past the last part if none is."""
    base, rest_bits = word_at(address + np.uint64(16)), shape_at(address)[1]
    off = (max(hashed, base) - base) >> np.uint64(LOW_BITS)
    return np.int64(off >> np.uint64(rest_bits)), off & ((np.uint64(1) << np.uint64(rest_bits)) - np.uint64(1))


@compiled
def _is_hot(address: Any, low: Any, high: Any, near: Any) -> Any:
    """Whether a segment has so many entries from one hash to another that it is faster to search than to read them."""
    if low == high:
        return False
    _, _, _, parts, starts, _, _ = shape_at(address)
    first, end = min(part_of(address, low)[0], parts), min(part_of(address, high)[0] + 1, parts)
    return _start_of(address, starts, end) - _start_of(address, starts, first) > HOT_ENTRIES << near


@compiled
def _with_top_byte(low: Any, own: Any, off: Any) -> Any:
    """First and last hash in a bucket whose second 16 bits begin with the row's own top byte, but for some bits."""
    # A bucket is sorted by these bits, so entries with the same top byte are adjacent.
    first = low | (((own >> np.uint64(40)) ^ np.uint64(off)) & np.uint64(0xFF)) << np.uint64(40)
    return first, first | np.uint64(2**40 - 1)


@compiled
def _first_in(address: Any, low: Any, limit: Any) -> Any:
    """First entry that is not below a hash, and its part; limit: as in `candidates`."""
    size, rest_bits, _, parts, starts, rests, _ = shape_at(address)
    part, rest = part_of(address, low)
    if part >= parts:
        return size, part
    rests_address, end = address + np.uint64(8 * rests), _start_of(address, starts, part + 1)
    entry = _first_rest(rests_address, rest_bits, rest, _start_of(address, starts, part), end)
    # Entries with one hash ascend by number, so the last ones have the highest.
    if end - entry > limit:
        entry = max(entry, _first_rest(rests_address, rest_bits, rest + np.uint64(1), entry, end) - limit)
    return entry, part


@compiled
def _next_near(address: Any, entry: Any, part: Any, own: Any, high: Any, near: Any, most: Any) -> Any:
    """The place after the next entry that a probe names, up to a hash, and its part; and whether there is one."""
    size, rest_bits, _, _, starts, rests, _ = shape_at(address)
    rests_address, base, end = address + np.uint64(8 * rests), word_at(address + np.uint64(16)), np.int64(0)
    if entry < size:
        end = _start_of(address, starts, part + 1)
    while entry < size:
        while entry >= end:
            part += 1
            end = _start_of(address, starts, part + 1)
        part_offset = np.uint64(part) << np.uint64(rest_bits)
        hashed = base + ((part_offset | _bits_at(rests_address, entry, rest_bits)) << np.uint64(LOW_BITS))
        if hashed > high:
            break
        apart, entry = hashed ^ own, entry + 1
        if np.int64(ones((apart >> np.uint64(32)) & np.uint64(0xFFFF))) <= near and np.int64(ones(apart)) <= most:
            return entry, part, True
    return entry, part, False


@compiled
def _prefetch_starts(address: Any, hashed: Any) -> None:
    prefetch(address + np.uint64(8 * shape_at(address)[4] + 4 * part_of(address, hashed)[0]))


@compiled
def _prefetch_rests(address: Any, hashed: Any) -> None:
    _, rest_bits, _, parts, starts, rests, _ = shape_at(address)
    part = part_of(address, hashed)[0]
    for at in range(part, min(part + 2, parts + 1)):
        prefetch(address + np.uint64(8 * rests + ((_start_of(address, starts, at) * rest_bits) >> 3)))


@compiled
def _checked_number(address: Any, place: Any, checked: Any) -> Any:
    """Number at a place, uint64; its last number block; and whether all blocks read are sound.

    checked  last verified block; only later blocks are verified
    """
    count, _, number_bits, _, _, _, at_numbers = shape_at(address)
    end = at_numbers + ((count * number_bits + 63) >> 6)
    # 512 words are 2^15 bits, so a bit's block is its place >> 15.
    last = ((place + 1) * number_bits - 1) >> 15
    for block in range(max(checked + 1, (place * number_bits) >> 15), last + 1):
        begin, head = at_numbers + block * BLOCK_WORDS, block + HEAD_WORDS
        words = _words_at(address + np.uint64(8 * begin), min(end - begin, BLOCK_WORDS))
        if word_at(address + np.uint64(8 * head)) != _checksum_of(words, np.uint64(head)):
            return np.uint64(0), block, False
    return _bits_at(address + np.uint64(8 * at_numbers), place, number_bits), last, True


@compiled
def candidates(
    hashes: npt.NDArray[np.uint64],
    probes: Probes,
    probe_of: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.uint64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
    turn: int,
    passed: int,
    hits_max: int,
    limit: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], int, int, int]:
    """Entries that each row's probes name, by its hashes, uint64 [n, tables], once for each probe.

    probe_of      int64 [c], the probe of each column
    lowest        uint64 [n, c], least hash that a probe names, in one level of its table
    begins, ends  int64 [n, c] each, segments that may hold it
    addresses     uint64 [segments], those that passed `first_unsound`
    order         int64, places in `begins` in look-up order
    turn, passed  first place in `order`, and its entries that an earlier call returned
    limit         highest numbers per hash to return from each segment, if a probe names one hash

    Returns rows int64 [m] and numbers uint64 [m], at most `hits_max`; the turn and passed to go on at; and a segment
    with unsound numbers, or -1.
    """
    rows, numbers, count = np.empty(1024, np.int64), np.empty(1024, np.uint64), 0
    all_begins, all_ends, lows, columns = begins.reshape(-1), ends.reshape(-1), lowest.reshape(-1), begins.shape[1]
    while turn < len(order):
        # Three passes load what the last one reads: heads, then part starts, then rests.
        some = order[turn : turn + AT_ONCE]
        for which in some:
            prefetch(addresses[all_begins[which]])
        for which in some:
            _prefetch_starts(addresses[all_begins[which]], lows[which])
        for which in some:
            _prefetch_rests(addresses[all_begins[which]], lows[which])
        for place, which in enumerate(some):
            row, probe, met = which // columns, probe_of[which % columns], 0
            own, near = hashes[row, probes.tables[probe]], probes.near[probe]
            for segment in range(all_begins[which], all_ends[which]):
                address, checked = addresses[segment], np.int64(-1)
                hot = _is_hot(address, lows[which], lows[which] | probes.free, near)
                for off in range(256 if hot else 1):
                    if np.int64(ones(np.uint64(off))) > near:
                        continue
                    low, high = lows[which], lows[which] | probes.free
                    if hot:
                        low, high = _with_top_byte(low, own, off)
                    entry, part = _first_in(address, low, limit)
                    while True:
                        entry, part, there = _next_near(address, entry, part, own, high, near, probes.most)
                        if not there:
                            break
                        met += 1
                        if met > passed:
                            if count == hits_max:
                                # The next call passes over these: with 5 hits and room for 3, `passed` is 3.
                                return rows[:count], numbers[:count], turn + place, met - 1, -1
                            if count == len(rows):
                                rows, numbers = grown(rows), grown(numbers)
                            numbers[count], checked, sound = _checked_number(address, entry - 1, checked)
                            if not sound:
                                return rows[:count], numbers[:count], turn + place, 0, segment
                            rows[count] = row
                            count += 1
            passed = 0
        turn += len(some)
    return rows[:count], numbers[:count], turn, 0, -1
