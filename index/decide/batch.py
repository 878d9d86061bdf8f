"""A batch within its write transaction: its sources, its journaled decisions, and the entry of rows.

`admit`, `restore` and the import decide differently, but all enter decided rows through `Batch`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from index import sets
from index.entry import NO_NUMBER, Entries, Kind, Verdict, naming_originals
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import documents, journal, log, sources
from index.storage.bases import are_own
from index.storage.journal import JournaledDecisions
from index.storage.layout import LOG_KEY, Filing, Table, pack_fingerprints, pack_numbers
from index.storage.log import Origin
from index.stories import host_names


class Batch:
    """Rows of a batch, with the index's numbers for their sources.

    streams     uint32 [sources], stream numbers
    partitions  uint32 [sources]
    sources     LOG_SOURCE [sources], both together
    journaled   decisions from earlier batches, row by row

    >>> from index import Source
    >>> none = Entries((Source("topic", 3),), *[np.zeros(0, np.uint64)] * 4, np.zeros((0, 1), np.uint64), np.zeros(0), [])
    >>> opened.write(lambda session: Batch(session, none).sources)
    array([(0, 3)], dtype=[('stream', '<u4'), ('partition', '<u4')])
    """

    def __init__(self, session: WriteSession, entries: Entries) -> None:
        """Register unknown streams."""
        self.entries = entries
        self.streams = np.array(
            [sources.number_of(session.transaction, each.stream) for each in entries.sources], np.uint32
        )
        self.partitions = np.array([source.partition for source in entries.sources], np.uint32)
        self.sources = log.sources_of(self.streams, self.partitions)
        self.journaled = self._journaled(session)

    def _journaled(self, session: WriteSession) -> JournaledDecisions:
        entries, count = self.entries, len(self.entries)
        decisions = JournaledDecisions(np.zeros(count, journal.DECISION), np.zeros(count, np.bool_), {})
        # Source numbers [1, 0, 1]: order is [1, 0, 2], edges [1], so source 0 has row [1], source 1 rows [0, 2].
        order = np.argsort(entries.source_numbers, kind="stable")
        edges = np.searchsorted(entries.source_numbers[order], np.arange(1, len(entries.sources)))
        for stream, partition, rows in zip(self.streams, self.partitions, np.split(order, edges), strict=False):
            if len(rows):
                source_decisions = journal.find(
                    session.transaction, int(stream), int(partition), entries.offsets[rows], session.words
                )
                decisions.rows[rows] = source_decisions.rows
                decisions.known[rows] = source_decisions.known
                decisions.origins.update((int(rows[row]), origin) for row, origin in source_decisions.origins.items())
        return decisions

    def enter(
        self,
        session: WriteSession,
        rows: Entries,
        outcome: Outcome,
        *,
        leaving: npt.NDArray[np.bool_],
        origins: Sequence[Origin] | None = None,
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> dict[int, Origin]:
        """Log decided rows, index those that enter, journal their positions, and count them.

        rows     rows unknown to the journal; their numbers follow the last ones
        leaving  bool [n], rows about to be forgotten, which get no band keys
        origins  originals of the rows that name one, in order; None: the log or this batch has them
        hashes   uint64 [n, tables], the rows' `Shape.hashes`, if known

        Returns the original of every row that names one, by row.
        """
        duplicates = np.flatnonzero(naming_originals(outcome.verdicts)).tolist()
        if origins is None:
            origins = origins_of(session, outcome, duplicates, partial(self.row_origins, rows))
        filings = np.where(outcome.entering, Filing.ASIDE, Filing.NOTHING).astype(np.uint8)
        filings[outcome.entering & ~leaving & (rows.kinds == Kind.NEAR)] = Filing.BLOCKS
        if len(rows):
            self._write(session, rows, outcome, filings, origins, hashes)
        return dict(zip(duplicates, origins, strict=True))

    def row_origins(self, entries: Entries, rows: npt.NDArray[np.int64]) -> list[Origin]:
        """Rows, int64 [m], as the originals of others."""
        source_numbers = entries.source_numbers[rows]
        columns = self.streams[source_numbers], self.partitions[source_numbers], entries.offsets[rows]
        ids = map(entries.ids.__getitem__, rows.tolist())
        return list(map(Origin, ids, *(column.tolist() for column in columns)))

    def _write(
        self,
        session: WriteSession,
        rows: Entries,
        outcome: Outcome,
        filings: npt.NDArray[np.uint8],
        origins: Sequence[Origin],
        hashes: npt.NDArray[np.uint64] | None,
    ) -> None:
        """Log, file, journal and count these rows; filings: uint8 [n], `layout.Filing` values."""
        transaction, counters, numbers = session.transaction, session.counters, outcome.numbers
        if session.opened.named_hosts is not None and rows.hosts is not None:
            host_names.note(transaction, log.host_digests(rows), rows.hosts, session.opened.named_hosts)
        key = LOG_KEY.pack(counters.next_number, counters.journal_rows)
        columns: dict[str, npt.NDArray[np.generic]] = {
            "number": outcome.originals,
            "distance": outcome.distances,
            "verdict": outcome.verdicts,
            "filing": filings,
            "returns": outcome.returns,
            "strangers": outcome.strangers,
        }
        log.write(transaction, key, rows, self.sources, columns, origins, outcome.ratios)
        session.ids.add(transaction, key)
        exact = (filings == Filing.ASIDE) & (rows.kinds == Kind.EXACT)
        if exact.any():
            transaction.add(Table.EXACT, pack_fingerprints(rows.fingerprints[exact]), pack_numbers(numbers[exact]))
        filed = filings == Filing.BLOCKS
        session.tree.add(rows.fingerprints[filed], numbers[filed], None if hashes is None else hashes[filed])
        given_back = np.flatnonzero((outcome.verdicts == Verdict.GIVEN_BACK) & outcome.entering)
        if len(given_back):
            ids = [rows.ids[row] for row in given_back.tolist()]
            documents.note_given_back(transaction, ids, numbers[given_back])
        updates = np.flatnonzero((outcome.verdicts == Verdict.UPDATE) & outcome.entering)
        if len(updates):
            # A restored row does not know the number of the version that it replaced.
            is_known = (outcome.orders[updates] != NO_NUMBER).any()
            ids, replaced = [rows.ids[row] for row in updates.tolist()], outcome.named[updates] if is_known else None
            documents.note_versions(transaction, ids, numbers[updates], replaced)
        for source, (stream, partition) in enumerate(zip(self.streams, self.partitions, strict=True)):
            offsets = rows.offsets[rows.source_numbers == source]
            if len(offsets):
                journal.add(transaction, int(stream), int(partition), offsets, key, source, session.words)
        entered = filings != Filing.NOTHING
        session.counters = counters._replace(
            next_number=counters.next_number + int(np.count_nonzero(entered)),
            journal_rows=counters.journal_rows + len(rows),
            near_entries=counters.near_entries + int(np.count_nonzero(entered & (rows.kinds == Kind.NEAR))),
        )


def origins_of(
    session: ReadSession,
    outcome: Outcome,
    rows: list[int],
    row_origins: Callable[[npt.NDArray[np.int64]], list[Origin]],
) -> list[Origin]:
    """Originals of these rows; `row_origins` gives those that are rows of the chunk themselves."""
    numbers, first_number, former = outcome.named[rows], np.uint64(outcome.first_number), outcome.former
    if former:
        numbers[[row in former for row in rows]] = NO_NUMBER
    in_sets = (numbers < first_number) | (~are_own(numbers) & (numbers != NO_NUMBER))
    by_number = sets.origins(session, numbers[in_sets])
    # First number 10, rows 0 and 2 enter: number 11 is row 2.
    in_batch = np.unique(numbers[(numbers >= first_number) & are_own(numbers)])
    entered = np.flatnonzero(outcome.entering)[(in_batch - first_number).astype(np.int64)]
    by_number.update(zip(in_batch.tolist(), row_origins(entered), strict=True))
    if not former:
        return list(map(by_number.__getitem__, numbers.tolist()))
    former_rows = np.array([where for where in former.values() if isinstance(where, int)], np.int64)
    by_row = dict(zip(former_rows.tolist(), row_origins(former_rows), strict=True))
    return [
        by_number[number] if where is None else by_row[where] if isinstance(where, int) else Origin(*where)
        for number, where in zip(numbers.tolist(), map(former.get, rows), strict=True)
    ]
