"""Scans of the entries that keys name, in memtable pages and in segments."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.columns import columns_at, count_at, grown, lower
from index.kernels.jit import bits_apart, compiled, lesser, ones, prefetch

Hits = tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.uint64], int]

HOT_ENTRIES = 4096
"""A scan of a larger bucket in a segment reads only parts that may hold the wanted next block."""

BUCKETS_AHEAD = 4
"""Buckets between a prefetch and its scan."""

BUCKET_LINES = 6
"""Prefetched part of a bucket, in cache lines of 32 entries."""

DIVIDED = -2
"""A bucket's head from here down names a division: DIVIDED - d."""

PARTS = 256
"""Parts in a divided bucket."""

AT_ONCE = 64
"""Values tested together before any single test."""


class Pages(NamedTuple):
    """Memtable entries in buckets by their page keys' high half; buckets are page chains.

    heads      int32 [tables, 65536], each bucket's newest page; -1: empty; DIVIDED - d: it has division d
    links      int32 [pages, 3], next older page of the bucket or -1, number of entries in this page, and number of older
               pages
    following  uint16 [pages, p], each entry's page key, low half
    places     int32 [pages, p], each entry's place in the memtable's columns
    parts      int32 [divisions, PARTS], each part's newest page in a divided bucket, by the top byte of `following`
    firsts     int32 [divisions], page that divided the bucket
    used       int64 [2], pages and divisions in use; the others are undefined

    A hot bucket is divided. Older entries stay in place: every part's chain leads on to them. All pages in a chain
    except the newest are full, and so are all pages older than a division.
    """

    heads: npt.NDArray[np.int32]
    links: npt.NDArray[np.int32]
    following: npt.NDArray[np.uint16]
    places: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]


class Spans(NamedTuple):
    """Ranges of segments in which to look keys up.

    begins, ends  int64 [n, keys] each, a span's segments from begins to below ends, as places in addresses
    places        int64 [n, keys], the span's first entry in its first segment; later segments count whole
    addresses     uint64 [segments]; never read for a segment outside all spans
    """

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]


@compiled
def address_of(value: Any) -> Any:
    """Address of a buffer's first byte, uint64; the buffer must not be empty."""
    return np.frombuffer(value, np.uint8).ctypes.data


@compiled
def _bits(value: Any) -> Any:
    return np.int64(ones(np.uint64(value)))


@compiled
def _next_near(column: npt.NDArray[np.uint16], value: Any, begin: int, end: Any, bits: Any) -> Any:
    """First place in column[begin:end] whose value differs in at most `bits` bits, or `end`."""
    wanted = np.uint16(value)
    while begin < end:
        part_end, least = min(end, begin + AT_ONCE), np.uint16(16)
        for place in range(begin, part_end):
            # Vector code takes some 30 values at a time. It needs an unsigned index, which never counts from the end.
            least = lesser(least, bits_apart(column[np.uint64(place)], wanted))
        if np.int64(least) <= bits:
            for place in range(begin, part_end):
                if _bits(column[place] ^ wanted) <= bits:
                    return place
        begin = part_end
    return end


@compiled
def _bucket_end(column: npt.NDArray[np.uint16], value: Any, begin: int) -> Any:
    """First place from `begin` on with another value, in a column that ascends and has no lower value there."""
    low, step = begin, 32
    while low + step < len(column) and np.int64(column[low + step]) == value:
        low, step = low + step, step * 2
    return lower(column, value + 1, low, min(len(column), low + step))


@compiled
def _prefetch_page(pages: Pages, page: Any) -> None:
    """Prefetch the first reads of a page; -1: no page."""
    if page >= 0:
        prefetch(np.uint64(pages.links.ctypes.data) + np.uint64(page * 12))
        prefetch(np.uint64(pages.following.ctypes.data) + np.uint64(page * 2 * pages.following.shape[1]))


@compiled
def _prefetch_pages(keys: npt.NDArray[np.uint32], pages: Pages, row: int, newest: bool) -> None:
    """Prefetch the newest pages in the buckets that a row's keys name, or the next pages; ignores a missing row."""
    for probe in range(keys.shape[1] if row < keys.shape[0] else 0):
        page = np.int64(pages.heads[np.int64(keys[row, probe] >> 16), keys[row, probe] & 0xFFFF])
        if page >= 0 and not newest:
            page = np.int64(pages.links[page, 0])
        _prefetch_page(pages, page)


@compiled
def _prefetch_buckets(hashes: npt.NDArray[np.uint64], pages: Pages, row: int, newest: bool) -> None:
    """Prefetch the newest pages that a row's hashes name, or their heads; ignores a missing row."""
    heads, buckets = np.uint64(pages.heads.ctypes.data), pages.heads.shape[1]
    for table in range(hashes.shape[1] if row < hashes.shape[0] else 0):
        bucket = np.int64(hashes[row, table] >> np.uint64(48))
        if newest:
            _prefetch_page(pages, np.int64(pages.heads[table, bucket]))
        else:
            prefetch(heads + np.uint64(4 * (table * buckets + bucket)))


