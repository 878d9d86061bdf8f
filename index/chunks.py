"""The packed entries: a sorted table per block, cut into chunks. Reading them; `merging` writes them.

Table t orders fingerprints by their blocks t, t + 1, ..., round to t - 1, so that the entries with an equal block t, the
bucket, stand side by side.
"""

import numpy as np
import numpy.typing as npt

from index import kernels
from index.blocks import BLOCK_BITS
from index.distance import Matches, joined, nearest, no_matches
from index.layout import Table, chunk_numbers
from index.overlay import HITS_MAX
from index.store import Transaction


class Chunks:
    """All chunks of one version, by their keys. The chunks themselves are read anew in every transaction."""

    def __init__(self, transaction: Transaction, words: int) -> None:
        self._blocks = words * 64 // BLOCK_BITS
        self._keys = transaction.keys(Table.CHUNKS)
        raw = np.frombuffer(b"".join(self._keys), np.uint8).reshape(len(self._keys), 1 + 8 * words)
        self._edges = np.searchsorted(raw[:, 0], np.arange(self._blocks + 1))
        self._bounds = np.ascontiguousarray(raw[:, 1:9]).view(">u8")[:, 0].astype(np.uint64)
        """The first word of every chunk's bound. Where two are equal, so may further words of what is between them."""

    def __len__(self) -> int:
        return len(self._keys)

    def matches(
        self,
        transaction: Transaction,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        ringed: npt.NDArray[np.bool_],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        limit: int,
    ) -> Matches:
        """For every row its `limit` nearest entries, as `Overlay.matches` does."""
        if not self._keys or not len(keys):
            return no_matches()
        tables, lowest = keys >> np.uint32(BLOCK_BITS), (keys & np.uint32(0xFFFF)).astype(np.uint64) << np.uint64(48)
        begins, ends = self._spans(tables, lowest, lowest | np.uint64(2**48 - 1))
        addresses = np.zeros(len(self._keys), np.uint64)
        self._fetch(transaction, begins, ends, addresses)
        order = np.argsort(keys, axis=None)
        found, turn = no_matches(), 0
        while turn < len(order):
            rows, distances, hits, turn = kernels.scan_chunks(
                fingerprints, keys, order, begins, ends, addresses, ringed, limit == 1, best, compared, turn, HITS_MAX
            )
            if limit == 1:
                # What was the nearest when it was found need not be the nearest any more.
                still = distances == best[rows]
                rows, distances, hits = rows[still], distances[still], hits[still]
            numbers = self.numbers(transaction, hits, addresses)
            found = joined([found, nearest(Matches(rows, distances, numbers), limit)])
        return found

    def numbers(
        self, transaction: Transaction, fingerprints: npt.NDArray[np.uint64], addresses: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint64]:
        """The numbers, uint64 [n], of entries that stand in table 0, by their fingerprints uint64 [n, words].

        addresses  uint64 [chunks], of those fetched before in this transaction, else 0; filled in here
        """
        numbers = np.empty(len(fingerprints), np.uint64)
        if not len(fingerprints):
            return numbers
        first = fingerprints[:, 0]
        begins, ends = self._spans(np.zeros(len(first), np.uint32), first, first)
        self._fetch(transaction, begins, ends, addresses)
        chunks, places = kernels.places_in_chunks(fingerprints, begins, ends, addresses)
        assert (chunks >= 0).all(), "an entry of another table is missing in table 0"
        for chunk in np.unique(chunks).tolist():
            value = transaction.view(Table.CHUNKS, self._keys[chunk])
            assert value is not None
            here = chunks == chunk
            numbers[here] = chunk_numbers(value, places[here], self._blocks)
        return numbers

    def _spans(
        self, tables: npt.NDArray[np.uint32], lowest: npt.NDArray[np.uint64], highest: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which chunks [begin, end) of their tables may hold entries whose first word lies in [lowest, highest]."""
        begins, ends = np.zeros(tables.shape, np.int64), np.zeros(tables.shape, np.int64)
        for table in range(self._blocks):
            of_table = tables == table
            first, last = self._edges[table], self._edges[table + 1]
            bounds = self._bounds[first:last]
            # A chunk begins at its bound, so the one before the first bound that is not below holds more, too.
            begins[of_table] = first + np.maximum(np.searchsorted(bounds, lowest[of_table]) - 1, 0)
            ends[of_table] = first + np.searchsorted(bounds, highest[of_table], side="right")
        return begins, np.maximum(begins, ends)

    def _fetch(
        self,
        transaction: Transaction,
        begins: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
    ) -> None:
        """Fill in the addresses of all chunks in the spans that have none yet."""
        changes = np.zeros(len(self._keys) + 1, np.int64)
        np.add.at(changes, begins.reshape(-1), 1)
        np.add.at(changes, ends.reshape(-1), -1)
        missing = np.flatnonzero((np.cumsum(changes[:-1]) > 0) & (addresses == 0))
        addresses[missing] = transaction.addresses(Table.CHUNKS, [self._keys[chunk] for chunk in missing.tolist()])
