"""Documents of planted stories, a plain recount of the verdicts on them, and what the topic of stories has to hold.

The recount reads outputs alone: a duplicate's headers name its original. It shares nothing with the index.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

WORDS = 150
HOSTS = 20_000
"""So many that none learns a frame, by which a copy could pass."""

SIZES = (5_000, 2_000, 1_000, 500, 200, 100, 50, 20, 10, 5, 3, 2)
"""Sizes at which a value is written: a story's last value then has all of its documents."""


def documents(sizes: Sequence[int], uniques: int, seed: int = 1) -> list[bytes]:
    """Stories with these sizes and unique documents, shuffled. A copy differs in one word, and has one of HOSTS hosts."""
    random = np.random.default_rng(seed)
    made = []
    for story, size in enumerate([*sizes, *[1] * uniques]):
        words = [f"w{number}" for number in random.integers(0, 10**6, WORDS).tolist()]
        for copy in range(size):
            changed = list(words)
            if copy:
                changed[int(random.integers(WORDS))] = f"w{random.integers(10**6)}"
            identity = f"https://host-{random.integers(HOSTS)}.example/{story}/{copy}"
            made.append({"id": identity, "text": " ".join(changed)})
    return [orjson.dumps(made[place]) for place in random.permutation(len(made))]


@dataclass
class Counted:
    """A root with its duplicates, from their outputs."""

    ids: list[str] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)

    def add(self, identity: str, time_ms: int) -> None:
        """Count a document."""
        self.ids.append(identity)
        self.times_ms.append(time_ms)

    @property
    def value(self) -> dict[str, Any]:
        """The members of the story's value that a recount knows."""
        return {
            "documents": len(self.ids),
            "hosts": len({urlsplit(each).hostname for each in self.ids}),
            "first_seen": _iso(min(self.times_ms)),
            "last_seen": _iso(max(self.times_ms)),
        }


def recount(outputs: Iterable[ConsumerRecord]) -> dict[str, Counted]:
    """Stories with two or more documents by the root's position, from the records of all outputs.

    A root that another worker has decided and not delivered yet has none.
    """
    roots: dict[str, tuple[str, int]] = {}
    members: dict[str, Counted] = {}
    for record in outputs:
        headers = {name: value.decode() for name, value in record.headers if name.startswith("neardup.")}
        document = headers["neardup.id"], record.timestamp
        if headers["neardup.verdict"] == "duplicate":
            members.setdefault(headers["neardup.original.position"], Counted()).add(*document)
        else:
            roots[headers["neardup.position"]] = document
    for position in members.keys() & roots.keys():
        members[position].add(*roots[position])
    return {position: counted for position, counted in members.items() if position in roots}


def latest(stories: Iterable[ConsumerRecord]) -> dict[tuple[str, str], dict[str, Any]]:
    """The last value by the root's position and id, as a compacted topic keeps it."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for record in stories:
        key = orjson.loads(record.key)
        values[key["position"], key["id"]] = orjson.loads(record.value) if record.value else {}
    return {key: value for key, value in values.items() if value}


def problems(counted: Mapping[str, Counted], values: Mapping[tuple[str, str], dict[str, Any]]) -> list[str]:
    """Stories whose last value is not the recount, or that are missing, doubled or invented."""
    found = [
        f"{position} has no root or no value" for position in counted.keys() ^ {position for position, _ in values}
    ]
    if len({position for position, _ in values}) < len(values):
        found.append("a root has two keys")
    for (position, identity), value in values.items():
        story = counted.get(position)
        if story is None:
            continue
        shown = {name: value[name] for name in story.value}
        if shown != story.value or (value["id"], value["position"]) != (identity, position):
            found.append(f"{position}: {shown}, recounted {story.value}")
        if not {value["longest"]["id"], value["newest"]["id"], identity} <= set(story.ids):
            found.append(f"{position}: names a document that is not of the story")
    return found


def committed_records(bootstrap_servers: str, topics: Sequence[str]) -> Iterator[ConsumerRecord]:
    """All committed records of these topics up to their present ends."""
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed", group_id=None)
    ) as consumer:
        partitions = [
            TopicPartition(topic, number) for topic in topics for number in consumer.partitions_for_topic(topic) or ()
        ]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=200, max_records=10_000).values():
                yield from records


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
