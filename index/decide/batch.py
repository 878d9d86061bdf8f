"""A batch within its write transaction: its sources, its journaled decisions, and the entering of rows.

`admit`, `restore` and the import decide differently; all enter decided rows through `Batch`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from index.decide.retire import Leaving, retire
from index.decide.rule import Outcome
from index.entry import Entries, Kind, Verdict, naming_originals
from index.lsm.simhash_lookup import first_of_equals
from index.matching.distance import Matches
from index.session import WriteSession
from index.storage import documents, journal, log, sources
from index.storage.journal import JournaledDecisions
from index.storage.layout import LOG_KEY, Change, Filing, Table
from index.storage.log import Origin

NO_ORIGINS: Mapping[int, Origin] = MappingProxyType({})


class Batch:
    """Rows of a batch, with the index's numbers for their sources.

    entries     row i belongs to source source_numbers[i]
    streams     uint32 [sources], stream numbers
    partitions  uint32 [sources]
    sources     LOG_SOURCE [sources], streams and partitions together
    journaled   journaled decisions from earlier batches, row by row
    """

    def __init__(self, session: WriteSession, entries: Entries) -> None:
        """Registers unknown streams. Without journaling no position is known."""
        self.entries = entries
        self.streams = np.array(
            [sources.number_of(session.transaction, each.stream) for each in entries.sources], np.uint32
        )
        self.partitions = np.array([source.partition for source in entries.sources], np.uint32)
        self.sources = log.sources_of(self.streams, self.partitions)
        self.journaled = self._journaled(session)

    def _journaled(self, session: WriteSession) -> JournaledDecisions:
        entries, count = self.entries, len(self.entries)
        found = JournaledDecisions(np.zeros(count, journal.DECISION), np.zeros(count, np.bool_), {})
        if not session.journaling:
            return found
        order = np.argsort(entries.source_numbers, kind="stable")
        edges = np.searchsorted(entries.source_numbers[order], np.arange(1, len(entries.sources)))
        for stream, partition, rows in zip(self.streams, self.partitions, np.split(order, edges), strict=False):
            if len(rows):
                of_source = journal.find(
                    session.transaction, int(stream), int(partition), entries.offsets[rows], session.words
                )
                found.rows[rows] = of_source.rows
                found.known[rows] = of_source.known
                found.origins.update((int(rows[row]), origin) for row, origin in of_source.origins.items())
        return found

    def enter(
        self,
        session: WriteSession,
        rows: Entries,
        outcome: Outcome,
        equal: npt.NDArray[np.bool_],
        stale: Matches,
        *,
        origins: Sequence[Origin] | None = None,
        replaced: Mapping[int, Origin] = NO_ORIGINS,
        leaving: npt.NDArray[np.bool_] | None = None,
        hashes: npt.NDArray[np.uint64] | None = None,
    ) -> dict[int, Origin]:
        """Log decided rows, file those that enter, journal their positions, and count them.

        rows      rows unknown to the journal; their numbers follow the last ones
        equal     bool [n], NEAR rows whose fingerprint equals that of an entry that is not retired
        stale     retired entries, still in the tables, whose fingerprint equals that of a NEAR row
        origins   originals of the rows that name one, in order; None: the log or this batch has them
        replaced  older versions by UPDATE row, if `outcome` lacks them; the log need not hold them
        leaving   bool [n], rows about to be forgotten, which skip the blocks; None: no such row
        hashes    uint64 [n, bands], the rows' `Shape.band_hashes`, if known

        Returns the original of every row that names one, by row.
        """
        duplicates = np.flatnonzero(naming_originals(outcome.verdicts)).tolist()
        if origins is None:
            looked_up = [row for row in duplicates if row not in replaced]
            found = dict(zip(looked_up, self._origins(session, rows, outcome, looked_up), strict=True))
            origins = [found[row] if row in found else replaced[row] for row in duplicates]
        staying = outcome.entering if leaving is None else outcome.entering & ~leaving
        filings = _filings(rows, staying, equal)
        if leaving is not None:
            filings[outcome.entering & leaving] = Filing.ASIDE
        if len(stale):
            _retire_stale(session, stale, filings)
        if len(rows):
            self._write(session, rows, outcome, filings, origins, hashes)
        return dict(zip(duplicates, origins, strict=True))

    def _origins(self, session: WriteSession, rows: Entries, outcome: Outcome, duplicates: list[int]) -> list[Origin]:
        """Originals of these rows; an original that enters with this batch has one of the next numbers."""
        first_number = session.counters.next_number
        numbers = (outcome.originals if outcome.named is None else outcome.named)[duplicates]
        stored = documents.origins(session.transaction, numbers[numbers < np.uint64(first_number)], session.words)
        row_of = np.flatnonzero(outcome.entering)
        found = []
        for number in numbers.tolist():
            # next_number 10, rows 0 and 2 enter: number 11 is row 2.
            if number < first_number:
                found.append(stored[number])
                continue
            found.append(self.origin_of(rows, int(row_of[number - first_number])))
        return found

    def origin_of(self, rows: Entries, where: int | tuple[str, int, int, int]) -> Origin:
        """Origin of a row; returns an origin unchanged."""
        if not isinstance(where, int):
            return Origin(*where)
        source = int(rows.source_numbers[where])
        columns = int(self.streams[source]), int(self.partitions[source]), int(rows.offsets[where])
        return Origin(rows.ids[where], *columns)

    def _write(
        self,
        session: WriteSession,
        rows: Entries,
        outcome: Outcome,
        filings: npt.NDArray[np.uint8],
        origins: Sequence[Origin],
        hashes: npt.NDArray[np.uint64] | None,
    ) -> None:
        """Log, file, journal and count these rows; filings: uint8 [n], values of `layout.Filing`."""
        transaction, counters = session.transaction, session.counters
        key = LOG_KEY.pack(counters.next_number, counters.journal_rows)
        columns: dict[str, npt.NDArray[np.generic]] = {
            "number": outcome.originals,
            "distance": outcome.distances,
            "verdict": outcome.verdicts,
            "filing": filings,
        }
        if outcome.returns is not None:
            columns["returns"] = outcome.returns
        log.write(transaction, key, rows, self.sources, columns, origins)
        # A NEAR entry equal to one in the blocks is filed aside, and so is every EXACT entry.
        session.ids.add(transaction, key)
        for kind, table in ((Kind.NEAR, Table.REPEATS), (Kind.EXACT, Table.EXACT)):
            aside = (filings == Filing.ASIDE) & (rows.kinds == kind)
            documents.file_aside(transaction, table, rows.fingerprints[aside], outcome.numbers[aside])
        filed = filings == Filing.BLOCKS
        session.tree.add(rows.fingerprints[filed], outcome.numbers[filed], None if hashes is None else hashes[filed])
        given_back = np.flatnonzero((outcome.verdicts == Verdict.GIVEN_BACK) & outcome.entering)
        if len(given_back):
            ids = [rows.ids[row] for row in given_back.tolist()]
            documents.note_given_back(transaction, ids, outcome.numbers[given_back])
        updates = np.flatnonzero((outcome.verdicts == Verdict.UPDATE) & outcome.entering)
        if len(updates):
            ids, replaced = [rows.ids[row] for row in updates.tolist()], outcome.replaced
            of_updates = None if replaced is None else replaced[updates]
            documents.note_versions(transaction, ids, outcome.numbers[updates], of_updates)
        if session.journaling:
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


def _filings(rows: Entries, entering: npt.NDArray[np.bool_], equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Filing of each row, uint8 [n]: a row equal to an entry stays out of the blocks."""
    filings = np.where(entering, Filing.ASIDE, Filing.NOTHING).astype(np.uint8)
    near = np.flatnonzero(entering & (rows.kinds == Kind.NEAR) & ~equal)
    # Among equal rows in this batch only the first enters the blocks.
    filings[near[first_of_equals(rows.fingerprints[near]) == np.arange(len(near))]] = Filing.BLOCKS
    return filings


def _retire_stale(session: WriteSession, stale: Matches, filings: npt.NDArray[np.uint8]) -> None:
    """Remove retired entries whose equals are about to enter the blocks.

    The blocks hold at most one entry per fingerprint, because entries leave them by fingerprint.
    """
    stale = stale.take(filings[stale.rows] == Filing.BLOCKS)
    stale = stale.take(~session.visibility.are_retired(stale.numbers))
    if not len(stale):
        return
    numbers = np.unique(stale.numbers)
    # Entries missing from the log left the tables with their batch. An equal one may have another frame.
    fingerprints, there = log.fingerprints(session.transaction, numbers, session.words)
    kinds, blocks = np.full(int(there.sum()), Kind.NEAR, np.uint8), np.full(int(there.sum()), Filing.BLOCKS, np.uint8)
    retire(session, Leaving(numbers[there], fingerprints[there], kinds, blocks), Change.FORGOTTEN)
