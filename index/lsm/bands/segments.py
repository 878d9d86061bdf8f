"""Look-up of the hashes of bands in the segments of MinHash.

A look-up reads a few lines of a segment: its head, the start of a part, and the rests of that part. What it searches is checked
when a process first meets a segment, as a whole; of the numbers it checks the page that it reads. Hashes have 40 bits, and
hardly any is there by chance. So no filter is needed: what is searched takes two bytes and a half an entry.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.kernels import bands, bisect
from index.lsm import memtable
from index.lsm.shape import Shape
from index.storage.file.tree_place import TreePlace, ValuePlaces, value_places
from index.storage.layout import Table
from index.storage.segments.compaction_state import BAND_KEY, CompactionState, Level
from index.storage.store import Transaction

_SEARCHED = (Level.FIRST, Level.LAST)


class BandSegments:
    """All segments as the last commit has them."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._count = self._version = 0
        self._taken_over: tuple[int, int | None] | None = None
        """Version of the segments, and the root of their tree."""
        self._places = ValuePlaces(np.empty((0, BAND_KEY.size), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
        self._keys = np.empty((0, 3), np.uint64)
        self._known = np.empty(0, np.uint64)
        """The check of each segment that was found sound, or 0."""
        self._certain = np.empty(0, np.bool_)
        """Which segments were found sound since the last change."""
        self._edges = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return self._count

    def follow(self, transaction: Transaction, now: CompactionState) -> None:
        """Take over how many segments there are; where they stand is read by the first look-up."""
        self._version = now.version
        self._count = transaction.count(Table.SEGMENTS)

    def candidates(
        self, transaction: Transaction, hashes: npt.NDArray[np.uint64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Entries that share a hash with a row of hashes uint64 [n, k]: rows int64 [m], numbers uint64 [m].

        The hashes belong to the first k tables. A portion holds at most HITS_MAX, ordered by row and number, each pair once.
        """
        tree = self._take_over(transaction)
        if not len(self._keys) or not len(hashes):
            return
        tables = hashes.shape[1]
        # Table by table, and within a table in the order of its entries; every hash in both levels.
        columns = np.arange(2 * tables)
        order = (np.argsort(hashes, axis=0).repeat(2, axis=1) * len(columns) + columns).T.reshape(-1)
        hashes = hashes.repeat(2, axis=1)
        begins, ends = np.zeros(hashes.shape, np.int64), np.zeros(hashes.shape, np.int64)
        of_tables = columns // 2 * len(Level) + columns % 2
        bisect.fill_spans(of_tables, hashes, hashes, order, self._edges, self._keys[:, 1].copy(), begins, ends)
        order = order[(begins < ends).reshape(-1)[order]]
        addresses = self._places.addresses(tree)
        self._require_sound(transaction, begins, ends, addresses)
        turn, passed = 0, 0
        while turn < len(order):
            found, numbers, turn, passed, unsound = bands.candidates(
                hashes, begins, ends, addresses, order, turn, passed, memtable.HITS_MAX
            )
            self._require(transaction, unsound)
            by_row = np.lexsort((numbers, found))
            found, numbers = found[by_row], numbers[by_row]
            again = (found[1:] == found[:-1]) & (numbers[1:] == numbers[:-1])
            first = np.concatenate([np.ones(min(1, len(found)), np.bool_), ~again])
            yield found[first], numbers[first]

    def _take_over(self, transaction: Transaction) -> TreePlace:
        """Read where the segments stand, unless they stand where they stood."""
        tree = transaction.tree_of(Table.SEGMENTS)
        if self._taken_over == (self._version, tree.root):
            return tree
        places = value_places(tree, BAND_KEY.size)
        if places is None:
            raise transaction.damaged(f"table {Table.SEGMENTS.value.decode()} holds what is no segment")
        by_page = np.argsort(self._places.pages)
        old = np.append(self._places.pages[by_page], -1)
        at = np.searchsorted(old[:-1], places.pages)
        # With a plain 0 checks would become floats, and no segment would be known again.
        known = np.append(self._known[by_page], np.uint64(0))
        self._known = np.where(old[at] == places.pages, known[at], np.uint64(0))
        self._certain = np.zeros(len(self._known), np.bool_)
        self._taken_over, self._places = (self._version, tree.root), places
        prefixes = np.ascontiguousarray(places.keys[:, :2]).view(">u2")[:, 0]
        bounds = np.ascontiguousarray(places.keys[:, 2:]).view(">u8")
        self._keys = np.column_stack([prefixes, bounds]).astype(np.uint64)
        levels = np.arange(self._shape.tables * len(Level) + 1)
        self._edges = np.searchsorted(self._keys[:, 0], (levels // len(Level)) << 8 | levels % len(Level))
        return tree

    def _require_sound(
        self,
        transaction: Transaction,
        begins: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
    ) -> None:
        """Check the segments in these spans, int64 [n, k] twice, and those behind.

        A key that was damaged shifts entries into the segment before it, and does not fit the check of its value.
        """
        count = len(self._keys) + 1
        changes = np.bincount(begins.reshape(-1), minlength=count) - np.bincount(ends.reshape(-1), minlength=count)
        wanted = np.cumsum(changes[:-1]) > 0
        wanted[1:] |= wanted[:-1].copy()
        wanted &= ~self._certain
        self._require(
            transaction,
            bands.first_unsound(wanted, addresses, self._places.sizes, self._keys, self._known),
        )
        self._certain |= wanted

    def _require(self, transaction: Transaction, unsound: int) -> None:
        if unsound >= 0:
            key = self._places.keys[unsound].tobytes().hex()
            table = Table.SEGMENTS.value.decode()
            raise transaction.damaged(f"the value of {key} in table {table} is not what was written")
