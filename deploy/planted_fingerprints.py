"""Made-up fingerprints with planted near-duplicates, fed to the topic of fingerprints, and what one index says of them.

A quarter are near-duplicates, in chains: each resembles an earlier document, which may resemble one itself. Documents that
resemble each other are dealt to all partitions, so that many of them are on their way at once.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from index import Entries, Index, Kind, Parameters, Position, Source
from streamer.records.envelope import DOCUMENTS_MAX, Heading
from streamer.records.fingerprint_batch import FingerprintBatch, pack_fingerprints, unpack_fingerprints
from streamer.records.verdict_batch import unpack_verdicts

PARTITIONS = 4
STREAM, TOPIC = "planted-stream", "documents"
NEAR_SHARE, EXACT_SHARE, UNDECIDABLE_SHARE = 0.25, 0.02, 0.01


class Told(NamedTuple):
    """What is said of the documents of a batch."""

    offsets: list[int]
    verdicts: list[int]
    distances: list[int]
    original_ids: list[str | None]
    original_positions: list[Position | None]


def planted(parameters: Parameters, count: int, seed: int) -> npt.NDArray[np.uint64]:
    """Fingerprints uint64 [count, words]: random ones, and near-duplicates of earlier ones."""
    generator = np.random.default_rng(seed)
    fingerprints = generator.integers(0, 2**64, (count, parameters.words), np.uint64)
    octets = fingerprints.view(np.uint8)
    near = np.flatnonzero(generator.random(count) < NEAR_SHARE)
    near = near[near > 0]
    # Half resemble one of the last thousand, which may be on its way still; the others any earlier one.
    recent = generator.random(len(near)) < 0.5
    back = np.where(recent, np.minimum(near, 1_000), near)
    origins = near - 1 - (generator.random(len(near)) * back).astype(np.int64)
    for row, origin in zip(near.tolist(), origins.tolist(), strict=True):
        fingerprints[row] = fingerprints[origin]
        if parameters.banding is None:
            bits = generator.integers(0, parameters.bits, int(generator.integers(0, parameters.distance_max + 1)))
            for bit in bits.tolist():
                fingerprints[row, bit >> 6] ^= np.uint64(1 << (bit & 63))
        else:
            changed = generator.random(octets.shape[1]) < generator.random() * 0.25
            octets[row, changed] = generator.integers(1, 256, int(changed.sum()), np.uint8)
    return fingerprints


def batches_of(fingerprints: npt.NDArray[np.uint64], seed: int, stamp: str = "{}") -> Iterator[bytes]:
    """Batches of fingerprints with this stamp, dealt to PARTITIONS partitions, in the order in which they are sent."""
    generator = np.random.default_rng(seed)
    count = len(fingerprints)
    dealt = generator.integers(0, PARTITIONS, count)
    kinds = generator.choice(3, count, p=[1 - EXACT_SHARE - UNDECIDABLE_SHARE, EXACT_SHARE, UNDECIDABLE_SHARE]).astype(
        np.uint8
    )
    # Of the exact ones many are equal.
    exact = np.flatnonzero(kinds == Kind.EXACT)
    fingerprints[exact] = (exact // 100 % 97).astype(np.uint64)[:, None]
    rows_of = [np.flatnonzero(dealt == partition) for partition in range(PARTITIONS)]
    for at in range(0, max(map(len, rows_of)), DOCUMENTS_MAX):
        for partition, all_rows in enumerate(rows_of):
            rows = all_rows[at : at + DOCUMENTS_MAX]
            if len(rows):
                ids = [f"made-up-{row}" for row in rows.tolist()]
                yield batch(partition, at, fingerprints[rows], kinds[rows], ids, stamp)


def batch(
    partition: int,
    begin: int,
    fingerprints: npt.NDArray[np.uint64],
    kinds: npt.NDArray[np.uint8],
    ids: Sequence[str],
    stamp: str = "{}",
) -> bytes:
    """A batch of fingerprints whose first document has this offset."""
    count, source = len(ids), Source(STREAM, partition)
    offsets = np.arange(begin, begin + count, dtype=np.uint64)
    entries = Entries(
        (source,), np.zeros(count, np.uint32), offsets, kinds, kinds, fingerprints, np.zeros(count, np.int64), ids
    )
    heading = Heading(stamp, STREAM, TOPIC, partition, begin, begin + count)
    return pack_fingerprints(FingerprintBatch(heading, entries, [None] * count))


@dataclass
class Feeder:
    """Writes batches to the topic of fingerprints."""

    bootstrap_servers: str
    topic: str

    def __enter__(self) -> "Feeder":
        self._producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5, max_block_ms=60_000)
        return self

    def __exit__(self, *error: object) -> None:
        self._producer.close()

    def feed(self, contents: Sequence[bytes], documents_per_second: float | None = None) -> None:
        """Write these batches, no faster than this."""
        begin, fed = time.monotonic(), 0
        for content in contents:
            heading = unpack_fingerprints(content, "made up").heading
            self._producer.send(self.topic, content, partition=heading.partition)
            fed += heading.end - heading.begin
            if documents_per_second is not None:
                time.sleep(max(0.0, begin + fed / documents_per_second - time.monotonic()))
        self._producer.flush()


def create_topics(bootstrap_servers: str, *topics: str) -> None:
    """Make topics of PARTITIONS partitions, whose records have the time at which the broker took them."""
    configuration = {"message.timestamp.type": "LogAppendTime"}
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=configuration) for topic in topics])
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id="nobody") as consumer:
        # A fresh broker makes what it needs for groups when somebody asks for one.
        consumer.committed(TopicPartition(topics[0], 0))


def sequential(
    bootstrap_servers: str, topic: str, parameters: Parameters, directory: Path | None = None
) -> dict[tuple[int, int], Told]:
    """What one index says that is fed in the order of the log, by partition and first offset of each batch.

    directory  of an index that goes on here, and what it decided before is left out; None: a new one
    """
    arrived, latest = [], [0] * PARTITIONS
    for record in _records(bootstrap_servers, topic):
        latest[record.partition] = max(latest[record.partition], record.timestamp)
        found = unpack_fingerprints(record.value, topic)
        if len(found.entries):
            arrived.append((latest[record.partition], record.partition, found.heading.begin, found))
    told = {}
    with (
        tempfile.TemporaryDirectory(prefix="sequential-") as new,
        Index.open(directory or Path(new), parameters, map_bytes_max=2**36) as index,
    ):
        for _, partition, begin, found in sorted(arrived, key=lambda each: each[:3]):
            decisions = index.admit(found.entries, {found.entries.sources[0]: found.heading.end})
            if decisions.replayed.all():
                continue
            told[partition, begin] = Told(
                found.entries.offsets.tolist(),
                decisions.verdicts.tolist(),
                decisions.distances.tolist(),
                decisions.original_ids,
                decisions.original_positions,
            )
    return told


@dataclass
class Verdicts:
    """Reads the topic of verdicts to its end, again and again.

    told     by partition and first offset
    again    batches that were told more than once
    changed  those of them that were told otherwise
    """

    bootstrap_servers: str
    topic: str
    told: dict[tuple[int, int], Told] = field(default_factory=dict)
    again: int = 0
    changed: int = 0
    documents: int = 0

    def __enter__(self) -> "Verdicts":
        partitions = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        self._consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers)
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning()
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def read(self) -> int:
        """Read what has come; returns the number of documents with a verdict."""
        for records in self._consumer.poll(timeout_ms=200, max_records=1_000).values():
            for record in records:
                self._take(record.partition, record.value)
        return self.documents

    def wait_for(self, documents: int, timeout_seconds: float, alive: Callable[[], object] = bool) -> None:
        """Read until so many documents have a verdict. Raises TimeoutError; `alive` may raise before."""
        deadline = time.monotonic() + timeout_seconds
        while self.read() < documents:
            alive()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.documents} of {documents} documents have a verdict after {timeout_seconds:g} s"
                )

    def _take(self, partition: int, content: bytes) -> None:
        found = unpack_verdicts(content, self.topic)
        if found.heading.partition != partition:
            raise AssertionError(f"verdicts on partition {found.heading.partition} stand in partition {partition}")
        told = Told(
            found.offsets.tolist(),
            found.verdicts.tolist(),
            found.distances.tolist(),
            list(found.original_ids),
            list(found.original_positions),
        )
        before = self.told.setdefault((partition, found.heading.begin), told)
        if before is told:
            self.documents += len(found)
        else:
            self.again += 1
            self.changed += before != told


def documents_in(contents: Sequence[bytes]) -> int:
    """Number of documents in batches."""
    return sum(len(unpack_fingerprints(content, "made up").entries) for content in contents)


def decide_here(parameters: Parameters, directory: Path, contents: Sequence[bytes]) -> None:
    """Let an index decide batches, in this order; it is made where it is not there."""
    with Index.open(directory, parameters, map_bytes_max=2**36) as index:
        for content in contents:
            found = unpack_fingerprints(content, "made up")
            index.admit(found.entries, {found.entries.sources[0]: found.heading.end})


def mismatches(expected: dict[tuple[int, int], Told], told: dict[tuple[int, int], Told]) -> int:
    """Documents of which something else is said, or nothing."""
    wrong = 0
    for key, of_batch in expected.items():
        found = told.get(key)
        if found is None or found.offsets != of_batch.offsets:
            wrong += len(of_batch.offsets)
        elif found != of_batch:
            wrong += sum(
                one != other for one, other in zip(zip(*of_batch, strict=True), zip(*found, strict=True), strict=True)
            )
    return wrong + sum(len(found.offsets) for key, found in told.items() if key not in expected)


def _records(bootstrap_servers: str, topic: str) -> Iterator[NamedTuple]:
    """All records of a topic that stand there now, by partition."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers)
    try:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning()
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=500, max_records=5_000).values():
                yield from records
    finally:
        consumer.close()
