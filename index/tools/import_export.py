"""Import and export: an index as a record sequence, and an index from such a sequence.

Records come in log order, the order of decisions. So any prefix is an older state of the index, and an interrupted
import leaves a consistent one. Batches that have left the log have no records, so numbers may begin above 0, and have
gaps.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import entry
from index.decide.batch import Batch
from index.decide.prepare import stored_form
from index.decide.restore import enter_again, next_numbers, numbers_at, origins_of
from index.entry import NO_DISTANCE, NO_NUMBER, Applied, Entries, Insert, Kind, Position, Source, Verdict
from index.frames.hosts import enter_samples, host_groups
from index.index import Index, internals_of
from index.matching.outcome import Outcome
from index.session import ReadSession, Result, WriteSession
from index.storage import documents, layout, log, scan, sources
from index.storage.codec import unpack_lengths
from index.storage.documents import Document, VersionDigests, in_batch
from index.storage.layout import HostGroups, HostSample, Table
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools.bulk_load import BulkLoader
from index.tools.frames import stored_samples
from index.tools.verify_tables import Documents

_NOTHING_LATER = 2**64 - 1


class Original(NamedTuple):
    """A duplicate's original, as of the duplicate's decision.

    >>> original = Original("a", Position(Source("topic", 3), 17))
    >>> f"{original.id}, offset {original.position.offset}"
    'a, offset 17'
    """

    id: str
    position: Position


class Record(NamedTuple):
    """All data on one position.

    original   the original's number; a unique document's own; None if the verdict has none, if the original's document has
               left the sequence, or if a duplicate is its own original for that reason
    origin     id and position of a duplicate's original
    document   the document that entered
    forgotten  whether the document is retired, forgotten or expired: it no longer matches
    settled    whether every lower position of the source came earlier in the sequence
    id         the record's id, even if no document entered; empty: unknown
    version    the record as a version of the document with this id
    length     its text's letters; 0: unknown
    ratio      as in `Decisions`
    number     the entry's, though its original may have left the sequence; None if the record became none

    >>> one = Record(Source("topic", 0), 17, Verdict.DEAD_LETTER, 0, None, None, None, None, False, True, "")
    >>> [len(portion) for portion in portions(iter([one, one._replace(offset=18), one._replace(offset=3)]), rows_max=10)]
    [2, 1]
    """

    source: Source
    offset: int
    verdict: Verdict
    reason: int
    distance: int | None
    original: int | None
    origin: Original | None
    document: Document | None
    forgotten: bool
    settled: bool
    id: str
    version: VersionDigests = VersionDigests()
    length: int = 0
    ratio: int = 0
    number: int | None = None


class RecordedAge(NamedTuple):
    """A source's record times, and how far its documents have expired by age.

    watermark_ms, latest_ms  as in `index.storage.layout.Times`
    expired                  the source's records among so many first ones in `Snapshot.records` have expired
    notes                    by time, ascending: what is expired once that time is

    >>> age = RecordedAge(watermark_ms=1_500, latest_ms=np.array([1_400, 1_500]), expired=2, notes=[(1_500, 7)])
    >>> [records for time_ms, records in age.notes if time_ms < 2_000]
    [7]
    """

    watermark_ms: int
    latest_ms: npt.NDArray[np.int64]
    expired: int
    notes: Sequence[tuple[int, int]]


def _least_later(transaction: Transaction, words: int) -> "dict[tuple[int, int], array[int]]":
    """By source, its least offset in all batches after each of its batches, the last batch first."""
    least: dict[tuple[int, int], array[int]] = {}
    for batch in log.walk(transaction, words):
        batch_least = np.full(len(batch.sources), _NOTHING_LATER, np.uint64)
        np.minimum.at(batch_least, batch.rows["source"], batch.rows["offset"])
        for source, offset in zip(batch.sources.tolist(), batch_least.tolist(), strict=True):
            least.setdefault(source, array("Q", ())).append(offset)
    # Batches with least offsets 5, 3, 8: the least later ones are 3, 8 and none.
    return {
        source: array("Q", [_NOTHING_LATER, *accumulate(reversed(offsets), min)][:-1])
        for source, offsets in least.items()
    }


class Snapshot:
    """An index's contents at one moment; valid inside the operation passed to `snapshot`.

    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     snapshot(index, lambda contents: (contents.count(), contents.applied()))
    (0, {})
    """

    def __init__(self, session: ReadSession) -> None:
        """Use `snapshot`."""
        self._session = session
        self.parameters = session.parameters

    def streams(self) -> dict[str, str]:
        """Names by stream, oldest first; "" if the stream was never begun."""
        return dict(sources.named_streams(self._session.transaction))

    def applied(self) -> dict[Source, Applied]:
        """Applied offsets by source."""
        return sources.applied(self._session.transaction)

    def count(self) -> int:
        """How many `records` there are."""
        return sum(len(batch.rows) for batch in log.walk(self._session.transaction, self._session.words))

    def records(self) -> Iterator[Record]:
        """A record for every position in the log, in log order."""
        return _records(self._session)

    def next_number(self) -> int:
        """The next entry's number."""
        return self._session.counters.next_number

    def ages(self) -> dict[Source, RecordedAge]:
        """Record times by source; without retention by age there are none."""
        return _ages(self._session)

    def given_back(self) -> frozenset[int]:
        """Numbers that given-back documents have, and updates that replaced them, whether they count or not."""
        return frozenset(documents.all_given_back(self._session.transaction)["number"].tolist())

    def documents(self, numbers: npt.NDArray[np.uint64]) -> dict[int, Document]:
        """Documents for numbers uint64 [n]; omits those that have left the log."""
        return documents.read(self._session.transaction, numbers, self._session.words)

    def samples(self) -> Iterator[tuple[int, HostSample]]:
        """Host samples, with their host keys."""
        return stored_samples(self._session)

    def host_groups(self) -> HostGroups:
        """All host groups."""
        return host_groups(self._session.transaction)


