"""Random fingerprints with planted near-duplicates for the fingerprints topic, and one index's verdicts on them.

A quarter are near-duplicates in chains: each resembles an earlier document, which may resemble another. Similar documents
are spread over all partitions, so that many are in flight at once. One in ten is a fifth longer than the others.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from index import Entries, Index, Kind, Parameters, Position, Source
from index.dataflow import Arrival, name_digests
from streamer.flink.batches import arrival
from streamer.parts.envelope import DOCUMENTS_MAX, Heading
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints, unpack_fingerprints
from streamer.parts.verdict_batch import unpack_verdicts

PARTITIONS = 4
STREAM, TOPIC = "planted-stream", "documents"
HOSTS, PAGES_AT_ONCE = 4, 500
NEAR_SHARE, EXACT_SHARE, UNDECIDABLE_SHARE, LONGER_SHARE = 0.25, 0.02, 0.01, 0.1
AGAIN_SHARE = 0.2


class BatchVerdicts(NamedTuple):
    """Verdicts on a batch's documents."""

    offsets: list[int]
    verdicts: list[int]
    distances: list[int]
    original_ids: list[str | None]
    original_positions: list[Position | None]
    ratios: list[int]
    reasons: list[int]


def planted(parameters: Parameters, count: int, seed: int) -> npt.NDArray[np.uint64]:
    """Random fingerprints uint64 [count, words], some of them near-duplicates of earlier ones."""
    generator = np.random.default_rng(seed)
    fingerprints = generator.integers(0, 2**64, (count, parameters.words), np.uint64)
    octets = fingerprints.view(np.uint8)
    near = np.flatnonzero(generator.random(count) < NEAR_SHARE)
    near = near[near > 0]
    # Half resemble one of the last thousand, which may still be in flight; the others any earlier one.
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


def put_on_hosts(fingerprints: npt.NDArray[np.uint64], seed: int) -> list[str | None]:
    """Hosts of pages, PAGES_AT_ONCE in turn; a host fills 1 to HOSTS in HOSTS + 1 bins of them with its template.

    Every HOSTS + 1st lot has no host.
    """
    octets = fingerprints.view(np.uint8)
    hosts = np.arange(len(octets)) // PAGES_AT_ONCE % (HOSTS + 1)
    for host, template in enumerate(np.random.default_rng(seed).integers(1, 256, (HOSTS, octets.shape[1]), np.uint8)):
        framed = octets.shape[1] * (host + 1) // (HOSTS + 1)
        octets[hosts == host, :framed] = template[:framed]
    return [f"host-{host}" if host < HOSTS else None for host in hosts.tolist()]


def batches_of(
    fingerprints: npt.NDArray[np.uint64],
    seed: int,
    stamp: str = "{}",
    hosts: Sequence[str | None] | None = None,
    *,
    again: bool = False,
) -> Iterator[bytes]:
    """Fingerprint batches with this stamp for PARTITIONS partitions, in sending order.

    again  whether AGAIN_SHARE of the documents are pages that came before, half of them unchanged
    """
    generator = np.random.default_rng(seed)
    count = len(fingerprints)
    partition_of = generator.integers(0, PARTITIONS, count)
    kinds = generator.choice(3, count, p=[1 - EXACT_SHARE - UNDECIDABLE_SHARE, EXACT_SHARE, UNDECIDABLE_SHARE]).astype(
        np.uint8
    )
    # Many exact ones are equal.
    exact = np.flatnonzero(kinds == Kind.EXACT)
    fingerprints[exact] = (exact // 100 % 97).astype(np.uint64)[:, None]
    lengths = np.where(generator.random(count) < LONGER_SHARE, 1_200, 1_000).astype(np.uint32)
    pages = _crawled_again(fingerprints, kinds, seed) if again else np.arange(count)
    # An equal fingerprint is an equal text here.
    digests = np.repeat(fingerprints[:, :1] ^ fingerprints[:, -1:] << np.uint64(1) | np.uint64(1), 2, axis=1)
    rows_of = [np.flatnonzero(partition_of == partition) for partition in range(PARTITIONS)]
    for at in range(0, max(map(len, rows_of)), DOCUMENTS_MAX):
        for partition, all_rows in enumerate(rows_of):
            rows = all_rows[at : at + DOCUMENTS_MAX]
            if len(rows):
                ids = [f"made-up-{page}" for page in pages[rows].tolist()]
                own = None if hosts is None else [hosts[page] for page in pages[rows].tolist()]
                columns = fingerprints[rows], kinds[rows], ids, stamp, lengths[rows], own
                yield batch(partition, at, *columns, digests=digests[rows] if again else None)


def _crawled_again(
    fingerprints: npt.NDArray[np.uint64], kinds: npt.NDArray[np.uint8], seed: int
) -> npt.NDArray[np.int64]:
    """Row whose page each row is, int64 [count]; gives half of those that come again that row's text."""
    generator, count = np.random.default_rng(seed), len(fingerprints)
    pages = np.arange(count)
    for row in np.flatnonzero(generator.random(count) < AGAIN_SHARE).tolist():
        if row:
            pages[row] = pages[row - 1 - int(generator.integers(min(row, 1_000)))]
            if generator.random() < 0.5:
                fingerprints[row], kinds[row] = fingerprints[pages[row]], kinds[pages[row]]
    return pages


def batch(
    partition: int,
    begin: int,
    fingerprints: npt.NDArray[np.uint64],
    kinds: npt.NDArray[np.uint8],
    ids: Sequence[str],
    stamp: str = "{}",
    lengths: npt.NDArray[np.uint32] | None = None,
    hosts: Sequence[str | None] | None = None,
    digests: npt.NDArray[np.uint64] | None = None,
) -> bytes:
    """A fingerprint batch with offsets from `begin` on."""
    count, source = len(ids), Source(STREAM, partition)
    offsets = np.arange(begin, begin + count, dtype=np.uint64)
    entries = Entries(
        (source,),
        np.zeros(count, np.uint32),
        offsets,
        kinds,
        kinds,
        fingerprints,
        np.zeros(count, np.int64),
        ids,
        hosts=hosts,
        digests=digests,
        lengths=lengths,
    )
    heading = Heading(stamp, STREAM, TOPIC, partition, begin, begin + count)
    return pack_fingerprints(FingerprintBatch(heading, entries, [None] * count))


@dataclass
class Feeder:
    """Writes batches to the fingerprints topic."""

    bootstrap_servers: str
    topic: str

    def __enter__(self) -> "Feeder":
        self._producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5, max_block_ms=60_000)
        return self

    def __exit__(self, *error: object) -> None:
        self._producer.close()

    def feed(self, contents: Sequence[bytes], documents_per_second: float | None = None) -> None:
        """Write these batches, at most at this rate."""
        begin, fed = time.monotonic(), 0
        for content in contents:
            heading = unpack_fingerprints(content, "made up").heading
            self._producer.send(self.topic, content, partition=heading.partition)
            fed += heading.end - heading.begin
            if documents_per_second is not None:
                time.sleep(max(0.0, begin + fed / documents_per_second - time.monotonic()))
        self._producer.flush()


