"""Records that kafka-python cannot parse: reads odd header names, and notes damage by offset.

The client raises on both, and keeps the failed batch's parser: its next poll would spin on it for ever. This module
refetches a damaged batch while other partitions go on; `Damages.lasting` returns what stayed damaged.
"""

import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import snappy
import zstandard
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord, Fetcher
from kafka.errors import CorruptRecordError, KafkaError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

from streamer.errors import RecordsUnreadable
from streamer.settings.settings import Settings

FETCHES_MIN = 3
"""Fetches with the same damage before it counts as lasting: the transfer may corrupt one."""

LASTING_SECONDS = 2.0
"""Shortest time over which those fetches are spread."""

_PARSER_ERRORS = (
    *(KafkaError, ValueError, IndexError, RuntimeError, OSError, EOFError),
    *(struct.error, zlib.error, zstandard.ZstdError, snappy.UncompressError),
)
"""Errors of the client's parser and decompressors on invalid bytes."""


class HeaderName(str):
    """Header name outside UTF-8: odd bytes become lone surrogates, and the producer gets the bytes back.

    >>> HeaderName(b"caf\\xe9", "utf-8", "surrogateescape").encode()
    b'caf\\xe9'
    """

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        """The original bytes, whatever the arguments: the client asks for strict UTF-8."""
        return super().encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Damage:
    """Unreadable records of a partition.

    end            offset after the last; None if the damage hides it
    why            the parser's words
    fetches        how many fetches had the damage
    since_seconds  monotonic time of the first

    >>> Damage(5, 8, "a checksum does not match").offsets
    'the records of offsets 5 to 7'
    """

    first: int
    end: int | None
    why: str
    fetches: int = 1
    since_seconds: float = 0.0

    @property
    def offsets(self) -> str:
        """The offsets in words."""
        if self.end is None:
            return f"the records from offset {self.first} on"
        return (
            f"the records of offsets {self.first} to {self.end - 1}"
            if self.end > self.first + 1
            else (f"the record of offset {self.first}")
        )

    @property
    def words(self) -> str:
        """The records, and why they are unreadable, in words."""
        return f"{self.offsets} cannot be read: {self.why}"


