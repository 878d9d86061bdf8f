"""The tree: all NEAR entries filed by blocks, in memtables and segments."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from index.lsm import compaction
from index.lsm.compaction import MemtablePair, TreeSizes
from index.lsm.hash_table import HashTable, TreeStats
from index.lsm.lookup import NearLookup
from index.lsm.shape import Shape, shape_of
from index.matching.distance import Portion
from index.storage.codec import Tombstones, pack_tombstones
from index.storage.layout import TOMBSTONE_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import Transaction


class Tree(HashTable):
    """All entries, as a process sees them.

    >>> tree = opened.read(lambda session: session.tree)
    >>> tree.add(np.array([[5]], np.uint64), np.array([0], np.uint64))
    >>> tree.stats().memtable_entries
    1
    >>> opened.read(lambda session: session.tree.stats().memtable_entries)
    0
    """

    def __init__(
        self, parameters: Parameters, sizes: TreeSizes, new_pair: Callable[[Shape], MemtablePair] = MemtablePair
    ) -> None:
        """As `HashTable`, for an index with these parameters."""
        super().__init__(shape_of(parameters), sizes, new_pair)

    def matches(self, transaction: Transaction, lookup: NearLookup) -> Iterator[Portion]:
        """All entries within the distance in portions, each pair at most once per portion.

        A portion holds about `memtable.HITS_MAX` matches. Retired entries also match, as long as a memtable or a segment
        holds them. The caller must not write before taking the last portion.
        """
        return lookup.matches(transaction, self.memtables(), self._segments)

    def add(
        self,
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        """Add the current batch's entries, as `Memtable.add`; later lookups match them."""
        self._active.added.add(fingerprints, numbers, hashes)

    def add_tombstone(self, transaction: Transaction, number: int, tombstone: Tombstones) -> None:
        """Store a tombstone under `number`, the next one."""
        transaction.put(Table.TOMBSTONES, TOMBSTONE_KEY.pack(number), pack_tombstones(tombstone))
        self._take_over(tombstone)

    def stats(self) -> TreeStats:
        """The table at the last `follow`, with the entries added since."""
        return TreeStats(
            memtable_entries=len(self._active.added),
            frozen_entries=len(self._frozen.added) if self._frozen is not None else 0,
            removals=sum(len(pair.removed) for pair in self._pairs()),
            progress=compaction.progress(self.compaction, self._shape.tables),
            segments=len(self._segments),
        )
