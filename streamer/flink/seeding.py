"""Index entries as batches that seed a job, in decision order. Pure.

A batch has consecutive records from one source, with ascending offsets. Its number, in milliseconds from 1 on, is the time in
its document keys, earlier than any log time.

If entries may leave, a seed has every record, with what the index said: which version it was, what it repeated, and whether it
counts no more.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import Document, Entries, Kind, Parameters, Position, Source, Verdict, plain_source
from index.dataflow import HISTORY, NO_NUMBER, UNNAMED, Dataflow, Seeds, document_keys, samples_of
from index.tools import Record, Snapshot
from streamer.flink.seed_ages import SourceAges
from streamer.flink.seed_batch import pack_ends, pack_sample, pack_seeds
from streamer.parts.envelope import DOCUMENTS_MAX, Heading, stamp_text
from streamer.parts.fingerprint_batch import FingerprintBatch

Key = tuple[int, int]
"""A document's key in the flow, see `index.dataflow.rows`."""


class Seed(NamedTuple):
    """A batch, its partition, its record's time, and how many entries it has.

    >>> Seed(partition=3, time_ms=1, content=b"", documents=0).partition
    3
    """

    partition: int
    time_ms: int
    content: bytes
    documents: int


class _Row(NamedTuple):
    """A record that a seed has.

    document  without a fingerprint if none entered
    root      key by which it counts; None if that is its own
    """

    document: Document
    root: Key | None
    record: Record


class _Keys:
    """Keys of earlier entries by number; mostly ascending, 10 bytes each.

    counted  whether a batch has consecutive numbers
    """

    def __init__(self, *, counted: bool) -> None:
        self._counted = counted
        self._numbers, self._rows = array("Q"), array("H")
        self._before, self._highs = array("Q"), array("Q")
        self._aside: dict[int, Key] = {}
        self._next_row = 0

    @property
    def batches(self) -> int:
        """How many there are so far."""
        return len(self._highs)

    @property
    def next(self) -> Key:
        """Above all keys so far, and not above later ones."""
        return (self._highs[-1], self._next_row) if self._highs else (0, 0)

    def begin(self, source: Source) -> None:
        """Begin a batch with this source."""
        self._before.append(len(self._numbers))
        self._highs.append(document_keys(self.batches + 1, source.partition, 1)[0])
        self._next_row = 0

    def takes(self, number: int | None) -> bool:
        """Whether the batch has room for an entry with this number. Otherwise it begins another one."""
        if number is None or len(self._numbers) == self._before[-1]:
            return True
        return number == self._numbers[-1] + 1 if self._counted else self._ascends(number)

    def _ascends(self, number: int) -> bool:
        return not self._numbers or number > self._numbers[-1]

    def add(self, number: int | None) -> None:
        """Add the batch's next record; None: no entry."""
        if number is not None and self._ascends(number):
            self._numbers.append(number)
            self._rows.append(self._next_row)
        elif number is not None:
            self._aside[number] = self.next
        self._next_row += 1

    def of(self, number: int) -> Key | None:
        """An entry's key; None for an unknown number."""
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            return self._aside.get(number)
        return self._highs[bisect_right(self._before, place) - 1], self._rows[place]


def seeds_of(taken: Snapshot, partitions: int, flow: Dataflow, until_ms: Mapping[int, int]) -> Iterator[Seed]:
    """What a flow needs of an index: its records, its samples of hosts, then a last batch for each partition.

    until_ms  by partition, as in `Seeds`

    If entries never leave, only those are needed that count. A member counts as long as its root. A delivered document becomes
    its own root once its root is gone. With updates records that did not enter are needed too, as versions of their pages.

    Raises SettingsError if sources alternate in a partition, so that a job could not tell their ages.
    """
    names, stamp, keys = taken.streams(), stamp_text(taken.parameters.fingerprint), _Keys(counted=flow.leaves)
    ages, given_back = SourceAges(taken.ages()), taken.given_back()
    is_aged = flow.retained is not None and flow.retained.retention.age_max_ms is not None

    def chosen(record: Record) -> _Row | None:
        return _known(record, keys, updates=flow.updates) if flow.leaves else _entry(record, keys, taken.parameters)

    for source, run in _runs(taken.records(), keys, ages, chosen):
        begin, end = run[0].document.position.offset, run[-1].document.position.offset + 1
        heading = Heading(stamp, source.stream, names.get(source.stream, ""), source.partition, begin, end)
        seeds = _histories(run, keys, given_back, taken.parameters) if flow.leaves else _members(taken, run)
        content = pack_seeds(_batch(heading, source, run, taken.parameters), seeds)
        count = len(run) if seeds.history is None else int((seeds.history["entered"] & ~seeds.history["gone"]).sum())
        yield Seed(source.partition % partitions, keys.batches, content, count)
    batches = keys.batches
    if taken.parameters.frames is not None:
        for group, sample in samples_of(taken.host_groups(), taken.samples()):
            batches += 1
            partition = group % partitions
            content = pack_sample(Heading(stamp, "", "", partition, 0, 0), group, sample)
            yield Seed(partition, batches, content, 0)
    ends: dict[int, dict[str, int]] = {partition: {} for partition in range(partitions)}
    for source, applied in taken.applied().items():
        ends.setdefault(source.partition, {})[source.stream] = applied.offset
    for partition, stream_ends in ends.items():
        heading = Heading(stamp, "", "", partition, 0, 0)
        aged = ages.of_partition(partition) if is_aged else ()
        known_until_ms, number = until_ms.get(partition, -1), taken.next_number()
        content = pack_ends(heading, stream_ends, aged, until_ms=known_until_ms, number=number)
        yield Seed(partition % partitions, batches + 1, content, 0)