def snapshot(index: Index, operation: Callable[[Snapshot], Result]) -> Result:
    """Run `operation` on a snapshot of an index. Raises IndexDamagedError.

    Pages that writers free meanwhile are not reused: the file grows by about 1 KB for each document admitted.
    """
    return internals_of(index).read(lambda session: operation(Snapshot(session)))


def _records(session: ReadSession) -> Iterator[Record]:
    transaction, visibility, words = session.transaction, session.visibility, session.words
    streams = {number: stream for number, (stream, _) in scan.numbered_streams(transaction).items()}
    held, later = Documents(log.walk(transaction, words)), _least_later(transaction, words)
    for batch in log.walk(transaction, words):
        retired = ~visibility.visible(batch.numbers())
        entered = dict(
            zip(batch.entered().tolist(), in_batch(transaction, batch, np.arange(len(retired))), strict=True)
        )
        gone = dict(zip(entered, retired.tolist(), strict=True))
        duplicates = np.flatnonzero(entry.naming_originals(batch.rows["verdict"]))
        origins = dict(zip(duplicates.tolist(), batch.origins(duplicates), strict=True))
        own = np.full(len(batch.rows), NO_NUMBER, np.uint64)
        own[batch.entered()] = batch.numbers()
        ratios = dict(zip(duplicates.tolist(), batch.ratios(duplicates).tolist(), strict=True))
        lengths = unpack_lengths(batch.rows["length"]).tolist()
        named = batch.rows["number"]
        in_sequence = (
            held.places(named)[1]
            & (named < np.uint64(batch.end_number))
            & ((own != named) | entry.standing_for_themselves(batch.rows["verdict"]))
        )
        order = _order(batch)
        settled = _settled(batch, order, [later[source].pop() for source in batch.sources.tolist()])
        places = [Source(streams[stream], partition) for stream, partition in batch.sources.tolist()]
        in_sequence_list, columns, numbers = in_sequence.tolist(), batch.rows.tolist(), own.tolist()
        ids = batch.ids(np.arange(len(batch.rows)))
        for row, is_settled in zip(order.tolist(), settled.tolist(), strict=True):
            offset, number, _, source, _, distance, verdict, reason, _, _, *version, _ = columns[row]
            document, origin = entered.get(row), origins.get(row)
            original = number if in_sequence_list[row] else None
            if document is not None and original is None:
                # A dropped document counts only as long as its root.
                is_dropped = verdict == Verdict.DUPLICATE
                document = None if is_dropped else document._replace(root=document.number)
            yield Record(
                places[source],
                offset,
                Verdict(verdict),
                reason,
                None if distance == NO_DISTANCE else distance,
                original,
                None if origin is None else _original(origin, streams),
                document,
                document is not None and gone[row],
                is_settled,
                ids[row],
                VersionDigests(*version),
                lengths[row],
                ratios.get(row, 0),
                numbers[row] if row in entered else None,
            )