class Damages:
    """A consumer's damage, by partition.

    >>> damages, at = Damages(), TopicPartition("pages", 0)
    >>> damages.note(at, 5, 8, "a checksum does not match")
    >>> [damage.offsets for _, damage in damages.unrefuted({})]
    ['the records of offsets 5 to 7']
    """

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, Damage] = {}

    def note(self, partition: TopicPartition, first: int, end: int | None, why: str) -> None:
        """Note the damage of one fetch."""
        earlier = self._by_partition.get(partition)
        if earlier is not None and earlier.first == first:
            # A later fetch begins at the damage, and sees what follows it.
            self._by_partition[partition] = replace(earlier, end=end, why=why, fetches=earlier.fetches + 1)
        else:
            self._by_partition[partition] = Damage(first, end, why, since_seconds=time.monotonic())

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition's damage."""
        self._by_partition.pop(partition, None)

    def unrefuted(
        self, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]]
    ) -> list[tuple[TopicPartition, Damage]]:
        """Damage that `polled`, the newest records, does not refute; forgets the rest."""
        for partition, records in polled.items():
            if (
                partition in self._by_partition
                and records
                and records[-1].offset >= self._by_partition[partition].first
            ):
                self.forget(partition)
        return list(self._by_partition.items())

    def lasting(self, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> list[tuple[TopicPartition, Damage]]:
        """Unrefuted damage, seen by enough fetches over enough time."""
        return [
            (partition, damage)
            for partition, damage in self.unrefuted(polled)
            if damage.fetches >= FETCHES_MIN and time.monotonic() - damage.since_seconds >= LASTING_SECONDS
        ]


class TolerantConsumer(KafkaConsumer):  # type: ignore[misc]
    """Consumer that reads odd header names, and notes damage in `damages` instead of raising."""

    def __init__(self, *topics: str, **options: Any) -> None:
        super().__init__(*topics, **options)
        self.damages = Damages()
        fetcher = self._fetcher
        fetcher.PartitionRecords = partial(_NotingRecords, self.damages)
        parse = fetcher._parse_fetched_data

        def parse_or_note(fetch: Any) -> Any:
            if problem := _defect_of(fetch.partition_data):
                self.damages.note(fetch.topic_partition, fetch.fetched_offset, None, problem)
                return None
            return parse(fetch)

        fetcher._parse_fetched_data = parse_or_note

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Like the client's, but drops records that were fetched before a pause at an earlier position.

        The client would keep them, and might never return to the partition.
        """
        super().seek(partition, offset)
        self._fetcher._paused_partition_records.pop(partition, None)


def _defect_of(fetched: Any) -> str:
    """Why a broker's whole answer for a partition is unreadable; "" if it is readable."""
    if fetched.error_code == CorruptRecordError.errno:
        # The client would silently ask again for ever.
        return "the broker says that its log is damaged there"
    if fetched.error_code == 0 and fetched.records and not MemoryRecords(fetched.records).has_next():
        return "the broker sent a batch that is longer than what it sent"
    return ""


def end_of_damage(settings: Settings, consumer: KafkaConsumer, partition: TopicPartition, damage: Damage) -> int:
    """Offset after lasting damage.

    Raises RecordsUnreadable if `recovery.unreadable` is to stop, or the offset is unknown.
    """
    known_end = consumer.highwater(partition)
    if damage.end is None or known_end is None or damage.end > known_end:
        what_to_do = (
            "The end of the damage is unknown, so it cannot be skipped: mend the broker's log, or set the group's offset "
            "behind the damage by hand (kafka-consumer-groups.sh --reset-offsets)."
        )
    elif settings.recovery.unreadable == "stop":
        what_to_do = (
            "If another replica is sound, make that the leader. Or set recovery.unreadable = 'skip' to go on at offset "
            f"{damage.end}: a dead letter will name what was skipped."
        )
    else:
        return damage.end
    raise RecordsUnreadable(
        f"{partition.topic}/{partition.partition}: {damage.offsets} cannot be read, by {damage.fetches} fetches: {damage.why}. "
        f"Nothing is lost yet. {what_to_do}"
    )


class _NotingRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """One fetch of a partition; unparsable records end it with a note."""

    def __init__(self, damages: Damages, *arguments: Any, **options: Any) -> None:
        self._damages = damages
        super().__init__(*arguments, **options)

    def _unpack_records(
        self, tp: TopicPartition, records: MemoryRecords, *deserializers: Any
    ) -> Iterator[ConsumerRecord]:
        batches = _Batches(records)
        try:
            yield from super()._unpack_records(tp, batches, *deserializers)
        except _PARSER_ERRORS as error:
            first: int = max(self.fetch_offset, self.next_fetch_offset)  # type: ignore[has-type]
            self._damages.note(tp, first, batches.end_of_damage(first), str(error))
            # The client takes this for its read position, and fetches from there next.
            self.next_fetch_offset = first
            self.drain()


class _Batches:
    """Batches for the client's parser; knows the current one."""

    def __init__(self, records: MemoryRecords) -> None:
        self._records = records
        self._under_way: DefaultRecordBatch | None = None

    def next_batch(self) -> Any:
        self._under_way = None
        batch = self._records.next_batch()
        if type(batch) is DefaultRecordBatch:
            batch.__class__ = _AnyNames
            self._under_way = batch
        return batch

    def end_of_damage(self, first: int) -> int | None:
        """Offset after the current damaged batch; None if uncertain.

        A sound batch right after it proves the offset. Else two of its own fields must agree.
        """
        batch = self._under_way
        try:
            following = self._records.next_batch()
        except _PARSER_ERRORS:
            following = None
        if type(following) is DefaultRecordBatch and following.validate_crc() and following.base_offset > first:
            return int(following.base_offset)
        if batch is None or batch.records_count != batch.last_offset_delta + 1:
            return None
        return int(batch.next_offset) if batch.base_offset <= first < batch.next_offset else None


class _AnyNames(DefaultRecordBatch):  # type: ignore[misc]
    __slots__ = ()

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except CorruptRecordError as error:
            if not isinstance(error.__context__, UnicodeDecodeError):
                raise
            # The parser is back at the start of the record.
            self._buffer = _NamesByBytes(self._buffer)  # type: ignore[misc, has-type]
            return super().__next__()


class _NamesByBytes(bytearray):
    """Buffer whose slices decode to a HeaderName if they are not UTF-8."""

    def __getitem__(self, key: Any) -> Any:
        content = super().__getitem__(key)
        return _NameBytes(content) if isinstance(key, slice) else content


class _NameBytes(bytearray):
    def decode(self, *_: Any) -> str:
        try:
            return super().decode()
        except UnicodeDecodeError:
            return HeaderName(super().decode(errors="surrogateescape"))
