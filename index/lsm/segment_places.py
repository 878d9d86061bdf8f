"""Places of segments in memory, and the sound ones among them, as one process knows them.

Lookups read a few pages from thousands of segments, by address (`tree_place`). LMDB never overwrites the last commit's
pages, so an address is valid during a transaction. A process checks a segment when it first meets it.
"""

import numpy as np
import numpy.typing as npt

from index.kernels import leaves
from index.storage.file.checksums import CHECKSUM
from index.storage.file.tree_place import ValuePlaces, value_places
from index.storage.layout import Table
from index.storage.segments.compaction_state import CompactionState
from index.storage.store import Transaction


class SegmentPlaces:
    """All segments in a table of the file as of the last commit.

    edges   int64 [prefixes + 1], the first segment per key prefix: a table, or a level in it
    bounds  uint64 [segments], every segment's bound, its first word
    """

    def __init__(self, table: Table, prefixes: list[bytes], bound_bytes: int) -> None:
        self._table, self._key_bytes = table, len(prefixes[0]) + bound_bytes
        self._prefix_bytes = len(prefixes[0])
        self._prefixes = [int.from_bytes(prefix, "big") for prefix in prefixes]
        self._count = self._version = 0
        self._taken_over: tuple[int, int | None] | None = None
        """The segments' version, and their tree's root."""
        self._known = np.empty(0, np.uint64)
        """Each segment's checksum, or 0 before its check."""
        self._certain = np.empty(0, np.bool_)
        """Segments checked since the last change."""
        self._take(ValuePlaces(np.empty((0, self._key_bytes), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)))

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
            places, old = value_places(tree, self._key_bytes), self._places.pages
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
        self._places, prefix_bytes = places, self._prefix_bytes
        words = np.ascontiguousarray(places.keys[:, prefix_bytes : prefix_bytes + 8]).view(">u8")
        self.bounds = words[:, 0].astype(np.uint64)
        of_segments = places.keys[:, :prefix_bytes].astype(np.int64) @ 256 ** np.arange(prefix_bytes)[::-1]
        self.edges = np.searchsorted(of_segments, [*self._prefixes, self._prefixes[-1] + 1])

    def require_sound(
        self,
        transaction: Transaction,
        begins: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
    ) -> None:
        """Check the segments in these spans, int64 [n, k] each, and the ones after them. Raises IndexDamaged.

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

    def _check(
        self, transaction: Transaction, wanted: npt.NDArray[np.bool_], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """Check the wanted segments, bool [segments], except those with a known checksum; fills in `_known`."""
        places = np.flatnonzero(wanted)
        stored = leaves.words_at(addresses[places] + (self._places.sizes[places] - CHECKSUM.size).astype(np.uint64))
        for place in places[stored != self._known[places]].tolist():
            transaction.existing(self._table, self.key(place))
        self._known[places] = stored

    def key(self, segment: int) -> bytes:
        """A segment's key."""
        key: bytes = self._places.keys[segment].tobytes()
        return key
