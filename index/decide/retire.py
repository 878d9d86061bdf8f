"""Retirement: expired or forgotten entries leave the tables."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import Kind
from index.session import WriteSession
from index.storage import log
from index.storage.codec import Tombstones
from index.storage.layout import Change, Filing, Table, pack_fingerprints, pack_numbers


class Leaving(NamedTuple):
    """Entries that leave the tables, each for the first time.

    numbers       uint64 [n], distinct
    fingerprints  uint64 [n, words]
    kinds         uint8 [n], `Kind` values
    filings       uint8 [n], `Filing` values

    >>> leaving = Leaving(np.array([4, 7]), np.array([[1], [2]]), np.full(2, Kind.NEAR), np.full(2, Filing.BLOCKS))
    >>> Leaving._make(column[leaving.numbers > 4] for column in leaving).fingerprints
    array([[2]])
    """

    numbers: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint8]
    filings: npt.NDArray[np.uint8]


def remove(session: WriteSession, numbers: npt.NDArray[np.uint64]) -> None:
    """Remove documents, uint64 [n] ascending, none retired, from the entry tables."""
    stored = log.documents(session.transaction, numbers, session.words)
    columns = numbers, stored.fingerprints, stored.rows["kind"], stored.rows["filing"]
    retire(session, Leaving._make(column[stored.there] for column in columns), Change.FORGOTTEN)


def retire(session: WriteSession, leaving: Leaving, change: Change) -> None:
    """Remove entries from the tables.

    change  EXPIRED if the entries' batches leave the log in this transaction, else FORGOTTEN
    """
    if not len(leaving.numbers):
        return
    transaction, counters = session.transaction, session.counters
    near = leaving.kinds == Kind.NEAR
    indexed, numbers = leaving.filings == Filing.BLOCKS, pack_numbers(leaving.numbers)
    for row in np.flatnonzero(leaving.kinds == Kind.EXACT).tolist():
        transaction.delete(Table.EXACT, pack_fingerprints(leaving.fingerprints[row : row + 1])[0], numbers[row])
    if change is Change.FORGOTTEN:
        transaction.put_all(Table.RETIRED, numbers, [b""] * len(numbers))
        session.visibility.note_retired(leaving.numbers)
    session.counters = counters._replace(near_entries=counters.near_entries - int(np.count_nonzero(near)))
    if not indexed.any():
        return
    # Only entries with band keys need a tombstone.
    changes = np.full(int(indexed.sum()), change, np.uint8)
    tombstone = Tombstones(leaving.numbers[indexed], leaving.fingerprints[indexed], changes)
    session.tree.add_tombstone(transaction, counters.next_tombstone, tombstone)
    session.counters = session.counters._replace(next_tombstone=counters.next_tombstone + 1)
