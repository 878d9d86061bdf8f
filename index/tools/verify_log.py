"""Checks of the log and the journal: every batch is sound, batches follow each other, and the journal agrees."""

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from index import sets
from index.entry import NO_NUMBER, Kind, Verdict, naming_originals, standing_for_themselves
from index.session import ReadSession
from index.storage import log, scan
from index.storage.codec import unpack_lengths
from index.storage.layout import JOURNAL_KEY, LOG_KEY, SOURCE_KEY, Filing, JournalRun, Table, unpack_journal_run
from index.storage.store import Transaction
from index.tools.finding import Finding
from index.tools.verify_tables import Documents

_VERDICT_MAX, _FILING_MAX = max(Verdict), max(Filing)


class Batches:
    """Log batches without the broken ones; can be iterated more than once.

    >>> finding = Finding("log")
    >>> opened.read(lambda session: list(Batches(session, finding))), finding.wrong
    ([], 0)
    """

    def __init__(self, session: ReadSession, finding: Finding) -> None:
        """finding: notes the broken batches, in the first iteration."""
        self._transaction = session.transaction
        self._words = session.words
        self._finding = finding
        self.broken: set[bytes] | None = None
        """Broken batches' keys; None before the first iteration."""

    def __iter__(self) -> Iterator[log.Batch]:
        if self.broken is not None:
            keys = (key for key, _ in self._transaction.walk(Table.LOG) if key not in self.broken)
            yield from (log.read(self._transaction, key, self._words) for key in keys)
            return
        broken = set()
        for key, _ in self._transaction.walk(Table.LOG):
            problem = "its key is none"
            if len(key) == LOG_KEY.size:
                try:
                    batch = log.read(self._transaction, key, self._words)
                    problem = _misfit(batch)
                except (ValueError, IndexError, struct.error) as error:
                    problem = str(error)
            if not problem:
                yield batch
            else:
                broken.add(key)
                self._finding.note([f"the batch {key.hex()} cannot be read: {problem}"])
        self.broken = broken


def _misfit(batch: log.Batch) -> str:
    """A contradiction inside a batch, in words, or ""."""
    rows, lines = batch.rows, batch.lines
    ends, original_ends = rows["id_end"], lines.originals["id_end"]
    if np.count_nonzero(rows["filing"]) != len(lines.fingerprints):
        return "it has not one fingerprint for each row that entered"
    if np.count_nonzero(naming_originals(rows["verdict"])) != len(lines.originals):
        return "it has not one original for each duplicate"
    if len(rows) and int(rows["source"].max()) >= len(lines.sources):
        return "a row names a source that it does not list"
    if (ends[1:] < ends[:-1]).any() or (original_ends[1:] < original_ends[:-1]).any():
        return "its ids overlap"
    id_bytes, original_bytes = (int(each[-1]) if len(each) else 0 for each in (ends, original_ends))
    if (len(lines.ids), len(lines.original_ids)) != (id_bytes, original_bytes):
        return "its ids are cut off, or more stands behind them"
    return ""