def _ages(session: ReadSession) -> dict[Source, RecordedAge]:
    transaction, horizons = session.transaction, session.visibility.horizon.sources
    walked = [(bytes(batch.key), len(batch.rows)) for batch in log.walk(transaction, session.words)]
    keys, before = [key for key, _ in walked], [0, *accumulate(rows for _, rows in walked)]
    streams = {number: stream for number, (stream, _) in scan.numbered_streams(transaction).items()}
    ages = {}
    for source_key, value in transaction.walk(Table.TIMES):
        stream, partition = layout.SOURCE_KEY.unpack(source_key)
        times = layout.unpack_times(bytes(value))
        reached = [
            log.key_of(number, rows) for *source, number, rows in horizons.tolist() if source == [stream, partition]
        ]
        notes = [(time_ms, before[bisect_left(keys, end)]) for time_ms, end in _age_notes(transaction, source_key)]
        expired = max((before[bisect_left(keys, each)] for each in reached), default=0)
        ages[Source(streams[stream], partition)] = RecordedAge(times.watermark_ms, times.latest_ms, expired, notes)
    return ages


def _age_notes(transaction: Transaction, source_key: bytes) -> Iterator[tuple[int, bytes]]:
    """A source's notes: time, and log key below which its documents have expired then."""
    notes = takewhile(lambda note: note[0].startswith(source_key), transaction.walk(Table.AGES, source_key))
    return ((layout.AGE_KEY.unpack(key)[2], bytes(end)) for key, end in notes)


def _original(origin: log.Origin, streams: Mapping[int, str]) -> Original:
    return Original(
        origin.id, Position(entry.plain_source(Source(streams[origin.stream], origin.partition)), origin.offset)
    )


def _order(batch: log.Batch) -> npt.NDArray[np.int64]:
    """A batch's rows; rows whose original is a later row, as restorations may leave them, come last."""
    rows = np.arange(len(batch.rows))
    named = batch.rows["number"]
    here = np.flatnonzero((named >= np.uint64(batch.first_number)) & (named < np.uint64(batch.end_number)))
    names_later = np.zeros(len(rows), np.bool_)
    named_places = (named[here] - np.uint64(batch.first_number)).astype(np.int64)
    names_later[here] = batch.entered()[named_places] > here
    return np.argsort(names_later, kind="stable")


