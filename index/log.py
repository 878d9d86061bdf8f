"""The log: every batch as it was decided, one value each, in order. All that is known of a document stands here."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.entry import Entries
from index.layout import LOG_KEY, LOG_SOURCE, Filing, Table, log_row, pack_batch, unpack_batch, unpack_text
from index.store import Transaction

_LAST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that stands in the log; to be read before anything is written in its transaction.

    first_number  the document number of the first row that entered
    sources       structured LOG_SOURCE [s]
    rows          structured log_row [n]
    """

    first_number: int
    sources: npt.NDArray[np.void]
    rows: npt.NDArray[np.void]
    _ids: memoryview

    def entered(self) -> npt.NDArray[np.int64]:
        """The rows that entered, ascending: row i of them has the number first_number + i."""
        return np.flatnonzero(self.rows["filing"])

    def ids(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The ids of these rows, int64 [m]."""
        ends = self.rows["id_end"]
        begins = np.where(rows > 0, ends[rows - 1], 0).tolist()
        return [
            unpack_text(bytes(self._ids[begin:end])) for begin, end in zip(begins, ends[rows].tolist(), strict=True)
        ]


def write(
    transaction: Transaction,
    key: bytes,
    entries: Entries,
    sources: npt.NDArray[np.void],
    columns: dict[str, npt.NDArray[np.generic]],
) -> None:
    """Append a batch of decided rows.

    sources  LOG_SOURCE [s], the index's own numbers of `entries.sources`
    columns  number, distance, verdict and filing of every row, as `layout` says
    """
    rows = np.zeros(len(entries), log_row(entries.fingerprints.shape[1]))
    rows["offset"], rows["time_ms"], rows["source"] = entries.offsets, entries.times_ms, entries.source_numbers
    rows["fingerprint"], rows["reason"], rows["kind"] = entries.fingerprints, entries.reasons, entries.kinds
    for name, column in columns.items():
        rows[name] = column
    filed = rows["filing"] != Filing.NOTHING
    ids = [id_ if entered else "" for id_, entered in zip(entries.ids, filed.tolist(), strict=True)]
    transaction.put(Table.LOG, key, pack_batch(sources, rows, ids))


def read(transaction: Transaction, key: bytes, words: int) -> Batch:
    """The batch that has this key, which must exist."""
    value = transaction.view(Table.LOG, key)
    assert value is not None, "the journal names a batch that is not in the log"
    return Batch(LOG_KEY.unpack(key)[0], *unpack_batch(value, words))


def since(transaction: Transaction, number: int, words: int) -> Iterator[Batch]:
    """The batches with documents from `number` on, ascending; the first one may begin with earlier ones."""
    below = transaction.floor(Table.LOG, LOG_KEY.pack(number, _LAST))
    if below is not None:
        for key, value in transaction.walk(Table.LOG, below[0]):
            yield Batch(LOG_KEY.unpack(key)[0], *unpack_batch(value, words))


def holding(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[Batch, npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
    """Batches with the rows int64 [m] that have these numbers uint64 [n], ascending, and those numbers, uint64 [m].

    Numbers that were never given are left out.
    """
    at = 0
    while at < len(numbers):
        # Of the batches with this first number only the last can have entered anything.
        below = transaction.floor(Table.LOG, LOG_KEY.pack(int(numbers[at]), _LAST))
        if below is None:
            return
        batch = Batch(LOG_KEY.unpack(below[0])[0], *unpack_batch(below[1], words))
        entered = batch.entered()
        end = int(np.searchsorted(numbers, np.uint64(batch.first_number + len(entered))))
        if end == at:
            return
        asked = numbers[at:end]
        yield batch, entered[(asked - np.uint64(batch.first_number)).astype(np.int64)], asked
        at = end


def sources_of(streams: npt.NDArray[np.uint32], partitions: npt.NDArray[np.uint32]) -> npt.NDArray[np.void]:
    """The sources of a batch, by the index's own numbers: uint32 [s] twice -> LOG_SOURCE [s]."""
    sources = np.empty(len(streams), LOG_SOURCE)
    sources["stream"], sources["partition"] = streams, partitions
    return sources
