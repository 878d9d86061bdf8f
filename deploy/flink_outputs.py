"""What a service delivered, beside what one index says of the same fingerprints."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from deploy.flink_service import PARTITIONS
from deploy.planted_fingerprints import sequential
from index import Verdict
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings

Said = dict[str, tuple[str, str | None]]
"""Verdict of each document, and the id of its original, by position."""


class Records:
    """Headers of output records, as they come."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.found: list[dict[str, str]] = []

    def wait_for(self, count: int, timeout_seconds: float = 240.0) -> None:
        """Read until there are so many. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.found) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.found)} of {count} outputs after {timeout_seconds:g} s")
            for records in self._consumer.poll(timeout_ms=500).values():
                for record in records:
                    self.found.append({name: value.decode() for name, value in record.headers})


@contextmanager
def reading(settings: Settings) -> Iterator[Records]:
    """All outputs of a service, from the first."""
    topics = (settings.topics.unique, settings.topics.duplicate, settings.topics.dead_letter)
    with KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)])
        consumer.seek_to_beginning()
        yield Records(consumer)


def delivered(records: Sequence[Mapping[str, str]]) -> Said:
    """What outputs say. Raises ValueError where a position is there twice."""
    found = {each["neardup.position"]: (each["neardup.verdict"], each.get("neardup.original.id")) for each in records}
    if len(found) < len(records):
        raise ValueError(f"{len(records) - len(found)} documents were delivered twice")
    return found


def said_by_one_index(settings: Settings, directory: Path) -> Said:
    """What one index says of the fingerprints in the log that it does not know yet; it stays in the directory."""
    parameters = parameters_for(settings, scheme_for(settings).stamp())
    servers, topics = settings.kafka.bootstrap_servers[0], settings.topics
    found = {}
    for (partition, _), batch in sequential(servers, topics.fingerprints, parameters, directory).items():
        for offset, verdict, original in zip(batch.offsets, batch.verdicts, batch.original_ids, strict=True):
            found[f"{topics.input}/{partition}/{offset}"] = Verdict(verdict).label, original
    return found