@compiled
def _find_chains(
    pages: Pages,
    division: Any,
    next_block: Any,
    bits: Any,
    here: npt.NDArray[np.int64],
    behind: npt.NDArray[np.int64],
) -> Any:
    """Number of a division's chains that may hold a block within `bits` bits from the next block.

    Fills in each chain's newest page and the page past its last one.
    """
    older, count = np.int64(pages.links[pages.firsts[division], 0]), 0
    for off in range(PARTS):
        if _bits(off) <= bits:
            # A block differs in at least as many bits as its top byte, which names the part: 0x12FF and 0x1300 differ
            # in 9, their parts in 1.
            page = np.int64(pages.parts[division, np.int64(next_block >> 8) ^ off])
            # The first chain leads on to the pages older than the division.
            last = older if off else np.int64(-1)
            if page != last:
                _prefetch_page(pages, page)
                here[count], behind[count] = page, last
                count += 1
    return count


@compiled
def _block_values(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Blocks, uint64 [n, words] -> uint16 [n, words * 4]; block 0 is the top 16 bits of word 0."""
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

    keys      uint32 [n, probes], `simhash.probe_keys`
    allowed   int8 [probes], most differing bits in the next block of a compared entry
    filed     uint64 [capacity, words], the entries' fingerprints
    ends      int64 [n], entries from this place on are no hits for the row
    best      int16 [n], largest distance of a hit; with `nearest_only`, every hit lowers it to its own distance
    compared  int64 [n], raised by the comparisons
    row       first row; stops after the row with the `hits_max`-th hit

    Returns the hits' rows int64 [m], distances int16 [m] and places uint64 [m, 1], and the row to go on at.
    """
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, 1), np.uint64)
    asked, here, behind = _block_values(fingerprints), np.empty(PARTS, np.int64), np.empty(PARTS, np.int64)
    count, words, blocks = 0, fingerprints.shape[1], asked.shape[1]
    while row < keys.shape[0] and count < hits_max:
        _prefetch_pages(keys, pages, row + 2, True)
        _prefetch_pages(keys, pages, row + 1, False)
        for probe in range(keys.shape[1]):
            table = np.int64(keys[row, probe] >> 16)
            next_block = asked[row, (table + 1) % blocks]
            here[0], behind[0] = pages.heads[table, keys[row, probe] & 0xFFFF], -1
            left = int(here[0] != -1)
            if here[0] <= DIVIDED:
                left = _find_chains(pages, DIVIDED - here[0], next_block, allowed[probe], here, behind)
            # One page from every chain, then the next from every chain, so that the loads overlap.
            while left:
                still = 0
                for chain in range(left):
                    page, slot = here[chain], -1
                    size = pages.links[page, 1]
                    while True:
                        slot = _next_near(pages.following[page], next_block, slot + 1, size, allowed[probe])
                        if slot == size:
                            break
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
                            rows, distances, found = grown(rows), grown(distances), grown(found)
                        rows[count], distances[count], found[count, 0] = row, distance, place
                        count += 1
                    page = np.int64(pages.links[page, 0])
                    if page != behind[chain]:
                        _prefetch_page(pages, page)
                        here[still], behind[still] = page, behind[chain]
                        still += 1
                left = still
        row += 1
    return rows[:count], distances[:count], found[:count], row


@compiled
def _prefetch_bucket(spans: Spans, row: Any, probe: Any) -> None:
    """Prefetch the first entries that a probe names, if any: their values and their next blocks."""
    segment = spans.begins[row, probe]
    if segment < spans.ends[row, probe]:
        address, place = spans.addresses[segment], spans.places[row, probe]
        prefetch(address + np.uint64(8 + 2 * place))
        next_block = address + np.uint64(8 + 2 * (count_at(address) + place))
        for line in range(BUCKET_LINES):
            prefetch(next_block + np.uint64(64 * line))


