"""The journal: which position got which verdict. It makes deciding idempotent.

Rows are packed into one value per batch and source. The values of a source never overlap, so the value that may hold
an offset is the one with the greatest first offset that is not above it; rows that fall between the rows of a value
join that value.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.layout import JOURNAL_KEY, JOURNAL_ROW, SOURCE_KEY, Table
from index.store import Transaction

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Found:
    """What the journal knows of some offsets of one source.

    rows   structured JOURNAL_ROW [n], row for row with the offsets asked for; not to be read where not known
    known  bool [n]
    """

    rows: Rows
    known: npt.NDArray[np.bool_]


def find(transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64]) -> Found:
    """Look up offsets uint64 [n], ascending, of one source. One step per value that may hold any of them."""
    rows = np.zeros(len(offsets), JOURNAL_ROW)
    known = np.zeros(len(offsets), np.bool_)
    for begin, end, value in _values(transaction, stream, partition, offsets):
        if value is None:
            continue
        places = np.searchsorted(value["offset"], offsets[begin:end])
        places[places == len(value)] = 0
        rows[begin:end] = value[places]
        known[begin:end] = value["offset"][places] == offsets[begin:end]
    return Found(rows, known)


def add(transaction: Transaction, stream: int, partition: int, rows: Rows) -> None:
    """Write rows JOURNAL_ROW [n] of one source, ascending by offset, none of which the journal knows."""
    for begin, end, value in list(_values(transaction, stream, partition, rows["offset"])):
        new = rows[begin:end]
        inside = 0
        if value is not None:
            inside = int(np.searchsorted(new["offset"], value["offset"][-1]))
        if value is not None and inside:
            merged = np.concatenate([value, new[:inside]])
            _put(transaction, stream, partition, merged[np.argsort(merged["offset"])])
        if inside < len(new):
            _put(transaction, stream, partition, new[inside:])


def _values(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64]
) -> list[tuple[int, int, Rows | None]]:
    """Ascending offsets in runs [begin, end) that have the same value below them, or none: None."""
    source = SOURCE_KEY.pack(stream, partition)
    runs: list[tuple[int, int, Rows | None]] = []
    begin = 0
    while begin < len(offsets):
        key = JOURNAL_KEY.pack(stream, partition, int(offsets[begin]))
        below = transaction.floor(Table.JOURNAL, key)
        above = transaction.key_above(Table.JOURNAL, key)
        end = len(offsets)
        if above is not None and above.startswith(source):
            end = int(np.searchsorted(offsets, np.uint64(JOURNAL_KEY.unpack(above)[2])))
        value = np.frombuffer(below[1], JOURNAL_ROW) if below is not None and below[0].startswith(source) else None
        runs.append((begin, end, value))
        begin = end
    return runs


def _put(transaction: Transaction, stream: int, partition: int, rows: Rows) -> None:
    key = JOURNAL_KEY.pack(stream, partition, int(rows["offset"][0]))
    transaction.put(Table.JOURNAL, key, rows.tobytes())
