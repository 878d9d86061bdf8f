"""Candidates in memtable pages: the entries that a row's hashes name."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.columns import grown
from index.kernels.jit import compiled, ones, prefetch

DIVIDED = -2
"""A bucket's head from here down names a division: DIVIDED - d."""

PARTS = 256
"""Parts in a divided bucket."""


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

    >>> from index.lsm.memtable import Memtable
    >>> from index.lsm.shape import SimhashShape
    >>> memtable = Memtable(SimhashShape(words=1, tables=4))
    >>> memtable.add(np.array([[5], [9]], np.uint64), np.array([0, 1], np.uint64))
    >>> memtable.file()
    >>> memtable.pages.used
    array([5, 0])
    """

    heads: npt.NDArray[np.int32]
    links: npt.NDArray[np.int32]
    following: npt.NDArray[np.uint16]
    places: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]


class Probes(NamedTuple):
    """The entries that a row's hashes name, probe by probe.

    tables   int64 [k], the table that a probe reads
    flips    uint64 [k], bits in which the bucket differs from the row's hash
    free     uint64, hash bits below a bucket's: 0 if a probe names one hash, else all below the top 16
    near     int64 [k], most differing bits in the second 16
    most     most differing bits in the whole hash

    >>> from index.lsm.shape import SimhashShape
    >>> shape = SimhashShape(words=1, tables=4)
    >>> [shape.probes(distance_max).near.max().item() for distance_max in (3, 7)]
    [1, 3]
    """

    tables: npt.NDArray[np.int64]
    flips: npt.NDArray[np.uint64]
    free: np.uint64
    near: npt.NDArray[np.int64]
    most: int


@compiled
def address_of(value: Any) -> Any:
    """Address of a buffer's first byte, uint64; the buffer must not be empty."""
    return np.frombuffer(value, np.uint8).ctypes.data


@compiled
def _bits(value: Any) -> Any:
    return np.int64(ones(np.uint64(value)))


@compiled
def prefetch_page(pages: Pages, page: Any) -> None:
    """Prefetch a page, whose columns lie side by side; -1: no page."""
    if page >= 0:
        size = pages.links.strides[0]
        begin = np.uint64(pages.links.ctypes.data) + np.uint64(page * size)
        for at in range(0, size - 1, 64):
            prefetch(begin + np.uint64(at))
        prefetch(begin + np.uint64(size - 1))


@compiled
def _prefetch_buckets(hashes: npt.NDArray[np.uint64], probes: Probes, pages: Pages, row: int, newest: bool) -> None:
    """Prefetch the newest pages that a row's probes name, or their heads; ignores a missing row."""
    heads, buckets = np.uint64(pages.heads.ctypes.data), pages.heads.shape[1]
    for probe in range(len(probes.tables) if row < hashes.shape[0] else 0):
        table = probes.tables[probe]
        bucket = np.int64((hashes[row, table] ^ probes.flips[probe]) >> np.uint64(48))
        if newest:
            prefetch_page(pages, np.int64(pages.heads[table, bucket]))
        else:
            prefetch(heads + np.uint64(4 * (table * buckets + bucket)))


@compiled
def _find_chains(
    hashes: npt.NDArray[np.uint64], probes: Probes, pages: Pages, row: int, chains: npt.NDArray[np.int64]
) -> Any:
    """How many chains may hold what a row's probes name; fills in chains, int64 [3, c].

    Each has its newest page, the page past its last one, and its probe.
    """
    count = 0
    for probe in range(len(probes.tables)):
        table, near = probes.tables[probe], probes.near[probe]
        own = hashes[row, table]
        head = np.int64(pages.heads[table, np.int64((own ^ probes.flips[probe]) >> np.uint64(48))])
        if head > DIVIDED:
            if head >= 0:
                chains[0, count], chains[1, count], chains[2, count] = head, -1, probe
                count += 1
            continue
        division, part = DIVIDED - head, np.int64(own >> np.uint64(40)) & 0xFF
        older = np.int64(pages.links[pages.firsts[division], 0])
        for off in range(PARTS if near else 1):
            # A block differs in at least as many bits as its top byte, which names the part: 0x12FF and 0x1300 differ
            # in 9, their parts in 1. The first chain leads on to the pages older than the division.
            page, last = np.int64(pages.parts[division, part ^ off]), older if off else np.int64(-1)
            if page != last and _bits(off) <= near:
                prefetch_page(pages, page)
                chains[0, count], chains[1, count], chains[2, count] = page, last, probe
                count += 1
    return count


@compiled
def page_candidates(
    hashes: npt.NDArray[np.uint64],
    probes: Probes,
    pages: Pages,
    rests: npt.NDArray[np.uint8],
    met: npt.NDArray[np.int64],
    row: int,
    hits_max: int,
    limit: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Entries that each row's probes name, by its hashes, uint64 [n, tables].

    rests  uint8 [capacity, tables], hash bits below those in the page keys
    met    int64 [capacity], last row that matched each entry, changed: each comes once per row; [0]: once per probe
    row    first row; stops after the row with the `hits_max`-th entry
    limit  entries per row; with one table the last ones

    Returns rows and places, int64 [m] each, and the row to go on at.
    """
    rows, places, count = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    chains = np.empty((3, len(probes.tables) * (PARTS if probes.free else 1)), np.int64)
    while row < hashes.shape[0] and count < hits_max:
        end = count + limit
        _prefetch_buckets(hashes, probes, pages, row + 2, False)
        _prefetch_buckets(hashes, probes, pages, row + 1, True)
        left = _find_chains(hashes, probes, pages, row, chains)
        # One page from every chain, then the next from every chain, so that the loads overlap.
        while left and count < end:
            still = 0
            for chain in range(left):
                page, probe = chains[0, chain], chains[2, chain]
                table, near = probes.tables[probe], probes.near[probe]
                most = probes.most - _bits(probes.flips[probe])
                # The page key is the hash's top 32 bits: bucket 16, following 16. The rest is the next 8.
                own = hashes[row, table]
                following, rest = np.uint16(own >> np.uint64(32)), np.uint8(own >> np.uint64(24))
                for slot in range(pages.links[page, 1] - 1, -1, -1):
                    apart = _bits(pages.following[page, slot] ^ following)
                    if apart > near:
                        continue
                    place = pages.places[page, slot]
                    if apart + _bits(rests[place, table] ^ rest) > most or count == end:
                        continue
                    if len(met):
                        if met[place] == row:
                            continue
                        met[place] = row
                    if count == len(rows):
                        rows, places = grown(rows), grown(places)
                    rows[count], places[count] = row, place
                    count += 1
                page = np.int64(pages.links[page, 0])
                if page != chains[1, chain]:
                    prefetch_page(pages, page)
                    chains[0, still], chains[1, still], chains[2, still] = page, chains[1, chain], probe
                    still += 1
            left = still
        row += 1
    return rows[:count], places[:count], row
