"""All NEAR entries that are filed by blocks, wherever they stand: in chunks, in the frozen run, in the overlay."""

import numpy as np
import numpy.typing as npt

from index import log, merging
from index.blocks import BLOCK_BITS, ringed
from index.chunks import Chunks
from index.distance import Matches, joined, nearest
from index.layout import COUNTERS_KEY, Filing, Table, unpack_counters
from index.merging import Merging
from index.overlay import Overlay
from index.store import Transaction


class Search:
    """What a process keeps in memory of the entries. Every transaction begins with `follow`.

    Numbers below merged_to stand in chunks, those up to frozen_to in the frozen run, those up to end in the overlay.
    What a transaction adds counts only after `committed`.
    """

    def __init__(self, words: int, merging: Merging) -> None:
        self._words = words
        self._merging = merging
        self._chunks: Chunks | None = None
        self._version = -1
        self._begin_at(0)

    def _begin_at(self, merged_to: int) -> None:
        self._frozen: Overlay | None = None
        self._active = Overlay(self._words)
        self._merged_to = self._frozen_to = self._end = self._end_uncommitted = merged_to
        self._committed_count = 0

    def follow(self, transaction: Transaction) -> None:
        """Take over what other processes have committed, and forget what was not committed here."""
        self._active.cut(self._committed_count)
        now = merging.state(transaction)
        if now.merged_to != self._merged_to:
            if now.merged_to == self._frozen_to and self._frozen is not None:
                self._frozen, self._merged_to = None, now.merged_to
            else:
                self._begin_at(now.merged_to)
        if now.frozen_to > self._frozen_to:
            self._load(transaction, now.frozen_to)
            self._frozen, self._active = self._active, Overlay(self._words)
            self._frozen_to, self._committed_count = now.frozen_to, 0
        self._load(transaction, unpack_counters(transaction.get(Table.META, COUNTERS_KEY)).next_number)
        if now.version != self._version:
            self._chunks, self._version = Chunks(transaction, self._words), now.version

    def _load(self, transaction: Transaction, end: int) -> None:
        """Read the log on to the number `end`."""
        if self._end < end:
            for batch in log.since(transaction, self._end, self._words):
                if batch.first_number >= end:
                    break
                entered = batch.entered()
                numbers = batch.first_number + np.arange(len(entered))
                filed = batch.rows["filing"][entered] == Filing.BLOCKS
                new = filed & (numbers >= self._end) & (numbers < end)
                self._active.add(
                    batch.rows["fingerprint"][entered[new]].astype(np.uint64), numbers[new].astype(np.uint64)
                )
        self._end = self._end_uncommitted = end
        self._committed_count = len(self._active)

    def nearest(
        self,
        transaction: Transaction,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        distance_max: int,
        limit: int,
    ) -> tuple[Matches, npt.NDArray[np.int64]]:
        """Per row its `limit` nearest entries within the distance, and the comparisons made for it, int64 [n].

        keys  uint32 [n, probes], `blocks.probe_keys` of the fingerprints and the distance
        """
        best = np.full(len(fingerprints), distance_max, np.int16)
        compared = np.zeros(len(fingerprints), np.int64)
        overlays = [self._active] if self._frozen is None else [self._active, self._frozen]
        filtered = ringed(self._words * 64 // BLOCK_BITS, distance_max)
        found = [overlay.matches(fingerprints, keys, filtered, best, compared, limit) for overlay in overlays]
        assert self._chunks is not None, "a transaction must begin with `follow`"
        found.append(self._chunks.matches(transaction, fingerprints, keys, filtered, best, compared, limit))
        return nearest(joined(found), limit), compared

    def add(self, fingerprints: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> None:
        """Entries of a batch under way, uint64 [n, words] and uint64 [n]: from now on they are found."""
        self._active.add(fingerprints, numbers)

    def advance(self, transaction: Transaction, next_number: int) -> None:
        """The end of a batch, before its commit: entries move on, see `merging`. next_number: behind all its numbers."""
        merging.advance(transaction, self._merging, self._frozen, len(self._active), next_number, self._words)
        self._end_uncommitted = next_number

    def committed(self) -> None:
        """What was added counts."""
        self._committed_count, self._end = len(self._active), self._end_uncommitted