@compiled
def scan_segments(
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
    """SimHash: compare rows with the entries that their keys name in segments. As `scan_pages`, except:

    order  int64 [n * probes], places in `keys` in look-up order; ascending keys share the cache
    turn   first place in `order`; stops after the key with the `hits_max`-th hit

    Returns the hits' fingerprints, uint64 [m, words], instead of places, and the turn to go on at.
    """
    words, probes, count = fingerprints.shape[1], keys.shape[1], 0
    blocks, asked = words * 4, _block_values(fingerprints)
    rows, distances, found = np.empty(1024, np.int64), np.empty(1024, np.int16), np.empty((1024, words), np.uint64)
    while turn < len(order) and count < hits_max:
        row, probe = order[turn] // probes, order[turn] % probes
        turn += 1
        if turn + BUCKETS_AHEAD < len(order):
            _prefetch_bucket(spans, order[turn + BUCKETS_AHEAD] // probes, order[turn + BUCKETS_AHEAD] % probes)
        table, value = np.int64(keys[row, probe] >> 16), np.int64(keys[row, probe] & 0xFFFF)
        following = np.int64(asked[row, (table + 1) % blocks])
        for segment in range(spans.begins[row, probe], spans.ends[row, probe]):
            columns = columns_at(spans.addresses[segment], blocks)
            begin = spans.places[row, probe] if segment == spans.begins[row, probe] else 0
            end = _bucket_end(columns[0], value, begin)
            hot = end - begin > HOT_ENTRIES
            for off in range(PARTS if hot else 1):
                entry, high = begin - 1, end
                if hot:
                    # A bucket is sorted by the next block, so entries with the same top byte are adjacent.
                    if _bits(off) > allowed[probe]:
                        continue
                    top = (following >> 8 ^ off) << 8
                    entry = lower(columns[1], top, begin, end) - 1
                    high = lower(columns[1], top + 256, entry + 1, end)
                while True:
                    entry = _next_near(columns[1], following, entry + 1, high, allowed[probe])
                    if entry == high:
                        break
                    distance = 0
                    # Segments in table t have their columns rotated: with 4 blocks, table 1 has blocks 1 2 3 0.
                    for block in range(blocks):
                        distance += _bits(asked[row, (table + block) % blocks] ^ columns[block, entry])
                    compared[row] += 1
                    if distance > best[row]:
                        continue
                    if count == len(rows):
                        rows, distances, found = grown(rows), grown(distances), grown(found)
                    found[count] = 0
                    for block in range(blocks):
                        own = (table + block) % blocks
                        # Block 5 is bits 47 to 32 of word 1: places count from the top.
                        found[count, own >> 2] |= np.uint64(columns[block, entry]) << np.uint64(48 - 16 * (own & 3))
                    if nearest_only:
                        best[row] = distance
                    rows[count], distances[count] = row, distance
                    count += 1
    return rows[:count], distances[:count], found[:count], turn


@compiled
def page_candidates(
    hashes: npt.NDArray[np.uint64],
    pages: Pages,
    rests: npt.NDArray[np.uint8],
    met: npt.NDArray[np.int64],
    row: int,
    hits_max: int,
    limit: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Entries that share a hash with a row, uint64 [n, tables], each once per row.

    rests  uint8 [capacity, tables], hash bits below those in the page keys
    met    int64 [capacity], last row that matched each entry, changed; [0] if there is one table
    row    first row; stops after the row with the `hits_max`-th entry
    limit  entries per row; with one table the last ones

    Returns rows and places, int64 [m] each, and the row to go on at.
    """
    rows, places = np.empty(1024, np.int64), np.empty(1024, np.int64)
    count, here = 0, np.empty(hashes.shape[1], np.int64)
    while row < hashes.shape[0] and count < hits_max:
        end = count + limit
        _prefetch_buckets(hashes, pages, row + 2, False)
        _prefetch_buckets(hashes, pages, row + 1, True)
        for table in range(hashes.shape[1]):
            here[table] = pages.heads[table, np.int64(hashes[row, table] >> np.uint64(48))]
            # A divided bucket has one chain for each value of the next 8 bits.
            if here[table] <= DIVIDED:
                here[table] = pages.parts[DIVIDED - here[table], np.int64(hashes[row, table] >> np.uint64(40)) & 0xFF]
        # One page from every table, then the next from every table, so that the loads overlap.
        left = hashes.shape[1]
        while left and count < end:
            left = 0
            for table in range(hashes.shape[1]):
                page = here[table]
                if page < 0:
                    continue
                # The page key is the hash's top 32 bits: bucket 16, following 16. The rest is the next 8.
                following = np.uint16(hashes[row, table] >> np.uint64(32))
                rest = np.uint8(hashes[row, table] >> np.uint64(24))
                for slot in range(pages.links[page, 1] - 1, -1, -1):
                    if pages.following[page, slot] != following:
                        continue
                    place = pages.places[page, slot]
                    if rests[place, table] != rest or (len(met) and met[place] == row) or count == end:
                        continue
                    if count == len(rows):
                        rows, places = grown(rows), grown(places)
                    if len(met):
                        met[place] = row
                    rows[count], places[count] = row, place
                    count += 1
                here[table] = pages.links[page, 0]
                _prefetch_page(pages, here[table])
                left += here[table] >= 0
        row += 1
    return rows[:count], places[:count], row
