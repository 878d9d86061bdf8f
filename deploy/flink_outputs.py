"""A service's delivered verdicts, and one index's verdicts on the same fingerprints."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from deploy.flink_service import PARTITIONS
from deploy.planted_fingerprints import BatchVerdicts, OneIndex
from index import Verdict
from streamer.fingerprint.scheme import longer_of, parameters_for, retention_of, scheme_for
from streamer.records.reason import recrawl_by
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
        self._read(lambda: max(0, count - len(self.headers)), count, timeout_seconds, bool)

    def wait_for_all(
        self, positions: Set[str], timeout_seconds: float = 240.0, alive: Callable[[], object] = bool
    ) -> None:
        """Read until each position has an output. Raises TimeoutError; `alive` may raise earlier."""
        missing, read = set(positions), 0

        def count() -> int:
            nonlocal read
            missing.difference_update(each["neardup.position"] for each in self.headers[read:])
            read = len(self.headers)
            return len(missing)

        self._read(count, len(positions), timeout_seconds, alive)

    def _read(self, missing: Callable[[], int], of: int, timeout_seconds: float, alive: Callable[[], object]) -> None:
        deadline = time.monotonic() + timeout_seconds
        while count := missing():
            alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{of - count} of {of} outputs after {timeout_seconds:g} s")
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
    """Verdicts in outputs, without what was given back. Raises ValueError for a repeated position, and one given back twice."""
    verdicts = {
        each["neardup.position"]: (each["neardup.verdict"], each.get("neardup.original.id"))
        for each in headers
        if each["neardup.verdict"] != Verdict.GIVEN_BACK.label
    }
    more = len(headers) - len(verdicts) - len(given_back(headers))
    if more:
        raise ValueError(f"{more} documents were delivered twice")
    return verdicts


def given_back(headers: Sequence[Mapping[str, str]]) -> Set[str]:
    """Positions of what was given back."""
    return {each["neardup.position"] for each in headers if each["neardup.verdict"] == Verdict.GIVEN_BACK.label}


def one_index(settings: Settings, directory: Path) -> OneIndex:
    """One index that decides a service's fingerprints. It stays in the directory."""
    return OneIndex(
        settings.kafka.bootstrap_servers[0],
        settings.topics.fingerprints,
        parameters_for(settings, scheme_for(settings).stamp()),
        directory,
        longer=longer_of(settings.index),
        recrawl=recrawl_by(settings.index.recrawl),
        retention=retention_of(settings.index),
    )


def by_position(settings: Settings, verdicts: Mapping[tuple[int, int], BatchVerdicts]) -> VerdictsByPosition:
    """One index's verdicts in the form of delivered ones."""
    return {
        f"{settings.topics.input}/{partition}/{offset}": (Verdict(verdict).label, original)
        for (partition, _), batch in verdicts.items()
        for offset, verdict, original in zip(batch.offsets, batch.verdicts, batch.original_ids, strict=True)
    }


def decided_by_one_index(settings: Settings, directory: Path) -> VerdictsByPosition:
    """One index's verdicts on the topic's new fingerprints. The index stays in the directory."""
    with one_index(settings, directory) as index:
        return by_position(settings, index.decide())
