"""Everything an index knows as a sequence of records, and an index from such a sequence.

Records come in the order in which they were decided, as far as the index tells it: documents ascending by number, and
before each of them what was decided of its source before it. So the first part of a sequence is an older index: a
taking-over that is broken off leaves nothing that does not fit together.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import batch, contents, documents, forgetting, sources
from index.admission import Index
from index.documents import Document
from index.entry import NO_DISTANCE, NO_NUMBER, Applied, Entries, Kind, Source, Verdict
from index.layout import COUNTERS_KEY, JOURNAL_ROW, Table, pack_counters
from index.parameters import Parameters
from index.store import Transaction


class Record(NamedTuple):
    """What is known of one position.

    original   number of the original, a unique document's own; None where the verdict has none
    distance   None where there is none
    document   what entered; None for a position that is in the journal alone
    forgotten  the document is no longer searched
    settled    every position of the source below this one came before it
    """

    source: Source
    offset: int
    verdict: Verdict
    reason: int
    distance: int | None
    original: int | None
    document: Document | None
    forgotten: bool
    settled: bool


class Taken(NamedTuple):
    """What became of records handed to `Taking.add`; both add up to all of them."""

    entered: int
    already_known: int


class _Journal:
    """The journal of one source, read forwards by the offsets at which documents stand."""

    def __init__(self, transaction: Transaction, key: tuple[int, int], entered: frozenset[int]) -> None:
        self._values = contents.journal_of(transaction, *key)
        self._rows: Iterator[tuple[int, int, int, int, int]] = iter(())
        self._next: tuple[int, int, int, int, int] | None = None
        self._entered = entered
        self.passed: dict[int, tuple[int, int, int, int, int]] = {}
        """Rows of documents that have not had their turn, by offset."""
        self._advance()

    def _advance(self) -> None:
        while (row := next(self._rows, None)) is None:
            value = next(self._values, None)
            if value is None:
                break
            self._rows = iter(value.tolist())
        self._next = row

    def below(self, offset: int) -> Iterator[tuple[int, int, int, int, int]]:
        """The rows below `offset` that no document belongs to: offset, number, distance, verdict, reason."""
        while self._next is not None and self._next[0] < offset:
            if self._next[3] in self._entered:
                self.passed[self._next[0]] = self._next
            else:
                yield self._next
            self._advance()

    def at(self, offset: int) -> tuple[int, int, int, int, int]:
        """The row of the document at `offset`; all rows below were read."""
        if offset in self.passed:
            return self.passed.pop(offset)
        if self._next is None or self._next[0] != offset:
            raise KeyError(offset)
        row = self._next
        self._advance()
        return row


def records(transaction: Transaction, parameters: Parameters) -> Iterator[Record]:
    """Everything the index knows of any position. Raises KeyError for an index that does not verify."""
    streams = contents.numbered_streams(transaction)
    numbers = {stream: number for number, (stream, _) in streams.items()}
    entered = frozenset({Verdict.UNIQUE, Verdict.DUPLICATE} if parameters.insert == "all" else {Verdict.UNIQUE})
    journals = {key: _Journal(transaction, key, entered) for key in contents.journaled_sources(transaction)}
    gone = set(contents.forgotten(transaction).tolist())
    early: dict[int, list[Record]] = {}
    last_number = -1
    for stored in contents.stored(transaction, parameters.words):
        for document in contents.as_documents(transaction, parameters.words, stored.numbers):
            source, offset = document.position
            journal = journals[numbers[source.stream], source.partition]
            for row in journal.below(offset):
                record = _record(source, row, None, forgotten=False, settled=not (journal.passed or early))
                if record.original is not None and record.original > last_number:
                    # Its original has not had its turn. Only a restored index holds such a row.
                    early.setdefault(record.original, []).append(record._replace(settled=False))
                else:
                    yield record
            row = journal.at(offset)
            last_number = document.number
            settled = not (journal.passed or early)
            yield _record(source, row, document, forgotten=document.number in gone, settled=settled)
            yield from early.pop(document.number, ())
    for (stream, partition), journal in journals.items():
        source = Source(streams[stream][0], partition)
        for row in journal.below(2**64):
            yield _record(source, row, None, forgotten=False, settled=True)


def _record(
    source: Source,
    row: tuple[int, int, int, int, int],
    document: Document | None,
    *,
    forgotten: bool,
    settled: bool,
) -> Record:
    offset, number, distance, verdict, reason = row
    return Record(
        source,
        offset,
        Verdict(verdict),
        reason,
        None if distance == NO_DISTANCE else distance,
        None if number == NO_NUMBER else number,
        document,
        forgotten,
        settled,
    )


class Taking:
    """Takes records over into an index, which may hold some of them already, or others."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._numbers = array("Q")
        """By the number that a document has in the records: its original's number in this index."""

    def begin(self, streams: Sequence[tuple[str, str]]) -> None:
        """Make streams known, (stream, name), in this order."""

        def operation(transaction: Transaction) -> None:
            for stream, name in streams:
                sources.number_of(transaction, stream)
                if name:
                    sources.set_name(transaction, stream, name)

        self._index.change(operation)

    def add(self, taken: Sequence[Record]) -> Taken:
        """Enter records in one write transaction; a position that is known is left alone.

        Entries come in as they are: nothing is compared. Offsets must ascend within a source, as `portions` sees to.
        Raises IndexFull, IndexDamaged; ValueError where a document or an original is missing before a record.
        """
        entries = _entries_of(taken, self._index.parameters.words)
        batch.require_sound(entries, self._index.parameters.words)
        done, numbers = self._index.change(lambda transaction: self._added(transaction, taken, entries))
        self._numbers.extend(numbers)
        return done

    def _added(self, transaction: Transaction, taken: Sequence[Record], entries: Entries) -> tuple[Taken, list[int]]:
        places = batch.places_of(transaction, entries)
        past = batch.journaled(transaction, entries, places)
        counters = contents.counters(transaction)
        new = ~past.known
        entering = new & np.array([record.document is not None for record in taken], np.bool_)
        numbers = np.full(len(taken), NO_NUMBER, np.uint64)
        last = counters.next_number + int(np.count_nonzero(entering))
        numbers[entering] = np.arange(counters.next_number, last, dtype=np.uint64)
        roots, learnt = self._roots(taken, numbers, past.known, past.rows["number"])
        parameters = self._index.parameters
        batch.write_entering(transaction, entries, places, entering, numbers, roots, parameters)
        rows = np.zeros(len(taken), JOURNAL_ROW)
        rows["offset"], rows["number"] = entries.offsets, roots
        rows["verdict"] = [record.verdict for record in taken]
        rows["distance"] = [NO_DISTANCE if record.distance is None else record.distance for record in taken]
        rows["reason"] = entries.reasons
        batch.write_journal(transaction, places, rows, new)
        gone = entering & np.array([record.forgotten for record in taken], np.bool_)
        found = documents.read(transaction, numbers[gone], parameters.words)
        forgetting.remove(transaction, list(found.values()), parameters)
        fresh = counters._replace(next_number=last, journal_rows=counters.journal_rows + int(np.count_nonzero(new)))
        transaction.put(Table.META, COUNTERS_KEY, pack_counters(fresh))
        ends = {record.source: record.offset + 1 for record in taken if record.settled}
        sources.advance(transaction, ends, {})
        return Taken(int(np.count_nonzero(new)), int(np.count_nonzero(past.known))), learnt

    def _roots(
        self,
        taken: Sequence[Record],
        numbers: npt.NDArray[np.uint64],
        known: npt.NDArray[np.bool_],
        known_numbers: npt.NDArray[np.uint64],
    ) -> tuple[npt.NDArray[np.uint64], list[int]]:
        """The original of each record, in this index's numbers, uint64 [n]; and what is to be put to `_numbers`."""
        roots = np.full(len(taken), NO_NUMBER, np.uint64)
        learnt: list[int] = []
        begin = len(self._numbers)
        for row, record in enumerate(taken):
            own = record.document is not None and record.document.root == record.document.number
            if known[row]:
                roots[row] = known_numbers[row]
            elif own:
                roots[row] = numbers[row]
            elif record.original is not None:
                if record.original >= begin + len(learnt):
                    raise ValueError(f"offset {record.offset}: original {record.original} does not stand before it")
                at = record.original
                roots[row] = self._numbers[at] if at < begin else learnt[at - begin]
            if record.document is not None:
                if record.document.number != begin + len(learnt):
                    raise ValueError(f"offset {record.offset}: document {begin + len(learnt)} is missing before it")
                learnt.append(int(roots[row]))
        return roots, learnt

    def finish(self, applied: Mapping[Source, Applied]) -> None:
        """All records were added: move applied offsets to where they were, with their marks."""
        ends = {source: at.offset for source, at in applied.items()}
        marks = {source: at.mark for source, at in applied.items()}
        self._index.change(lambda transaction: sources.advance(transaction, ends, marks))


def portions(found: Iterator[Record], rows_max: int) -> Iterator[list[Record]]:
    """Cut into lists of at most `rows_max` records, in each of which the offsets of a source increase."""
    portion: list[Record] = []
    last: dict[Source, int] = {}
    for record in found:
        if len(portion) == rows_max or record.offset <= last.get(record.source, -1):
            yield portion
            portion, last = [], {}
        portion.append(record)
        last[record.source] = record.offset
    if portion:
        yield portion


def _entries_of(taken: Sequence[Record], words: int) -> Entries:
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in taken]
    found = [record.document for record in taken]
    nothing = (0,) * words
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, np.uint32),
        offsets=np.array([record.offset for record in taken], np.uint64),
        kinds=np.array([Kind.UNDECIDABLE if each is None else each.kind for each in found], np.uint8),
        reasons=np.array([record.reason for record in taken], np.uint8),
        fingerprints=np.array([nothing if each is None else each.fingerprint for each in found], np.uint64).reshape(
            -1, words
        ),
        times_ms=np.array([0 if each is None else each.time_ms for each in found], np.int64),
        ids=["" if each is None else each.id for each in found],
    )