class LogCheck:
    """Checks batches in order; keeps one byte per document.

    >>> finding = Finding("log")
    >>> opened.read(lambda session: LogCheck(session, Documents([]), finding).ended(next_number=7, journal_rows=7))
    >>> finding.examples
    ['a batch is missing before number 7, row 7: there is a gap from (0, 0) on']
    """

    def __init__(self, session: ReadSession, documents: Documents, finding: Finding) -> None:
        self._session, self._transaction = session, session.transaction
        self._parameters = session.parameters
        self._documents, self._finding = documents, finding
        self._visibility = session.visibility
        self._expired_below = self._visibility.expired_below
        self._is_root = np.zeros(documents.count, np.bool_)
        self._streams = scan.numbered_streams(session.transaction)
        self._end = (0, 0)
        self.near_entries = 0
        """NEAR documents that are not in `retired`."""

    def checked(self, batches: Iterable[log.Batch]) -> Iterator[log.Batch]:
        """The same batches, each checked before it is yielded."""
        for batch in batches:
            self._finding.examined += len(batch.rows)
            self._follows((batch.first_number, LOG_KEY.unpack(batch.key)[1]))
            self._end = (batch.end_number, LOG_KEY.unpack(batch.key)[1] + len(batch.rows))
            self._rows(batch)
            self._roots(batch)
            self._journaled(batch)
            near = batch.rows["kind"][batch.entered()] == Kind.NEAR
            self.near_entries += int(np.count_nonzero(near & ~self._visibility.are_retired(batch.numbers())))
            yield batch

    def ended(self, next_number: int, journal_rows: int) -> None:
        """Check the log's end against the counters, and that every forgotten document exists."""
        self._follows((next_number, journal_rows))
        gone = scan.forgotten(self._transaction)
        gone = gone[~self._documents.places(gone)[1]]
        self._finding.note(f"the forgotten document {number} does not exist" for number in gone.tolist())

    def _follows(self, begin: tuple[int, int]) -> None:
        """Check that a batch begins at the end of the last one, or that all batches between have expired."""
        if begin == self._end:
            return
        if begin[0] < self._end[0] or begin[1] < self._end[1]:
            self._finding.note([f"number {begin[0]}, row {begin[1]} overlap what comes before, up to {self._end}"])
        elif begin[0] > self._expired_below:
            self._finding.note(
                [f"a batch is missing before number {begin[0]}, row {begin[1]}: there is a gap from {self._end} on"]
            )

    def _rows(self, batch: log.Batch) -> None:
        rows = batch.rows
        own = np.full(len(rows), NO_NUMBER, np.uint64)
        own[batch.entered()] = batch.numbers()
        entered = rows["filing"] != Filing.NOTHING
        given_back = rows["verdict"] == Verdict.GIVEN_BACK
        # A document whose text can no longer be compared was given back without an entry.
        standing = standing_for_themselves(rows["verdict"]) & (entered | ~given_back)
        decided = standing | naming_originals(rows["verdict"])
        duplicate = rows["verdict"] == Verdict.DUPLICATE
        enters = decided & ~duplicate
        # With insert = "root" the log lacks a duplicate's match, which decided whether it entered.
        decides = ~duplicate | (self._parameters.insert != "root")
        entry = rows["kind"] <= Kind.EXACT
        wrongs = {
            "has a verdict, or a filing, that is none": ~np.isin(rows["verdict"], list(Verdict))
            | (rows["filing"] > max(Filing)),
            "should have entered, or should not": decides & (entered != enters),
            "entered and is of no kind that does": entered & ~entry,
            "is filed by blocks and is not NEAR": (rows["filing"] == Filing.BLOCKS) & (rows["kind"] != Kind.NEAR),
            "does not name itself": standing & (rows["number"] != own),
            "has a ratio to its original and no length": _ratios(batch) & (unpack_lengths(rows["length"]) == 0),
            "names a document without being a duplicate": ~decided & (rows["number"] != NO_NUMBER),
        }
        for problem, wrong in wrongs.items():
            if wrong.any():
                self._note(batch, np.flatnonzero(wrong), problem)
        if len(batch.fingerprints) and batch.lines.looks.shape[1] != self._parameters.look_bytes:
            self._finding.note([f"the looks of the batch {batch.key.hex()} are not as long as those of the index"])
        for number, (stream, partition) in enumerate(batch.sources.tolist()):
            offsets = rows["offset"][rows["source"] == number]
            if stream not in self._streams:
                self._finding.note([f"the batch {batch.key.hex()} names stream {stream}, which does not exist"])
            if (offsets[1:] <= offsets[:-1]).any():
                self._finding.note([f"offsets of stream {stream}, partition {partition} are out of order"])

    def _note(self, batch: log.Batch, rows: npt.NDArray[np.int64], problem: str) -> None:
        self._finding.note(f"{_where(batch, row)} {problem}" for row in rows.tolist())

    def _roots(self, batch: log.Batch) -> None:
        """Check the document that each duplicate names: its own original, one with a retired original, or not in the log."""
        rows, entered = batch.rows, batch.entered()
        own_places, _ = self._documents.places(batch.numbers())
        self._is_root[own_places] = rows["number"][entered] == batch.numbers()
        duplicates = np.flatnonzero(
            naming_originals(rows["verdict"])
            & ~standing_for_themselves(rows["verdict"])
            & (rows["number"] != NO_NUMBER)
        )
        named = rows["number"][duplicates]
        places, there = self._documents.places(named)
        known = np.where(there, named < np.uint64(batch.end_number), named < np.uint64(self._expired_below))
        is_root = np.zeros(len(named), np.bool_)
        is_root[there] = self._is_root[places[there]]
        non_roots = np.flatnonzero(there & known & ~is_root)
        if len(non_roots):
            stored = log.documents(self._transaction, named[non_roots], self._parameters.stored_words)
            is_root[non_roots] = ~self._visibility.visible(stored.rows["number"].astype(np.uint64))
        right = known & (is_root | ~there) | sets.are_named(self._session, named)
        for row, number in zip(duplicates[~right].tolist(), named[~right].tolist(), strict=True):
            self._finding.note([f"{_where(batch, row)} names document {number}, which is no original"])

    def _journaled(self, batch: log.Batch) -> None:
        """Check that a journal run of its source holds every row and names this batch."""
        for number, (stream, partition) in enumerate(batch.sources.tolist()):
            rows = np.flatnonzero(batch.rows["source"] == number)
            offsets = batch.rows["offset"][rows]
            if not len(rows):
                continue
            journaled = np.zeros(len(rows), np.bool_)
            for first, run in _runs(self._transaction, stream, partition, int(offsets[0]), int(offsets[-1])):
                if run.batch == batch.key and run.source == number:
                    journaled |= (offsets >= first) & (offsets <= run.last)
            self._note(batch, rows[~journaled], "is not in the journal")


