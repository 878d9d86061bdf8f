"""Filling kafka-python 3.0.12 with a transaction's records, a client batch at a time.

For each record `KafkaProducer.send` chooses a partition, estimates a size, looks the transaction up, takes five locks and makes
a future. But a broker takes or refuses a client batch as one. So here records are appended to batches of the client's own, and
each full batch is handed over once:

    partition -> open batch of that partition -> append until it is full -> hand over -> the client's thread sends it

A batch has one end for all its records. Only for a split, after a broker found it too large, the client asks for a
future of each.
"""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from streamer.records.record import Headers, Record
from streamer.transports.kafka.client import Send
from streamer.transports.kafka.kafka_python.key_hashes import key_hashes

_FORMAT = 2
_OVERHEAD_BYTES = DefaultRecordBatchBuilder.HEADER_STRUCT.size + DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD


class _Futures(Sequence[FutureRecordMetadata]):
    """Futures of a batch's records, all made once the client asks for one."""

    def __init__(self, result: FutureProduceResult, builder: MemoryRecordsBuilder) -> None:
        # Not the batch: a cycle of references would keep its bytes until the next search for garbage.
        self._result, self._builder = result, builder

    @cached_property
    def made(self) -> list[FutureRecordMetadata]:
        """All futures. The client moves each to its new batch before it wakes who waits for the old one."""
        return [FutureRecordMetadata(self._result, place, None, None, -1, -1, -1) for place in range(len(self))]

    def __len__(self) -> int:
        return int(self._builder.next_offset())

    def __getitem__(self, place: Any) -> Any:
        return self.made[place]


class Filled:
    """A client batch with records for one partition."""

    def __init__(self, producer: KafkaProducer, at: TopicPartition) -> None:
        config = producer._accumulator.config
        self._builder = MemoryRecordsBuilder(_FORMAT, config["compression_attrs"], config["batch_size"])
        self._request_bytes_max: int = producer.config["max_request_size"]
        self.batch = ProducerBatch(at, self._builder)
        self._futures = self.batch._record_futures = _Futures(self.batch.produce_future, self._builder)

    def append(self, record: Record, headers: Headers) -> bool:
        """Append a record; False if the batch is full. Raises MessageSizeTooLargeError as `KafkaProducer.send` does."""
        # The client cannot write a header without a value.
        contents = [(name, value or b"") for name, value in headers]
        written = self._builder.append(record.timestamp_ms, record.key, record.value, contents)
        if written is None:
            return False
        # `send` estimates without the lengths of time and offset, which `written` has.
        if written.size + _OVERHEAD_BYTES > self._request_bytes_max:
            size = DefaultRecordBatchBuilder.estimate_size_in_bytes(record.key, record.value, contents)
            if size > self._request_bytes_max:
                raise MessageSizeTooLargeError(
                    f"the record has {size} bytes, and a request at most {self._request_bytes_max}"
                )
        return True

    def errors(self, deadline: float) -> list[Exception]:
        """Errors of its records, in order, once the end of each is known. Empty if all are written.

        Raises KafkaTimeoutError at `deadline`, in monotonic seconds.
        """
        result = self.batch.produce_future
        if not result.wait(max(0.0, deadline - time.monotonic())):
            raise KafkaTimeoutError(f"no answer for a batch of {len(self._futures)} records within the timeout")
        if result.is_done:
            _, _, error_of = result.value
            return [] if error_of is None else [error_of(place) for place in range(len(self._futures))]
        # The batch was split.
        errors = []
        for future in self._futures.made:
            try:
                future.get(timeout=max(0.0, deadline - time.monotonic()))
            except KafkaError as error:
                if not future.is_done:
                    raise
                errors.append(error)
        return errors


class Filling:
    """Fills one transactional producer with one transaction's records."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self._partitioner = producer.config["partitioner"]
        self._open: dict[TopicPartition, Filled] = {}
        self._sticky: dict[str, TopicPartition] = {}
        self._partitions: dict[str, list[TopicPartition]] = {}
        self._filled: list[Filled] = []

    def fill(self, sends: Sequence[Send]) -> list[Filled]:
        """Hand all records over, to be sent by the next `flush`. Returns the batches with them.

        Raises KafkaError and ValueError, as `KafkaProducer.send`.
        """
        keys = [send.record.key for send in sends if send.partition is None and send.record.key is not None]
        hashes = iter(key_hashes(keys).tolist())
        for topic, record, headers, partition in sends:
            is_free = partition is None and record.key is None
            if is_free:
                at = self._free(topic)
            else:
                at = self._by_hash(topic, next(hashes)) if partition is None else self._by_number(topic, partition)
            if self._has_taken(at, record, headers):
                continue
            if is_free:
                # Records without a key go to another partition with each batch.
                self._partitioner.on_new_batch(topic, self._producer._metadata, at.partition)
                del self._sticky[topic]
                at = self._free(topic)
                if self._has_taken(at, record, headers):
                    continue
            self._begin(at).append(record, headers)
        for at in list(self._open):
            self._hand_over(at)
        return self._filled

    def _has_taken(self, at: TopicPartition, record: Record, headers: Headers) -> bool:
        """Append to the open batch; False without one, or if it is full."""
        batch = self._open.get(at)
        return batch is not None and batch.append(record, headers)

    def _begin(self, at: TopicPartition) -> Filled:
        if at in self._open:
            self._hand_over(at)
        self._producer._transaction_manager.maybe_add_partition_to_transaction(at)
        batch = self._open[at] = Filled(self._producer, at)
        self._filled.append(batch)
        return batch

    def _hand_over(self, at: TopicPartition) -> None:
        """Give the open batch to the client's thread, as the client's accumulator does with a new one."""
        accumulator, batch = self._producer._accumulator, self._open.pop(at).batch
        with accumulator._tp_lock(at):
            if accumulator._closed:
                raise IllegalStateError("the producer is closed")
            accumulator._batches[at].append(batch)
            accumulator._incomplete.add(batch)
        self._producer._sender.wakeup()

    def _free(self, topic: str) -> TopicPartition:
        """The partition that records without a key go to now."""
        at = self._sticky.get(topic)
        if at is None:
            self._partitions_of(topic)
            number = self._partitioner.partition(topic, None, None, None, None, self._producer._metadata)
            at = self._sticky[topic] = TopicPartition(topic, number)
        return at

    def _by_hash(self, topic: str, key_hash: int) -> TopicPartition:
        places = self._partitions_of(topic)
        return places[(key_hash & 0x7FFFFFFF) % len(places)]

    def _by_number(self, topic: str, partition: int) -> TopicPartition:
        try:
            return next(at for at in self._partitions_of(topic) if at.partition == partition)
        except StopIteration:
            raise ValueError(f"topic {topic!r} has no partition {partition}") from None

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions, in order."""
        found = self._partitions.get(topic)
        if found is None:
            numbers = sorted(self._producer.partitions_for(topic))
            found = self._partitions[topic] = [TopicPartition(topic, number) for number in numbers]
        return found
