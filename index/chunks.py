"""The packed entries: sorted tables, cut into chunks. Reading them; `merging` writes them.

The entries of a table that begin with the same value stand side by side, the bucket: in SimHash those with an equal
block, in MinHash those with an equal half of the hash of a band.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index import kernels, overlay
from index.blocks import BLOCK_BITS
from index.distance import Matches
from index.entry import NO_NUMBER
from index.kernels import Spans
from index.layout import Table
from index.packing import chunk_numbers
from index.schemes import Shape
from index.store import Transaction

_WORD_COLUMNS = 4


class Chunks:
    """All chunks of one version, by their keys. The chunks themselves are read anew in every transaction."""

    def __init__(self, transaction: Transaction, shape: Shape) -> None:
        self._shape = shape
        self._keys = transaction.keys(Table.CHUNKS)
        raw = np.frombuffer(b"".join(self._keys), np.uint8).reshape(len(self._keys), 1 + shape.bound_bytes)
        self._edges = np.searchsorted(raw[:, 0], np.arange(shape.tables + 1))
        first_word = np.ascontiguousarray(raw[:, 1 : 1 + 2 * _WORD_COLUMNS])
        self._bounds = first_word.view(">u8")[:, 0].astype(np.uint64)
        """The first four columns of every chunk's bound. Where two are equal, so may be those of what is between them."""

    def __len__(self) -> int:
        return len(self._keys)

    def hits(
        self,
        transaction: Transaction,
        fingerprints: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        allowed: npt.NDArray[np.int8],
        best: npt.NDArray[np.int16],
        compared: npt.NDArray[np.int64],
        *,
        nearest_only: bool,
    ) -> Iterator[Matches]:
        """SimHash: all entries within the distance, as `Overlay.hits` gives them."""
        if not self._keys or not len(keys):
            return
        lowest = (keys & np.uint32(0xFFFF)).astype(np.uint64) << np.uint64(48)
        tables = (keys[0] >> np.uint32(BLOCK_BITS)).astype(np.int64)
        spans = self._spans(tables, lowest, lowest | np.uint64(2**48 - 1))
        self._fetch(transaction, spans)
        order, turn = np.argsort(keys, axis=None), 0
        while turn < len(order):
            rows, distances, hits, turn = kernels.scan_chunks(
                fingerprints, keys, allowed, spans, order, nearest_only, best, compared, turn, overlay.HITS_MAX
            )
            if nearest_only:
                # What was the nearest when it was found need not be the nearest any more.
                still = distances == best[rows]
                rows, distances, hits = rows[still], distances[still], hits[still]
            numbers = self._numbers(transaction, hits, spans.addresses)
            # What table 0 holds no more is on its way out of the others.
            there = numbers != NO_NUMBER
            yield Matches(rows[there], distances[there], numbers[there])

    def numbers(self, transaction: Transaction, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """SimHash: the numbers of fingerprints uint64 [n, words], uint64 [n]; NO_NUMBER where there is none."""
        return self._numbers(transaction, fingerprints, np.zeros(len(self._keys), np.uint64))

    def _numbers(
        self, transaction: Transaction, fingerprints: npt.NDArray[np.uint64], addresses: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint64]:
        """The numbers that stand with fingerprints uint64 [n, words] in table 0, uint64 [n]; NO_NUMBER: none.

        addresses  uint64 [chunks], of those fetched before in this transaction, else 0; filled in here
        """
        numbers = np.full(len(fingerprints), NO_NUMBER)
        if not len(fingerprints) or not self._keys:
            return numbers
        first = fingerprints[:, :1]
        spans = self._spans(np.zeros(1, np.int64), first, first)._replace(addresses=addresses)
        self._fetch(transaction, spans)
        chunks, places = kernels.places_in_chunks(fingerprints, spans)
        for chunk in np.unique(chunks[chunks >= 0]).tolist():
            value = transaction.view(Table.CHUNKS, self._keys[chunk])
            assert value is not None
            here = chunks == chunk
            numbers[here] = chunk_numbers(value, places[here], self._shape.columns)
        return numbers

    def candidates(
        self, transaction: Transaction, page_keys: npt.NDArray[np.uint32]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """MinHash: who shares a key with a row of page keys uint32 [n, k]: rows int64 [m] and numbers uint64 [m].

        The keys are those of the first k tables. At most HITS_MAX at a time, in order of row and number, each pair once
        among them.
        """
        if not self._keys or not len(page_keys):
            return
        lowest = page_keys.astype(np.uint64) << np.uint64(32)
        spans = self._spans(np.arange(page_keys.shape[1]), lowest, lowest | np.uint64(2**32 - 1))
        self._fetch(transaction, spans)
        # Table by table, and in each in the order of its entries.
        order = (np.argsort(page_keys, axis=0) * page_keys.shape[1] + np.arange(page_keys.shape[1])).T.reshape(-1)
        turn, passed = 0, 0
        while turn < len(order):
            rows, numbers, turn, passed = kernels.chunk_candidates(
                page_keys, spans, order, turn, passed, overlay.HITS_MAX
            )
            by_row = np.lexsort((numbers, rows))
            rows, numbers = rows[by_row], numbers[by_row]
            again = (rows[1:] == rows[:-1]) & (numbers[1:] == numbers[:-1])
            first = np.concatenate([np.ones(min(1, len(rows)), np.bool_), ~again])
            yield rows[first], numbers[first]

    def _spans(
        self, tables: npt.NDArray[np.int64], lowest: npt.NDArray[np.uint64], highest: npt.NDArray[np.uint64]
    ) -> Spans:
        """Which chunks may hold entries of tables int64 [k] whose first four columns lie in [lowest, highest], [n, k]."""
        begins, ends = np.empty(lowest.shape, np.int64), np.empty(lowest.shape, np.int64)
        for table in np.unique(tables).tolist():
            of_table = tables == table
            first, last = self._edges[table], self._edges[table + 1]
            bounds = self._bounds[first:last]
            # A chunk begins at its bound, so the one before the first bound that is not below holds more, too.
            begins[:, of_table] = first + np.maximum(np.searchsorted(bounds, lowest[:, of_table]) - 1, 0)
            ends[:, of_table] = first + np.searchsorted(bounds, highest[:, of_table], side="right")
        return Spans(begins, np.maximum(begins, ends), np.zeros(len(self._keys), np.uint64))

    def _fetch(self, transaction: Transaction, spans: Spans) -> None:
        """Fill in the addresses of all chunks in the spans that have none yet."""
        count = len(self._keys) + 1
        changes = np.bincount(spans.begins.reshape(-1), minlength=count)
        changes -= np.bincount(spans.ends.reshape(-1), minlength=count)
        missing = np.flatnonzero((np.cumsum(changes[:-1]) > 0) & (spans.addresses == 0))
        keys = [self._keys[chunk] for chunk in missing.tolist()]
        spans.addresses[missing] = transaction.addresses(Table.CHUNKS, keys)
