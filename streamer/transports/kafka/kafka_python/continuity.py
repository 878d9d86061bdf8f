"""Detection of skipped records: compares offsets with requests, and gaps with the log.

Offsets have gaps at transaction ends, aborted records and in compacted topics. Another consumer looks for committed
records in the gap:

    asked for 1094, got 1233 -> look from 1094 on -> 1094 is a record: the client lost it
                                                  -> the next one is 1233: the gap is the log's own

The first record after a start is always compared. Later gaps are checked once in LOOK_SECONDS: every transaction leaves
one.
"""

import time
from collections.abc import Sequence
from itertools import pairwise, starmap
from operator import attrgetter, lt

from kafka import TopicPartition

from streamer.errors import DeliveryDoubtful
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka.topic_reader import TopicReader
from streamer.transports.kafka.unreadable import Damage

LOOK_SECONDS = 1.0
"""Least time between looks into later gaps; a look takes milliseconds."""

_offset_of = attrgetter("offset")


class Continuity:
    """Expected offset per partition, compared with its records."""

    def __init__(self, settings: Settings, reader: TopicReader) -> None:
        self._topic = settings.topics.input
        self._next: dict[int, int] = {}
        self._fresh: set[int] = set()
        self._due_seconds = 0.0
        self._reader = reader

    def begin(self, partition: int, offset: int) -> None:
        """Expect a partition's records from `offset` on."""
        self._next[partition] = offset
        self._fresh.add(partition)

    def follow(self, partition: int, records: Sequence[Record]) -> None:
        """Check the next records of a begun partition.

        Raises DeliveryDoubtful if the client went back or skipped a record, and BrokerUnavailable without an answer.
        """
        if not records:
            return
        offsets = [self._next[partition] - 1, *map(_offset_of, records)]
        if not all(starmap(lt, pairwise(offsets))):
            raise DeliveryDoubtful(
                f"{self._name(partition)}: the client went back below offset {self._next[partition]}"
            )
        is_fresh = partition in self._fresh
        gap = _gap(offsets[:2]) if is_fresh else None
        if gap is None and offsets[-1] - offsets[0] >= len(offsets) and time.monotonic() >= self._due_seconds:
            gap = max(filter(None, map(_gap, pairwise(offsets))), key=len)
        if gap is not None:
            self._look(partition, gap)
            self._due_seconds = time.monotonic() + LOOK_SECONDS
        self._fresh.discard(partition)
        self._next[partition] = records[-1].end

    def forget(self, partition: int) -> None:
        """Expect nothing from a partition."""
        self._next.pop(partition, None)
        self._fresh.discard(partition)

    def _look(self, partition: int, gap: range) -> None:
        """Raise DeliveryDoubtful if the gap has a committed record, or the broker has dropped the gap."""
        at, name = TopicPartition(self._topic, partition), self._name(partition)

        def refuse(_at: TopicPartition, damage: Damage, _end: int) -> None:
            raise DeliveryDoubtful(f"{name}: the client read on at {gap.stop}, and {damage.words}")

        if self._reader.ranges([at])[at].start > gap.start:
            raise DeliveryDoubtful(f"{name}: offset {gap.start} is gone from the log")
        for polled, _ in self._reader.read({at: gap}, refuse):
            if records := polled.get(at):
                raise DeliveryDoubtful(
                    f"{name}: the client passed the record of offset {records[0].offset} over and read on at {gap.stop}"
                )

    def _name(self, partition: int) -> str:
        return f"{self._topic}/{partition}"


def _gap(neighbours: Sequence[int]) -> range | None:
    before, after = neighbours
    return range(before + 1, after) if after > before + 1 else None
