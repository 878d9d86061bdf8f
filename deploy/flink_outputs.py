"""A service's delivered verdicts, and one index's verdicts on the same fingerprints."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from deploy.flink_service import PARTITIONS
from deploy.planted_fingerprints import sequential
from index import Verdict
from streamer.fingerprint.scheme import longer_of, parameters_for, scheme_for
from streamer.settings.settings import Settings

VerdictsByPosition = dict[str, tuple[str, str | None]]
"""Each document's verdict and original id, by position."""


class Records:
    """Output record headers, in order of arrival."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.headers: list[dict[str, str]] = []

    def wait_for(self, count: int, timeout_seconds: float = 240.0) -> None:
        """Read until there are `count` records. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.headers) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.headers)} of {count} outputs after {timeout_seconds:g} s")
            for records in self._consumer.poll(timeout_ms=500).values():
                for record in records:
                    self.headers.append({name: value.decode() for name, value in record.headers})


@contextmanager
def reading(settings: Settings) -> Iterator[Records]:
    """Read a service's outputs from the first."""
    topics = (settings.topics.unique, settings.topics.duplicate, settings.topics.dead_letter)
    with KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)])
        consumer.seek_to_beginning()
        yield Records(consumer)


def delivered(headers: Sequence[Mapping[str, str]]) -> VerdictsByPosition:
    """Verdicts in outputs. Raises ValueError for a repeated position."""
    verdicts = {
        each["neardup.position"]: (each["neardup.verdict"], each.get("neardup.original.id")) for each in headers
    }
    if len(verdicts) < len(headers):
        raise ValueError(f"{len(headers) - len(verdicts)} documents were delivered twice")
    return verdicts


def decided_by_one_index(settings: Settings, directory: Path) -> VerdictsByPosition:
    """One index's verdicts on the topic's new fingerprints. The index stays in the directory."""
    parameters = parameters_for(settings, scheme_for(settings).stamp())
    servers, topics, longer = settings.kafka.bootstrap_servers[0], settings.topics, longer_of(settings.index)
    verdicts = {}
    for (partition, _), batch in sequential(servers, topics.fingerprints, parameters, directory, longer=longer).items():
        for offset, verdict, original in zip(batch.offsets, batch.verdicts, batch.original_ids, strict=True):
            verdicts[f"{topics.input}/{partition}/{offset}"] = Verdict(verdict).label, original
    return verdicts
