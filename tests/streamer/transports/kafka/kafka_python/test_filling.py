"""A transaction's records come into the same client batches as by `KafkaProducer.send`, and no failed record passes."""

import random
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.partitioner.sticky import StickyPartitioner
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator

from index import Source
from streamer.records.record import Record
from streamer.transports.kafka.client import Send
from streamer.transports.kafka.kafka_python.filling import Filled, Filling
from tests.support.examples import examples
from tests.support.null_values import NULL_VALUE, NullValueSerializer

TOPICS = {"unique": 3, "duplicate": 1}
REFUSED = KafkaError("refused")


class Added:
    """Stands for the client's transaction."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def sequence_number(self, _: object) -> int:
        return 0

    def is_transactional(self) -> bool:
        return True

    def maybe_add_partition_to_transaction(self, at: TopicPartition) -> None:
        self.partitions.add(at)

    def set_sequence_number(self, *_: object) -> None:
        pass


class Offline(KafkaProducer):  # type: ignore[misc]
    """Knows no broker, so it waits for none at its end."""

    def __init__(self) -> None:
        self._closed = False

    def __del__(self) -> None:
        pass


def producer(batch_bytes: int = 400, request_bytes_max: int = 1_000_000) -> Any:
    """A producer of the client without brokers: what it would send stays in its accumulator."""
    found = Offline()
    found._transaction_manager = Added()
    found._accumulator = RecordAccumulator(batch_size=batch_bytes, transaction_manager=found._transaction_manager)
    found._sender = SimpleNamespace(wakeup=lambda: None)
    found._metadata = SimpleNamespace(
        topics=lambda: set(TOPICS),
        partitions_for_topic=lambda topic: set(range(TOPICS[topic])),
        available_partitions_for_topic=lambda topic: set(range(TOPICS[topic])),
    )
    found.config = KafkaProducer.DEFAULT_CONFIG | {
        "partitioner": StickyPartitioner(),
        "value_serializer": NullValueSerializer(),
        "max_request_size": request_bytes_max,
        "api_version": (4, 3),
    }
    return found


def batches_in(client: Any) -> dict[TopicPartition, list[bytes]]:
    """The bytes of each partition's batches, in order."""
    found: dict[TopicPartition, list[bytes]] = {}
    for at, batches in client._accumulator._batches.items():
        for batch in batches:
            batch.records.close()
        if batches:
            found[at] = [bytes(batch.records.buffer()) for batch in batches]
    return found


def send_each(client: Any, sends: list[Send]) -> None:
    """Send as the client's documentation says."""
    for topic, record, headers, partition in sends:
        client.send(
            topic,
            value=NULL_VALUE if record.value is None else record.value,
            key=record.key,
            headers=[(name, value or b"") for name, value in headers],
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )


SENDS = st.lists(
    st.builds(
        lambda topic, key, length, header, partition: Send(
            topic,
            Record(Source("stream", 0), "pages", 7, key, b"x" * length, 1_000 + length),
            (("name", header),),
            None if partition is None else partition % TOPICS[topic],
        ),
        st.sampled_from(list(TOPICS)),
        st.one_of(st.none(), st.binary(max_size=9)),
        st.integers(0, 500),
        st.one_of(st.none(), st.binary(max_size=9)),
        st.one_of(st.none(), st.integers(0, 2)),
    ),
    max_size=30,
)


@examples(100)
@given(SENDS, st.integers(0, 9))
def test_all_records_come_into_the_batches_that_the_client_would_make(sends: list[Send], seed: int) -> None:
    ours, theirs = producer(), producer()
    random.seed(seed)
    filled = Filling(ours).fill(sends)
    random.seed(seed)
    send_each(theirs, sends)
    assert batches_in(ours) == batches_in(theirs)
    # `send` also adds the partition that it turns away from.
    assert ours._transaction_manager.partitions == batches_in(ours).keys() <= theirs._transaction_manager.partitions
    assert {each.batch for each in filled} == ours._accumulator._incomplete._incomplete