def _ratios(batch: log.Batch) -> npt.NDArray[np.bool_]:
    """Whether each row has a ratio, bool [n]."""
    having = naming_originals(batch.rows["verdict"])
    having[having] = batch.ratios(np.flatnonzero(having)) > 0
    return having


def _where(batch: log.Batch, row: int) -> str:
    source = batch.sources[batch.rows["source"][row]]
    return f"stream {source['stream']}, partition {source['partition']}, offset {batch.rows['offset'][row]}"


def _runs(
    transaction: Transaction, stream: int, partition: int, first: int, last: int
) -> Iterator[tuple[int, JournalRun]]:
    """A source's journal runs that may hold offsets from `first` to `last`, each with its own first offset."""
    begin = JOURNAL_KEY.pack(stream, partition, first)
    below = transaction.floor(Table.JOURNAL, begin)
    source = SOURCE_KEY.pack(stream, partition)
    if below is not None and below[0].startswith(source):
        begin = below[0]
    for key, value in transaction.walk(Table.JOURNAL, begin):
        if not key.startswith(source) or key > JOURNAL_KEY.pack(stream, partition, last):
            return
        yield JOURNAL_KEY.unpack(key)[2], unpack_journal_run(bytes(value))


def journal(session: ReadSession, batches: Batches) -> Finding:
    """Check that a source's runs ascend without overlap; each begins and ends with a row in the batch it names."""
    transaction, words = session.transaction, session.words
    finding = Finding("journal")
    last: dict[tuple[int, int], int] = {}
    for stream, partition, first, run in scan.runs(transaction):
        finding.examined += 1
        where = f"the run of stream {stream}, partition {partition} at offset {first}"
        if first <= last.get((stream, partition), -1) or run.last < first:
            finding.note([f"{where} overlaps the one before it, or itself"])
        last[stream, partition] = run.last
        if transaction.view(Table.LOG, run.batch) is None:
            finding.note([f"{where} names the batch {run.batch.hex()}, which does not exist"])
            continue
        if run.batch in (batches.broken or ()):
            continue
        batch = log.read(transaction, run.batch, words)
        if run.source >= len(batch.sources) or tuple(batch.sources[run.source].tolist()) != (stream, partition):
            finding.note([f"{where} names a source that its batch does not have"])
            continue
        offsets = batch.rows["offset"][batch.rows["source"] == run.source]
        if not np.isin([first, run.last], offsets).all():
            finding.note([f"{where} begins or ends where its batch has no row"])
    return finding
