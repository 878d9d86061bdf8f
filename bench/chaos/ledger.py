"""What went in and what came out, read from the topics as it happens, and what does not fit together."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from deploy.kafka_run import DESTINATIONS, Run

POSITION = "neardup.position"

Place = tuple[int, int]
"""Partition and offset in the input."""


class Ledger:
    """Read-committed reader of the input and of the outputs of a run. For one thread; a context manager."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._consumer = KafkaConsumer(
            bootstrap_servers=run.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=None,
            reconnect_backoff_max_ms=300,
            request_timeout_ms=5_000,
            max_poll_records=5_000,
        )
        self._read: dict[TopicPartition, int] = {}
        self._inputs: dict[Place, tuple[int, float]] = {}
        """Digests of the records that have not come out yet, and when they were seen; the oldest first."""
        self._came_early: dict[Place, int] = {}
        """Digests of what came out before it was seen going in."""
        self._delivered: dict[int, float] = {}
        """When the last output of each input partition was seen."""
        self.outputs: dict[Place, tuple[str, int]] = {}
        """Destination, and digest of the value, key and headers of the filter, of all that came out."""
        self.inputs = 0
        self.problems: list[str] = []

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def follow(self, partitions: int) -> None:
        """Read this many partitions of the input, and all of the outputs."""
        wanted = [TopicPartition(self._run.input_topic, partition) for partition in range(partitions)]
        for destination in DESTINATIONS:
            topic = self._run.topic(destination)
            wanted += [
                TopicPartition(topic, partition) for partition in self._consumer.partitions_for_topic(topic) or ()
            ]
        self._consumer.assign(wanted)

    def poll(self, timeout_ms: int = 50) -> None:
        """Read on, and note what does not fit together."""
        for at, records in self._consumer.poll(timeout_ms=timeout_ms).items():
            # A reader that lost its place begins again, and must not take that for doubles.
            fresh = [record for record in records if record.offset > self._read.get(at, -1)]
            for record in fresh:
                self._take(record)
            if fresh:
                self._read[at] = fresh[-1].offset

    def _take(self, record: Any) -> None:
        content = hash((record.key, record.value))
        if record.topic == self._run.input_topic:
            place = record.partition, record.offset
            self.inputs += 1
            if (early := self._came_early.pop(place, None)) is None:
                self._inputs[place] = content, time.monotonic()
            elif early != content:
                self.problems.append(f"{place} came out with other bytes")
            return
        own = {key: value for key, value in record.headers if key.startswith("neardup.")}
        _, partition, offset = own[POSITION].decode().rsplit("/", 2)
        place = int(partition), int(offset)
        self._delivered[place[0]] = time.monotonic()
        destination = record.topic.removeprefix(f"{self._run.name}-")
        if place in self.outputs:
            self.problems.append(f"{place} came out as {self.outputs[place][0]}, and again as {destination}")
            return
        self.outputs[place] = destination, hash((content, tuple(sorted(own.items()))))
        if (expected := self._inputs.pop(place, None)) is None:
            self._came_early[place] = content
        elif expected[0] != content:
            self.problems.append(f"{place} came out with other bytes")

    def oldest_waiting(self) -> tuple[Place, float] | None:
        """See `longest_without_output`."""
        return longest_without_output({place: seen for place, (_, seen) in self._inputs.items()}, self._delivered)

    def lacks(self, marks: Mapping[int, int]) -> list[Place]:
        """Places up to the marks (last offset by partition) that have not gone in, or not come out; a few at most."""
        unread = [
            (partition, offset)
            for partition, offset in marks.items()
            if self._read.get(TopicPartition(self._run.input_topic, partition), -1) < offset
        ]
        waiting = [place for place in self._inputs if place[1] <= marks.get(place[0], -1)]
        return sorted(unread + waiting)[:10]

    def unfinished(self) -> list[str]:
        """What is wrong once all that went in should have come out."""
        lost = [f"{place} never came out" for place in sorted(self._inputs)]
        strange = [f"{place} came out and never went in" for place in sorted(self._came_early)]
        return lost + strange


def longest_without_output(
    waiting: Mapping[Place, float], delivered: Mapping[int, float]
) -> tuple[Place, float] | None:
    """First waiting place of the partition that stands still longest, and since when.

    A partition stands still from the moment at which that place went in, or from its last output if that came later: a
    service that works through a backlog makes progress.

    waiting    moments at which places went in, the oldest first
    delivered  moment of the last output by partition
    """
    firsts: dict[int, tuple[Place, float]] = {}
    for place, seen in waiting.items():
        if place[0] not in firsts:
            firsts[place[0]] = place, max(seen, delivered.get(place[0], seen))
    return min(firsts.values(), key=lambda first: first[1], default=None)


def differences(one: Ledger, other: Ledger) -> list[str]:
    """Places that came out of two runs in different ways: to another destination, or with another verdict in the headers."""
    found = []
    for place in sorted(one.outputs.keys() | other.outputs.keys()):
        disturbed, undisturbed = one.outputs.get(place), other.outputs.get(place)
        if disturbed != undisturbed:
            words = [each[0] if each else "missing" for each in (undisturbed, disturbed)]
            found.append(
                f"{place}: {words[0]} undisturbed, {words[1]} disturbed" + " or other headers" * (words[0] == words[1])
            )
    return found


def totals(ledger: Ledger) -> dict[str, int]:
    """Outputs by destination."""
    found: Sequence[str] = [destination for destination, _ in ledger.outputs.values()]
    return {destination.replace("-", "_"): found.count(destination) for destination in DESTINATIONS}