def records(count: int, length: int = 20) -> list[Send]:
    return [
        Send("duplicate", Record(Source("stream", 0), "pages", offset, None, b"x" * length, 0), (), None)
        for offset in range(count)
    ]


@pytest.mark.parametrize("length", range(860, 900))
def test_a_record_is_too_large_where_the_client_finds_it_too_large(length: int) -> None:
    refusals = []
    for send_all in (send_each, lambda client, sends: Filling(client).fill(sends)):
        try:
            send_all(producer(request_bytes_max=960), records(1, length))
        except MessageSizeTooLargeError:
            refusals.append(True)
        else:
            refusals.append(False)
    assert refusals[0] == refusals[1]


def test_a_partition_that_a_topic_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="'duplicate' has no partition 1"):
        Filling(producer()).fill([records(1)[0]._replace(partition=1)])


def soon() -> float:
    return time.monotonic() + 0.2


def only_batch(client: Any, count: int) -> tuple[Filled, ProducerBatch]:
    (filled,) = Filling(client).fill(records(count))
    return filled, filled.batch


def test_a_batch_that_is_written_has_no_errors() -> None:
    filled, batch = only_batch(producer(), 3)
    batch.complete(70, -1)
    assert filled.errors(soon()) == []


def test_every_record_of_a_refused_batch_has_its_error() -> None:
    filled, batch = only_batch(producer(), 3)
    batch.complete_exceptionally(REFUSED, lambda place: KafkaError(f"record {place}"))
    assert [str(error) for error in filled.errors(soon())] == [str(KafkaError(f"record {n}")) for n in range(3)]


def test_every_record_of_an_aborted_batch_has_its_error() -> None:
    filled, batch = only_batch(producer(), 2)
    batch.abort(REFUSED)
    assert filled.errors(soon()) == [REFUSED, REFUSED]


def test_a_batch_without_an_end_is_an_error_at_the_deadline() -> None:
    filled, _ = only_batch(producer(), 2)
    with pytest.raises(KafkaTimeoutError):
        filled.errors(soon())


def parts_of(client: Any, batch: ProducerBatch) -> list[ProducerBatch]:
    """The two batches into which the client splits one that a broker found too large."""
    client._accumulator._batches[batch.topic_partition].remove(batch)
    batch.records.close()
    client._accumulator.split_and_reenqueue(batch)
    client._accumulator.deallocate(batch)
    return list(client._accumulator._batches[batch.topic_partition])


def test_a_split_batch_is_written_once_all_its_parts_are() -> None:
    client = producer()
    filled, batch = only_batch(client, 5)
    first, second = parts_of(client, batch)
    first.complete(70, -1)
    with pytest.raises(KafkaTimeoutError):
        filled.errors(soon())
    second.complete(73, -1)
    assert filled.errors(soon()) == []


@pytest.mark.parametrize("failed", [0, 1])
def test_a_part_of_a_split_batch_that_fails_is_no_success(failed: int) -> None:
    client = producer()
    filled, batch = only_batch(client, 5)
    parts = parts_of(client, batch)
    parts[1 - failed].complete(70, -1)
    parts[failed].complete_exceptionally(REFUSED, lambda _: REFUSED)
    assert filled.errors(soon()) == [REFUSED] * parts[failed].record_count


def test_a_part_that_is_split_again_and_fails_is_no_success() -> None:
    client = producer()
    filled, batch = only_batch(client, 8)
    first, second = parts_of(client, batch)
    second.complete(70, -1)
    client._accumulator._batches[batch.topic_partition].remove(second)
    smaller, smallest = parts_of(client, first)
    smaller.complete(74, -1)
    smallest.complete_exceptionally(REFUSED, lambda _: REFUSED)
    assert filled.errors(soon()) == [REFUSED, REFUSED]
