"""Entering records of another index, or of this one as it was: see `transfer`."""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import batch, forgetting, log, restoration, sources
from index.admission import Index
from index.decision import Insert, Outcome
from index.entry import NO_DISTANCE, NO_NUMBER, Applied, Entries, Kind, Position, Source, Verdict
from index.layout import JOURNAL_KEY, Table, unpack_run
from index.living import Living
from index.loading import Loading
from index.store import Transaction
from index.transfer import Record

_OWN_NUMBER = NO_NUMBER - np.uint64(1)
"""Among the numbers that documents have here: an entry, but its own number was not looked up."""


class Taken(NamedTuple):
    """What became of records handed to `Taking.add`; both add up to all of them."""

    entered: int
    already_known: int


class Taking:
    """Takes records over into an index, which may hold some of them already, or others."""

    def __init__(self, index: Index | Loading) -> None:
        """A `Loading` where there are many; it is to be finished behind the last record."""
        self._index = index
        self._there, self._here = array("Q"), array("Q")
        """The numbers that documents have in the records, ascending, and in this index; NO_NUMBER: not an entry here."""

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

        Entries come in as they are: nothing is compared but whether they are equal. Offsets must ascend within a source,
        as `portions` sees to. Raises IndexFull, IndexDamaged; ValueError where an original is missing before a record, or
        a record misses a part.
        """
        _require_whole(taken, self._index.parameters.insert)
        parameters = self._index.parameters
        entries = _entries_of(taken, parameters.words, parameters.look_bytes)
        batch.require_sound(entries, parameters.words, parameters.look_bytes)
        done, here = self._index.change(lambda transaction: self._added(transaction, taken, entries))
        self._learn(taken, here)
        return done

    def _added(
        self, transaction: Transaction, taken: Sequence[Record], entries: Entries
    ) -> tuple[Taken, npt.NDArray[np.uint64]]:
        parameters, search = self._index.parameters, self._index.search
        places = batch.places_of(transaction, entries)
        past = batch.journaled(transaction, entries, places)
        streams = {
            record.origin.position.source.stream: 0
            for record, known in zip(taken, past.known.tolist(), strict=True)
            if record.origin is not None and not known
        }
        streams = {stream: sources.number_of(transaction, stream) for stream in streams}
        counters = batch.counters_of(transaction)
        entering = ~past.known & np.array([record.document is not None for record in taken], np.bool_)
        here = np.full(len(taken), NO_NUMBER, np.uint64)
        here[entering] = np.arange(counters.next_number, counters.next_number + np.count_nonzero(entering))
        here[past.known] = self._known(past.rows[past.known])
        verdicts = np.array([record.verdict for record in taken], np.uint8)
        named = self._originals(transaction, taken, here, past.known)
        own = (verdicts == Verdict.UNIQUE) | ((named == NO_NUMBER) & entering)
        distances = np.array([NO_DISTANCE if each.distance is None else each.distance for each in taken], np.int16)
        new = np.flatnonzero(~past.known)
        outcome = Outcome(verdicts[new], distances[new], entering[new], here[new], np.where(own, here, named)[new])
        leaving = entering & np.array([record.forgotten for record in taken], np.bool_)
        counters = restoration.enter(
            transaction,
            search,
            batch.take(entries, new),
            places,
            outcome,
            parameters,
            counters,
            origins=[
                log.Origin(origin.id, streams[at.source.stream], at.source.partition, at.offset)
                for row in new.tolist()
                if (origin := taken[row].origin) is not None and (at := origin.position)
            ],
            leaving=leaving[new],
        )
        living = Living(transaction, parameters.words)
        counters = forgetting.remove(transaction, search, living, here[leaving], parameters.words, counters)
        batch.put_counters(transaction, counters)
        self._index.note_times(transaction, entries, ~past.known)
        ends = {record.source: record.offset + 1 for record in taken if record.settled}
        sources.advance(transaction, ends, {})
        return Taken(len(new), len(taken) - len(new)), here

    def _known(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
        """What records name that name the documents of known positions, DECISION [n]."""
        if self._index.parameters.insert == "unique":
            return rows["number"]
        return np.where(rows["verdict"] == Verdict.DUPLICATE, _OWN_NUMBER, rows["number"])

    def _originals(
        self,
        transaction: Transaction,
        taken: Sequence[Record],
        here: npt.NDArray[np.uint64],
        known: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.uint64]:
        """The original in this index of each record that is new and names another document: uint64 [n], else NO_NUMBER."""
        naming = np.array([each.verdict == Verdict.DUPLICATE and each.original is not None for each in taken], np.bool_)
        rows = np.flatnonzero(naming & ~known)
        asked = np.array([taken[row].original for row in rows.tolist()], np.uint64)
        found = np.full(len(taken), NO_NUMBER, np.uint64)
        found[rows], there = _mapped(np.frombuffer(self._there, np.uint64), np.frombuffer(self._here, np.uint64), asked)
        documents = np.array([row for row, each in enumerate(taken) if each.document is not None], np.int64)
        numbers = np.array([each.document.number for each in taken if each.document is not None], np.uint64)
        order = np.argsort(numbers)
        of_portion, in_portion = _mapped(numbers[order], documents[order].astype(np.uint64), asked)
        in_portion &= of_portion.astype(np.int64) < rows
        found[rows[in_portion]] = here[of_portion[in_portion].astype(np.int64)]
        for row, number in zip(rows[~there & ~in_portion].tolist(), asked[~there & ~in_portion].tolist(), strict=True):
            raise ValueError(f"offset {taken[row].offset}: original {number} does not stand before it")
        for row in np.flatnonzero(found == _OWN_NUMBER).tolist():
            origin = taken[row].origin
            assert origin is not None, "a duplicate says what its original was"
            found[row] = _number_at(transaction, origin.position, self._index.parameters.words)
        return found

    def _learn(self, taken: Sequence[Record], here: npt.NDArray[np.uint64]) -> None:
        """Remember the numbers of the documents of a portion that was entered."""
        learnt = sorted(
            (record.document.number, number)
            for record, number in zip(taken, here.tolist(), strict=True)
            if record.document is not None
        )
        ascending = not learnt or not self._there or learnt[0][0] > self._there[-1]
        self._there.extend(number for number, _ in learnt)
        self._here.extend(number for _, number in learnt)
        if not ascending:
            # A restoration's duplicate, which came behind its original.
            there, own = np.frombuffer(self._there, np.uint64), np.frombuffer(self._here, np.uint64)
            order = np.argsort(there, kind="stable")
            self._there, self._here = array("Q", there[order].tobytes()), array("Q", own[order].tobytes())

    def finish(self, applied: Mapping[Source, Applied]) -> None:
        """All records were added: move applied offsets to where they were, with their marks."""
        ends = {source: at.offset for source, at in applied.items()}
        marks = {source: at.mark for source, at in applied.items()}
        self._index.change(lambda transaction: sources.advance(transaction, ends, marks))


def _mapped(
    keys: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64], asked: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """The value beside each key that is asked for, and whether it is there; the keys ascend."""
    if not len(keys):
        return np.full(len(asked), NO_NUMBER), np.zeros(len(asked), np.bool_)
    places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    there = keys[places] == asked
    return np.where(there, values[places], NO_NUMBER), there


def _number_at(transaction: Transaction, position: Position, words: int) -> int:
    """The number of the document that entered at a position, which the journal knows."""
    stream = sources.number_of(transaction, position.source.stream)
    below = transaction.floor(Table.JOURNAL, JOURNAL_KEY.pack(stream, position.source.partition, position.offset))
    assert below is not None, "a position that is known stands in a run"
    run = unpack_run(bytes(below[1]))
    found = log.read(transaction, run.batch, words)
    own = (found.rows["source"] == run.source) & (found.rows["offset"] == np.uint64(position.offset))
    return found.first_number + int(np.count_nonzero(found.rows["filing"][: int(np.flatnonzero(own)[0])]))


def _require_whole(taken: Sequence[Record], insert: Insert) -> None:
    """Raise ValueError unless exactly those records have a document, and an origin, whose verdicts say so."""
    entering = {Verdict.UNIQUE, Verdict.DUPLICATE} if insert == "all" else {Verdict.UNIQUE}
    for record in taken:
        for what, part, expected in (
            ("document", record.document, record.verdict in entering),
            ("origin", record.origin, record.verdict is Verdict.DUPLICATE),
        ):
            if (part is not None) != expected:
                having = "without its" if expected else "with a"
                raise ValueError(f"offset {record.offset}: the verdict is {record.verdict.label}, {having} {what}")


_KINDS = {Verdict.DUPLICATE: Kind.NEAR, Verdict.UNDECIDABLE: Kind.UNDECIDABLE, Verdict.DEAD_LETTER: Kind.DEAD_LETTER}
"""Of what entered nothing; nobody asks whether such a duplicate was an exact one."""


def _entries_of(taken: Sequence[Record], words: int, look_bytes: int) -> Entries:
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in taken]
    found = [record.document for record in taken]
    nothing = (0,) * words
    kinds = [_KINDS[record.verdict] if record.document is None else record.document.kind for record in taken]
    fingerprints = np.array([nothing if each is None else each.fingerprint for each in found], np.uint64)
    looks = np.zeros((len(taken), look_bytes), np.uint8)
    for row, document in enumerate(found):
        if document is not None:
            if len(document.look) != look_bytes:
                raise ValueError(f"offset {taken[row].offset}: a look has {look_bytes} bytes, not {len(document.look)}")
            looks[row] = np.frombuffer(document.look, np.uint8)
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, np.uint32),
        offsets=np.array([record.offset for record in taken], np.uint64),
        kinds=np.array(kinds, np.uint8),
        reasons=np.array([record.reason for record in taken], np.uint8),
        fingerprints=fingerprints.reshape(-1, words),
        times_ms=np.array([0 if each is None else each.time_ms for each in found], np.int64),
        ids=["" if each is None else each.id for each in found],
        looks=looks,
    )