def create_topics(bootstrap_servers: str, *topics: str) -> None:
    """Create topics with PARTITIONS partitions and LogAppendTime."""
    configuration = {"message.timestamp.type": "LogAppendTime"}
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=configuration) for topic in topics])
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id="any") as consumer:
        # A fresh broker creates its topic for groups at the first request.
        consumer.committed(TopicPartition(topics[0], 0))


class OneIndex:
    """One index that decides a topic's batches in timestamp order, and forgets and takes back where the topic says so.

    forgotten   how many documents it forgot, as far as the topic has their names
    given_back  how many it took back
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        parameters: Parameters,
        directory: Path,
        **options: Any,
    ) -> None:
        """directory: of an index to continue, without its earlier batches, or of a new one; options: as in `Index.open`."""
        self._bootstrap_servers, self._topic = bootstrap_servers, topic
        self._open = partial(Index.open, directory, parameters, map_bytes_max=2**36, **options)
        self._partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        self._waiting: list[tuple[int, int, int, Arrival]] = []
        self._latest_ms, self._ends = [0] * PARTITIONS, [0] * PARTITIONS
        self._names: dict[int, str] = {}
        self.forgotten = self.given_back = 0

    def __enter__(self) -> Self:
        # It reads what the job reads.
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap_servers, isolation_level="read_committed", max_poll_records=5_000
        )
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning()
        self._index = self._open()
        return self

    def __exit__(self, *error: object) -> None:
        self._index.close()
        self._consumer.close()

    def decide(self, *, to_the_end: bool = True) -> dict[tuple[int, int], BatchVerdicts]:
        """Verdicts since the last call, by partition and first offset.

        to_the_end  False: leave batches that an earlier one could still precede, as their time is not over in all partitions
        """
        self._read()
        self._waiting.sort(key=lambda each: each[:3])
        horizon_ms = min(self._latest_ms)
        over = len(self._waiting) if to_the_end else sum(each[0] < horizon_ms for each in self._waiting)
        now, self._waiting = self._waiting[:over], self._waiting[over:]
        verdicts = {}
        for _, partition, begin, content in now:
            if content.forgets is not None:
                # A name that the topic has nowhere is no earlier document's.
                self._forget([self._names[digest] for digest in content.forgets.tolist() if digest in self._names])
                continue
            if content.given_back:
                self.given_back += int(self._index.give_back(content.entries, delivered=True).sum())
                continue
            decisions = self._index.admit(content.entries, {content.source: content.end})
            if decisions.replayed.all():
                continue
            verdicts[partition, begin] = BatchVerdicts(
                content.entries.offsets.tolist(),
                decisions.verdicts.tolist(),
                decisions.distances.tolist(),
                decisions.original_ids,
                decisions.original_positions,
                decisions.ratios.tolist(),
                decisions.reasons.tolist(),
            )
        return verdicts

    def _forget(self, names: Sequence[str]) -> None:
        self.forgotten += len(self._index.forget({name for name in names if not name.endswith("/")}))
        self.forgotten += sum(self._index.forget_names(name) for name in names if name.endswith("/"))

    def _read(self) -> None:
        ends = self._consumer.end_offsets(self._partitions)
        while any(self._consumer.position(each) < ends[each] for each in self._partitions):
            for records in self._consumer.poll(timeout_ms=500).values():
                for record in records:
                    self._take(record.partition, record.timestamp, record.value)

    def _take(self, partition: int, time_ms: int, value: bytes) -> None:
        self._latest_ms[partition] = max(self._latest_ms[partition], time_ms)
        content = arrival(value, time_ms, self._topic)
        begin, has_own_time = content.begin, content.given_back or content.begin < content.end
        if content.forgets is not None or content.given_back:
            # Between the batches before and behind it.
            begin = self._ends[partition]
        elif not len(content.entries):
            self._latest_ms[partition] += has_own_time
            return
        if not content.given_back:
            self._ends[partition] = max(self._ends[partition], content.end)
        for id_ in content.entries.ids:
            whole, beginning = name_digests(id_)
            self._names |= {whole: id_, beginning: id_[: id_.find("/") + 1]}
        self._waiting.append((self._latest_ms[partition], partition, begin, content))
        # Only one batch of a partition has a time.
        self._latest_ms[partition] += has_own_time


def sequential(
    bootstrap_servers: str,
    topic: str,
    parameters: Parameters,
    directory: Path | None = None,
    **options: Any,
) -> dict[tuple[int, int], BatchVerdicts]:
    """Verdicts of `OneIndex` on all batches; without a directory its index is temporary. options: as in `Index.open`."""
    with (
        tempfile.TemporaryDirectory(prefix="sequential-") as new,
        OneIndex(bootstrap_servers, topic, parameters, directory or Path(new), **options) as index,
    ):
        return index.decide()


@dataclass
class Verdicts:
    """Reads the verdicts topic repeatedly to its end.

    by_batch  verdicts by partition and first offset
    repeated  repeated batches
    changed   repeated batches with other verdicts
    """

    bootstrap_servers: str
    topic: str
    by_batch: dict[tuple[int, int], BatchVerdicts] = field(default_factory=dict)
    repeated: int = 0
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
        """Read new verdicts; returns how many documents have a verdict."""
        for records in self._consumer.poll(timeout_ms=200, max_records=1_000).values():
            for record in records:
                self._take(record.partition, record.value)
        return self.documents

    def wait_for(self, documents: int, timeout_seconds: float, alive: Callable[[], object] = bool) -> None:
        """Read until `documents` have a verdict. Raises TimeoutError; `alive` may raise earlier."""
        deadline = time.monotonic() + timeout_seconds
        while self.read() < documents:
            alive()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.documents} of {documents} documents have a verdict after {timeout_seconds:g} s"
                )

    def _take(self, partition: int, content: bytes) -> None:
        batch = unpack_verdicts(content, self.topic)
        if batch.heading.partition != partition:
            raise AssertionError(f"verdicts on partition {batch.heading.partition} are in partition {partition}")
        verdicts = BatchVerdicts(
            batch.offsets.tolist(),
            batch.verdicts.tolist(),
            batch.distances.tolist(),
            list(batch.original_ids),
            list(batch.original_positions),
            batch.ratios.tolist(),
            batch.reasons.tolist(),
        )
        first = self.by_batch.setdefault((partition, batch.heading.begin), verdicts)
        if first is verdicts:
            self.documents += len(batch)
        else:
            self.repeated += 1
            self.changed += first != verdicts


def documents_in(contents: Sequence[bytes]) -> int:
    """How many documents batches have."""
    return sum(len(unpack_fingerprints(content, "made up").entries) for content in contents)


def decide_here(parameters: Parameters, directory: Path, contents: Sequence[bytes], **options: Any) -> None:
    """Admit batches in order to an index, created if missing; options: as in `Index.open`."""
    with Index.open(directory, parameters, map_bytes_max=2**36, **options) as index:
        for content in contents:
            batch = unpack_fingerprints(content, "made up")
            index.admit(batch.entries, {batch.entries.sources[0]: batch.heading.end})


def mismatches(expected: dict[tuple[int, int], BatchVerdicts], actual: dict[tuple[int, int], BatchVerdicts]) -> int:
    """How many documents have other verdicts or none."""
    wrong = 0
    for key, of_batch in expected.items():
        other = actual.get(key)
        if other is None or other.offsets != of_batch.offsets:
            wrong += len(of_batch.offsets)
        elif other != of_batch:
            wrong += sum(
                one != two for one, two in zip(zip(*of_batch, strict=True), zip(*other, strict=True), strict=True)
            )
    return wrong + sum(len(other.offsets) for key, other in actual.items() if key not in expected)