def _entry(record: Record, keys: _Keys, parameters: Parameters) -> _Row | None:
    """A record whose entry counts."""
    document = record.document
    if document is None or record.forgotten:
        return None
    root = None if document.root == document.number else keys.of(document.root)
    lost = document.root != document.number and root is None
    if lost and parameters.insert == "root" and record.verdict == Verdict.DUPLICATE and document.kind == Kind.NEAR:
        return None
    return _Row(document, root, record)


def _known(record: Record, keys: _Keys, *, updates: bool) -> _Row | None:
    """A record that entered, or with updates one that repeated an entry.

    An entry whose original has left the index is gone, but retention counts it.
    """
    if record.document is not None:
        document = record.document
        return _Row(document, None if document.root == document.number else keys.of(document.root), record)
    root = None if record.original is None else keys.of(record.original)
    if record.number is None and (root is None or not updates or not record.id):
        return None
    position = Position(record.source, record.offset)
    # Nothing is compared with it.
    return _Row(Document(0, 0, record.id, position, 0, Kind.EXACT, (), length=record.length), root, record)


def _runs(
    records: Iterator[Record], keys: _Keys, ages: SourceAges, chosen: Callable[[Record], _Row | None]
) -> Iterator[tuple[Source, Sequence[_Row]]]:
    source, run = Source("", 0), list[_Row]()
    for place, record in enumerate(records):
        its_source, offset = plain_source(record.source), record.offset
        ages.reach(place, its_source, keys.next)
        row = chosen(record)
        if row is None:
            continue
        joins = run and its_source == source and offset > run[-1].document.position.offset and len(run) < DOCUMENTS_MAX
        if not joins or not keys.takes(record.number):
            if run:
                yield source, run
            source, run = its_source, []
            keys.begin(source)
        keys.add(record.number)
        run.append(row)
    if run:
        yield source, run
    ages.end(keys.next)


def _batch(heading: Heading, source: Source, run: Sequence[_Row], parameters: Parameters) -> FingerprintBatch:
    documents, count = [row.document for row in run], len(run)
    looks = np.zeros((count, parameters.look_bytes), np.uint8)
    for row, each in enumerate(documents):
        looks[row, : len(each.look)] = np.frombuffer(each.look, np.uint8)
    positions = [f"{heading.topic}/{heading.partition}/{each.position.offset}" for each in documents]
    entries = Entries(
        (source,),
        np.zeros(count, np.uint32),
        np.array([each.position.offset for each in documents], np.uint64),
        np.array([each.kind for each in documents], np.uint8),
        np.zeros(count, np.uint8),
        _fingerprints(documents, parameters),
        np.array([each.time_ms for each in documents], np.int64),
        [each.id for each in documents],
        looks if parameters.look is not None else None,
        named=np.array([each.id != at for each, at in zip(documents, positions, strict=True)], np.bool_),
        digests=np.array([(row.record.version.text, row.record.version.substance) for row in run], np.uint64),
        lengths=np.array([each.length for each in documents], np.uint32),
    )
    return FingerprintBatch(heading, entries, [None] * count)


def _members(taken: Snapshot, run: Sequence[_Row]) -> Seeds:
    """Decisions on entries that never leave."""
    parameters = taken.parameters
    members = [place for place, row in enumerate(run) if row.root is not None]
    numbers = [run[place].document.root for place in members]
    found = taken.documents(np.array(numbers, np.uint64))
    roots = [found[number] for number in numbers]
    keys = np.array([run[place].root for place in members], np.uint64).reshape(-1, 2)
    fingerprints = _fingerprints(roots, parameters)
    looks = np.frombuffer(b"".join(root.look for root in roots), np.uint8).reshape(len(roots), parameters.look_bytes)
    letters = np.array([root.length for root in roots], np.uint32)
    return Seeds(np.array(members, np.int64), keys, fingerprints, looks, letters)


def _histories(run: Sequence[_Row], keys: _Keys, given_back: frozenset[int], parameters: Parameters) -> Seeds:
    """Decisions on the last batch, whose entries may leave."""
    history = np.zeros(len(run), HISTORY)
    high, _ = keys.next
    for place, row in enumerate(run):
        record, version = row.record, row.record.version
        is_own = record.document is not None and row.document.root == row.document.number
        named = row.root or ((high, place) if is_own else (UNNAMED, 0))
        history[place] = (
            *named,
            version.host,
            version.returns,
            version.strangers,
            record.number is not None,
            record.forgotten or record.document is None,
            record.number in given_back,
        )
    number = next((row.record.number for row in run if row.record.number is not None), NO_NUMBER)
    none = np.empty(0, np.int64)
    words, looks = parameters.stored_words, parameters.look_bytes
    return Seeds(
        none,
        np.empty((0, 2), np.uint64),
        np.empty((0, words), np.uint64),
        np.empty((0, looks), np.uint8),
        np.empty(0, np.uint32),
        history,
        number,
    )


def _fingerprints(documents: Sequence[Document], parameters: Parameters) -> npt.NDArray[np.uint64]:
    """Fingerprints with their frames, uint64 [n, words]."""
    fingerprints = np.zeros((len(documents), parameters.stored_words), np.uint64)
    for row, each in enumerate(documents):
        words = each.fingerprint + each.frame
        fingerprints[row, : len(words)] = words
    return fingerprints
