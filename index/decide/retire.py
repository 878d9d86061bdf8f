"""Retirement: expired or forgotten entries leave the tables."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Kind
from index.session import WriteSession
from index.storage import log
from index.storage.codec import Tombstones
from index.storage.documents import earliest_equals
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

    One entry in the blocks represents all its equals. When it leaves, the earliest equal that counts takes its place.

    change  EXPIRED if the entries' batches leave the log in this transaction, else FORGOTTEN
    """
    if not len(leaving.numbers):
        return
    transaction, visibility, counters = session.transaction, session.visibility, session.counters
    near = leaving.kinds == Kind.NEAR
    in_blocks = near & (leaving.filings == Filing.BLOCKS)
    keys, numbers = pack_fingerprints(leaving.fingerprints), pack_numbers(leaving.numbers)
    for row in np.flatnonzero(~in_blocks).tolist():
        was_there = transaction.delete(Table.REPEATS if near[row] else Table.EXACT, keys[row], numbers[row])
        # A NEAR entry filed aside but missing from `repeats` has been raised into the blocks.
        in_blocks[row] = near[row] and not was_there
    if change is Change.FORGOTTEN:
        transaction.put_all(Table.RETIRED, numbers, [b""] * len(numbers))
        visibility.note_retired(leaving.numbers)
    # Only entries in the blocks need a tombstone: those aside left their tables above.
    removed, fingerprints = leaving.numbers[in_blocks], leaving.fingerprints[in_blocks]
    session.counters = counters._replace(near_entries=counters.near_entries - int(np.count_nonzero(near)))
    if not len(removed):
        return
    # Entries 5, 8 and 9 are equal, 5 in the blocks: when 5 leaves, 8 moves from `repeats` into the blocks.
    raised = np.full(len(removed), NO_NUMBER, np.uint64)
    if transaction.count(Table.REPEATS):
        raised = earliest_equals(visibility, Table.REPEATS, fingerprints)
    taking = raised != NO_NUMBER
    for key, number in zip(pack_fingerprints(fingerprints[taking]), pack_numbers(raised[taking]), strict=True):
        transaction.delete(Table.REPEATS, key, number)
    changes = np.full(len(removed), change, np.uint8), np.full(int(taking.sum()), Change.RAISED, np.uint8)
    tombstone = Tombstones(
        np.concatenate([removed, raised[taking]]),
        np.concatenate([fingerprints, fingerprints[taking]]),
        np.concatenate(changes),
    )
    session.tree.add_tombstone(transaction, counters.next_tombstone, tombstone)
    session.counters = session.counters._replace(next_tombstone=counters.next_tombstone + 1)
