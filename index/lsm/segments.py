"""Segments in the file as one process knows them: their places in memory, the sound ones among them, and lookups.

Lookups read a few lines from thousands of segments, by address (`tree_place`): a segment's head, a part's start, and its
rests. LMDB never overwrites the last commit's pages, so an address is valid during a transaction. A process checks the
searched words when it first meets a segment, and every page of numbers that it reads. Chance matches are rare at 40 bits
and need no filter.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.kernels import hash_segments, held
from index.kernels.scan import Probes
from index.lsm import memtable
from index.matching.simhash import BLOCK_BITS
from index.storage.file.tree_place import ValuePlaces, value_places
from index.storage.layout import Table
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, Level
from index.storage.store import Transaction

_SEARCHED = np.array([Level.FIRST, Level.LAST])


class Segments:
    """All segments in a table of the file as of the last commit.

    edges   int64 [prefixes + 1], the first segment per key prefix: a table, or a level in it
    bounds  uint64 [segments], every segment's bound, its first word

    >>> from index.lsm.levels import Levels
    >>> entries, none = np.array([[5 << 24], [1]], np.uint64), np.empty((2, 0), np.uint64)
    >>> opened.store.write(lambda now: Levels(now, Table.SEGMENTS, 10).merge_in(0, Level.LAST, entries, none, 10)[0])
    1
    >>> segments = Segments(Table.SEGMENTS, tables=4)
    >>> opened.store.read(lambda now: segments.follow(now, CompactionState(0, 0, 0, version=1, table=0, bound=b"")))
    >>> len(segments)
    1
    """

    def __init__(self, table: Table, tables: int) -> None:
        self._table = table
        self._prefixes = [table << 8 | level for table in range(tables) for level in Level]
        self._count = self._version = 0
        self._taken_over: tuple[int, int | None] | None = None
        """The segments' version, and their tree's root."""
        self._known = np.empty(0, np.uint64)
        """Each segment's checksum, or 0 before its check."""
        self._certain = np.empty(0, np.bool_)
        """Segments checked since the last change."""
        self._take(ValuePlaces(np.empty((0, HASH_KEY.size), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)))

    def __len__(self) -> int:
        return self._count

    def follow(self, transaction: Transaction, now: CompactionState) -> None:
        """Count the segments; the first lookup reads their places."""
        self._version = now.version
        self._count = transaction.count(self._table)

    def take_over(self, transaction: Transaction) -> npt.NDArray[np.uint64]:
        """Read the segments' places if they have changed. Returns their addresses, uint64 [segments]."""
        tree = transaction.tree_of(self._table)
        if self._taken_over != (self._version, tree.root):
            places, old = value_places(tree, HASH_KEY.size), self._places.pages
            if places is None:
                raise transaction.damaged(f"table {self._table.value.decode()} holds a value that is not a segment")
            by_page = np.argsort(old)
            old = np.append(old[by_page], -1)
            at = np.searchsorted(old[:-1], places.pages)
            # A plain 0 would turn the checksums into floats, and every segment would be checked again.
            known = np.append(self._known[by_page], np.uint64(0))
            self._known = np.where(old[at] == places.pages, known[at], np.uint64(0))
            self._certain = np.zeros(len(self._known), np.bool_)
            self._take(places)
            self._taken_over = (self._version, tree.root)
        return self._places.addresses(tree)

    def _take(self, places: ValuePlaces) -> None:
        self._places = places
        prefixes = np.ascontiguousarray(places.keys[:, :2]).view(">u2")[:, 0].astype(np.uint64)
        bounds = np.ascontiguousarray(places.keys[:, 2:]).view(">u8").astype(np.uint64)
        self._keys, self.bounds = np.column_stack([prefixes, bounds]), bounds[:, 0]
        self.edges = np.searchsorted(prefixes, [*self._prefixes, self._prefixes[-1] + 1])

    def require_sound(
        self,
        transaction: Transaction,
        begins: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
    ) -> None:
        """Check the segments in these spans, int64 [n, k] each, and the ones after them. Raises IndexDamagedError.

        A damaged key shifts entries into the segment before it, and does not fit its value's checksum.
        """
        count = len(self.bounds) + 1
        changes = np.bincount(begins.reshape(-1), minlength=count) - np.bincount(ends.reshape(-1), minlength=count)
        wanted = np.cumsum(changes[:-1]) > 0
        wanted[1:] |= wanted[:-1].copy()
        wanted &= ~self._certain
        if wanted.any():
            self._check(transaction, wanted, addresses)
            self._certain |= wanted

    def candidates(
        self, transaction: Transaction, hashes: npt.NDArray[np.uint64], probes: Probes, limit: int = memtable.NO_LIMIT
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Entries that each row's probes name, by its hashes, uint64 [n, tables]: rows int64 [m], numbers uint64 [m].

        A portion holds at most HITS_MAX, ordered by row and number, each pair once; each segment gives the `limit`
        highest numbers per hash.
        """
        addresses = self.take_over(transaction)
        if not len(addresses) or not len(hashes):
            return
        # Probe by probe, each nearly in entry order. Short keys are sorted in a fifth of the time.
        lowest = (hashes[:, probes.tables] ^ probes.flips) & ~probes.free
        firsts = (lowest >> np.uint64(64 - BLOCK_BITS)).astype(np.uint16)
        rows = np.argsort(firsts, axis=0, kind="stable")
        # A column is a probe in one level of its table. A loaded index has an empty first level.
        levels = (probes.tables[:, None] * len(Level) + _SEARCHED).reshape(-1)
        filled = np.flatnonzero(self.edges[levels] < self.edges[levels + 1])
        levels, probe_of = levels[filled], filled // len(_SEARCHED)
        order = (rows.take(probe_of, axis=1) * len(filled) + np.arange(len(filled))).T.reshape(-1)
        lowest = lowest.take(probe_of, axis=1)
        begins, ends = np.zeros(lowest.shape, np.int64), np.zeros(lowest.shape, np.int64)
        hash_segments.fill_spans(levels, lowest, lowest | probes.free, order, self.edges, self.bounds, begins, ends)
        order = order[(begins < ends).reshape(-1)[order]]
        self.require_sound(transaction, begins, ends, addresses)
        if not probes.free:
            order = held.those_held(lowest, begins, ends, addresses, order)
        turn, passed = 0, 0
        while turn < len(order):
            rows, numbers, turn, passed, unsound = hash_segments.candidates(
                hashes, probes, probe_of, lowest, begins, ends, addresses, order, turn, passed, memtable.HITS_MAX, limit
            )
            self._require(transaction, unsound)
            by_row = np.lexsort((numbers, rows))
            rows, numbers = rows[by_row], numbers[by_row]
            again = (rows[1:] == rows[:-1]) & (numbers[1:] == numbers[:-1])
            first = np.concatenate([np.ones(min(1, len(rows)), np.bool_), ~again])
            yield rows[first], numbers[first]

    def _check(
        self, transaction: Transaction, wanted: npt.NDArray[np.bool_], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """Check the searched words of wanted segments, bool [segments], by the head's checksum; fills in `_known`."""
        unsound = hash_segments.first_unsound(wanted, addresses, self._places.sizes, self._keys, self._known)
        self._require(transaction, unsound)

    def _require(self, transaction: Transaction, unsound: int) -> None:
        if unsound >= 0:
            key, table = self._places.keys[unsound].tobytes().hex(), self._table.value.decode()
            raise transaction.damaged(f"the value of {key} in table {table} is not what was written")
