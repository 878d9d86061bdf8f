"""Index entries as batches that seed a job, in decision order. Pure.

A batch has consecutive entries from one source, with ascending offsets. Its number, in milliseconds from 1 on, is the time in
its document keys, earlier than any log time.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import Document, Entries, Kind, Parameters, Source, Verdict, plain_source
from index.dataflow import Seeds, document_keys, samples_of
from index.tools import Record, Snapshot
from streamer.flink.seed_batch import pack_ends, pack_sample, pack_seeds
from streamer.parts.envelope import DOCUMENTS_MAX, Heading, stamp_text
from streamer.parts.fingerprint_batch import FingerprintBatch

Key = tuple[int, int]
"""A document's key in the flow, see `index.dataflow.rows`."""


class Seed(NamedTuple):
    """A batch, its partition, its record's time, and its document count.

    >>> Seed(partition=3, time_ms=1, content=b"", documents=0).partition
    3
    """

    partition: int
    time_ms: int
    content: bytes
    documents: int


class _Entry(NamedTuple):
    document: Document
    root: Key | None


class _Keys:
    """Keys of earlier entries by number; mostly ascending, 8 bytes each."""

    def __init__(self) -> None:
        self._numbers, self._before = array("Q"), array("Q")
        self._highs, self._lows = array("Q"), array("Q")
        self._aside: dict[int, Key] = {}
        self.batches = 0

    def begin(self, source: Source) -> None:
        """Begin a batch with this document."""
        self.batches += 1
        high, low = document_keys(self.batches, source.partition, 1)
        self._before.append(len(self._numbers))
        self._highs.append(high)
        self._lows.append(int(low[0]))

    def ascends(self, number: int) -> bool:
        """Whether a number is above all earlier ones; otherwise it gets a separate batch."""
        return not self._numbers or number > self._numbers[-1]

    def add(self, number: int) -> None:
        """Add the batch's next entry."""
        if self.ascends(number):
            self._numbers.append(number)
        else:
            self._aside[number] = self._highs[-1], self._lows[-1]

    def of(self, number: int) -> Key | None:
        """An entry's key; None for an unknown number."""
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            return self._aside.get(number)
        batch = bisect_right(self._before, place) - 1
        return self._highs[batch], self._lows[batch] + place - self._before[batch]


def seeds_of(taken: Snapshot, partitions: int) -> Iterator[Seed]:
    """All entries of an index that count, its samples of hosts, then a last batch for each partition.

    A member counts as long as its root. A delivered document becomes its own root once its root is gone.
    """
    names, stamp, keys = taken.streams(), stamp_text(taken.parameters.fingerprint), _Keys()
    for source, run in _runs(taken.records(), keys, taken.parameters):
        begin, end = run[0].document.position.offset, run[-1].document.position.offset + 1
        heading = Heading(stamp, source.stream, names.get(source.stream, ""), source.partition, begin, end)
        content = pack_seeds(_batch(heading, source, run, taken.parameters), _seeds(taken, run))
        yield Seed(source.partition % partitions, keys.batches, content, len(run))
    if taken.parameters.frames is not None:
        for group, sample in samples_of(taken.host_groups(), taken.samples()):
            keys.batches += 1
            partition = group % partitions
            content = pack_sample(Heading(stamp, "", "", partition, 0, 0), group, sample)
            yield Seed(partition, keys.batches, content, 0)
    ends: dict[int, dict[str, int]] = {partition: {} for partition in range(partitions)}
    for source, applied in taken.applied().items():
        ends.setdefault(source.partition, {})[source.stream] = applied.offset
    for partition, of_streams in ends.items():
        content = pack_ends(Heading(stamp, "", "", partition, 0, 0), of_streams)
        yield Seed(partition % partitions, keys.batches + 1, content, 0)


def _runs(records: Iterator[Record], keys: _Keys, parameters: Parameters) -> Iterator[tuple[Source, Sequence[_Entry]]]:
    source, run = Source("", 0), list[_Entry]()
    for record in records:
        document = record.document
        if document is None or record.forgotten:
            continue
        root = None if document.root == document.number else keys.of(document.root)
        lost = document.root != document.number and root is None
        if lost and parameters.insert == "root" and record.verdict == Verdict.DUPLICATE and document.kind == Kind.NEAR:
            continue
        its_source, offset = plain_source(record.source), record.offset
        joins = run and its_source == source and offset > run[-1].document.position.offset and len(run) < DOCUMENTS_MAX
        if not joins or not keys.ascends(document.number):
            if run:
                yield source, run
            source, run = its_source, []
            keys.begin(source)
        keys.add(document.number)
        run.append(_Entry(document, root))
    if run:
        yield source, run


def _batch(heading: Heading, source: Source, run: Sequence[_Entry], parameters: Parameters) -> FingerprintBatch:
    documents, count = [each.document for each in run], len(run)
    looks = np.frombuffer(b"".join(each.look for each in documents), np.uint8)
    entries = Entries(
        (source,),
        np.zeros(count, np.uint32),
        np.array([each.position.offset for each in documents], np.uint64),
        np.array([each.kind for each in documents], np.uint8),
        np.zeros(count, np.uint8),
        _fingerprints(documents, parameters),
        np.array([each.time_ms for each in documents], np.int64),
        [each.id for each in documents],
        looks.reshape(count, parameters.look_bytes) if parameters.look is not None else None,
        lengths=np.array([each.length for each in documents], np.uint32),
    )
    return FingerprintBatch(heading, entries, [None] * count)


def _seeds(taken: Snapshot, run: Sequence[_Entry]) -> Seeds:
    parameters = taken.parameters
    members = [row for row, each in enumerate(run) if each.root is not None]
    numbers = [run[row].document.root for row in members]
    found = taken.documents(np.array(numbers, np.uint64))
    roots = [found[number] for number in numbers]
    keys = np.array([run[row].root for row in members], np.uint64).reshape(-1, 2)
    fingerprints = _fingerprints(roots, parameters)
    looks = np.frombuffer(b"".join(root.look for root in roots), np.uint8).reshape(len(roots), parameters.look_bytes)
    letters = np.array([root.length for root in roots], np.uint32)
    return Seeds(np.array(members, np.int64), keys, fingerprints, looks, letters)


def _fingerprints(documents: Sequence[Document], parameters: Parameters) -> npt.NDArray[np.uint64]:
    """Fingerprints with their frames, uint64 [n, words]."""
    fingerprints = np.zeros((len(documents), parameters.stored_words), np.uint64)
    for row, each in enumerate(documents):
        words = each.fingerprint + each.frame
        fingerprints[row, : len(words)] = words
    return fingerprints