def _settled(batch: log.Batch, order: npt.NDArray[np.int64], behind: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether no lower offset of a row's source comes later, for the rows in this order: bool [n]."""
    offsets, source_places = batch.rows["offset"][order], batch.rows["source"][order]
    settled = np.zeros(len(order), np.bool_)
    for source, later in enumerate(behind):
        places = np.flatnonzero(source_places == source)
        following = np.append(offsets[places], np.uint64(later))
        settled[places] = offsets[places] < np.minimum.accumulate(following[::-1])[::-1][1:]
    return settled


def portions(records: Iterator[Record], rows_max: int) -> Iterator[list[Record]]:
    """Lists with at most `rows_max` consecutive records; within a list a source's offsets increase."""
    portion: list[Record] = []
    last: dict[Source, int] = {}
    for record in records:
        if len(portion) == rows_max or record.offset <= last.get(record.source, -1):
            yield portion
            portion, last = [], {}
        portion.append(record)
        last[record.source] = record.offset
    if portion:
        yield portion


class Imported(NamedTuple):
    """Counts for the records passed to `Importer.add`; both add up to all.

    >>> counts = [Imported(entered=10, already_known=2), Imported(entered=0, already_known=8)]
    >>> Imported(*map(sum, zip(*counts)))
    Imported(entered=10, already_known=10)
    """

    entered: int
    already_known: int


class Importer:
    """Imports records into an index that may already hold some of them, or others.

    >>> one = Record(Source("topic", 0), 17, Verdict.DEAD_LETTER, 0, None, None, None, None, False, True, "")
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     Importer(index).add([one]), Importer(index).add([one])
    (Imported(entered=1, already_known=0), Imported(entered=0, already_known=1))
    """

    def __init__(self, index: Index | BulkLoader) -> None:
        """index: a `BulkLoader` for many records; call its `finish` after the last one."""
        self._parameters = index.parameters
        self._writer = index if isinstance(index, BulkLoader) else internals_of(index)

    def begin(self, streams: Sequence[tuple[str, str]]) -> None:
        """Register streams, (stream, name), in this order."""

        def operation(session: WriteSession) -> None:
            for stream, name in streams:
                sources.number_of(session.transaction, stream)
                if name:
                    sources.set_name(session.transaction, stream, name)

        self._writer.write(operation)

    def add(self, records: Sequence[Record]) -> Imported:
        """Enter records in one write transaction; known positions stay as they are.

        Entries come with their verdicts; only equality is checked. Offsets must ascend within a source, as `portions`
        ensures. Raises IndexFullError, IndexDamagedError; ValueError if no earlier record holds an original, or a record lacks a
        part.
        """
        _require_whole(records, self._parameters.insert)
        entries = _with_frames(records, stored_form(_entries_of(records, self._parameters), self._parameters))
        return self._writer.write(lambda session: _enter(session, records, entries))

    def add_samples(self, samples: Mapping[int, HostSample]) -> None:
        """Enter host samples by host key, unless this index has some; call this after the last record."""

        def operation(session: WriteSession) -> None:
            if not session.transaction.count(Table.FRAMES):
                enter_samples(session.transaction, samples)

        self._writer.write(operation)

    def finish(self, applied: Mapping[Source, Applied]) -> None:
        """Move applied offsets and their marks to those of the exported index; call this after the last record."""
        ends = {source: at.offset for source, at in applied.items()}
        marks = {source: at.mark for source, at in applied.items()}
        self._writer.write(lambda session: sources.move_applied(session.transaction, ends, marks))


def _enter(session: WriteSession, records: Sequence[Record], entries: Entries) -> Imported:
    batch = Batch(session, entries)
    new = ~batch.journaled.known
    entering = new & np.array([record.document is not None for record in records], np.bool_)
    numbers = next_numbers(session, entering)
    verdicts = np.array([record.verdict for record in records], np.uint8)
    named = _originals(session, records, new, numbers)
    own = entry.standing_for_themselves(verdicts) | ((named == NO_NUMBER) & entering)
    distances = np.array([NO_DISTANCE if each.distance is None else each.distance for each in records], np.int16)
    returns = np.array([record.version.returns for record in records], np.uint8)
    strangers = np.array([record.version.strangers for record in records], np.uint8)
    ratios = np.array([record.ratio for record in records], np.uint16)
    # The import has no number for a version that was replaced.
    orders = np.where(verdicts == Verdict.UPDATE, NO_NUMBER, np.where(own, numbers, named))
    outcome = Outcome(
        verdicts,
        distances,
        entering,
        session.counters.next_number,
        orders,
        returns=returns,
        strangers=strangers,
        ratios=ratios,
    )
    leaving = entering & np.array([record.forgotten for record in records], np.bool_)
    origins = origins_of(session, [origin for row in np.flatnonzero(new).tolist() if (origin := records[row].origin)])
    older = [record.origin and record.origin.position for record in records]
    ends = {record.source: record.offset + 1 for record in records if record.settled}
    enter_again(session, batch, entries, new, outcome, older, ends, origins=origins, leaving=leaving)
    return Imported(int(new.sum()), int((~new).sum()))


def _originals(
    session: ReadSession, records: Sequence[Record], new: npt.NDArray[np.bool_], numbers: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Original in this index for each new record that names another document, uint64 [n]; NO_NUMBER for others.

    numbers  uint64 [n], number of each entering record
    """
    originals = np.full(len(records), NO_NUMBER, np.uint64)
    entered: dict[Position, int] = {}
    earlier: list[tuple[int, Position]] = []
    for row, (record, is_new, number) in enumerate(zip(records, new.tolist(), numbers.tolist(), strict=True)):
        resembles = record.verdict.names_original and not record.verdict.stands_for_itself
        if is_new and resembles and record.original is not None and record.origin is not None:
            if record.origin.position in entered:
                originals[row] = entered[record.origin.position]
            else:
                earlier.append((row, record.origin.position))
        if number != NO_NUMBER:
            entered[Position(entry.plain_source(record.source), record.offset)] = number
    rows = [row for row, _ in earlier]
    originals[rows] = numbers_at(session, [position for _, position in earlier], own=True)
    for row in rows:
        if originals[row] == NO_NUMBER:
            record = records[row]
            raise ValueError(f"offset {record.offset}: original {record.original} does not stand before it")
    return originals


def _require_whole(records: Sequence[Record], insert: Insert) -> None:
    """Raise ValueError unless each record has a document and an origin exactly if its verdict requires them."""
    entering = {verdict for verdict in Verdict if verdict.stands_for_itself} - {Verdict.GIVEN_BACK}
    if insert != "unique":
        entering.add(Verdict.SUSPECT)
    for record in records:
        may_enter = insert == "root" and record.verdict is Verdict.DUPLICATE and record.document is not None
        # A document whose text can no longer be compared was given back without an entry.
        may_enter |= record.verdict is Verdict.GIVEN_BACK and record.document is not None
        for what, part, expected in (
            ("document", record.document, may_enter or record.verdict in entering),
            ("origin", record.origin, record.verdict.names_original),
        ):
            if (part is not None) != expected:
                having = "without its" if expected else "with a"
                raise ValueError(f"offset {record.offset}: the verdict is {record.verdict.label}, {having} {what}")


_KINDS = {
    Verdict.DUPLICATE: Kind.NEAR,
    Verdict.SUSPECT: Kind.NEAR,
    Verdict.GIVEN_BACK: Kind.UNDECIDABLE,
    Verdict.UNDECIDABLE: Kind.UNDECIDABLE,
    Verdict.DEAD_LETTER: Kind.DEAD_LETTER,
}
"""Records that entered nothing, by kind; whether such a duplicate was an exact one makes no difference."""


def _entries_of(records: Sequence[Record], parameters: Parameters) -> Entries:
    words, look_bytes = parameters.words, parameters.look_bytes
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(record.source, len(numbers)) for record in records]
    documents = [record.document for record in records]
    nothing = (0,) * words
    kinds = [_KINDS[record.verdict] if record.document is None else record.document.kind for record in records]
    fingerprints = np.array([nothing if each is None else each.fingerprint for each in documents], np.uint64)
    looks = np.zeros((len(records), look_bytes), np.uint8)
    for row, document in enumerate(documents):
        if document is not None:
            if len(document.look) != look_bytes:
                raise ValueError(
                    f"offset {records[row].offset}: a look has {look_bytes} bytes, not {len(document.look)}"
                )
            looks[row] = np.frombuffer(document.look, np.uint8)
    return Entries(
        sources=tuple(numbers),
        source_numbers=np.array(source_numbers, np.uint32),
        offsets=np.array([record.offset for record in records], np.uint64),
        kinds=np.array(kinds, np.uint8),
        reasons=np.array([record.reason for record in records], np.uint8),
        fingerprints=fingerprints.reshape(-1, words),
        times_ms=np.array([0 if each is None else each.time_ms for each in documents], np.int64),
        ids=[record.id for record in records],
        looks=looks,
        digests=np.array([record.version[:2] for record in records], np.uint64).reshape(-1, 2),
        host_digests=np.array([record.version.host for record in records], np.uint32),
        lengths=np.array([record.length for record in records], np.uint32),
    )


def _with_frames(records: Sequence[Record], entries: Entries) -> Entries:
    """Entries in stored form with the frames that their documents had."""
    for row, record in enumerate(records):
        if record.document is not None and record.document.frame:
            if entries.fingerprints.shape[1] == len(record.document.fingerprint):
                raise ValueError(f"offset {record.offset}: has a frame, and this index learns none")
            entries.fingerprints[row, -len(record.document.frame) :] = record.document.frame
    return entries
