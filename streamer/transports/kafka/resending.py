"""Sending once more over Kafka: a transaction a batch, under a transactional id of its own, without offsets."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import AuthorizationError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError, UnknownError

from index import Position, Source
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Record
from streamer.records.told import told_by
from streamer.settings.settings import Settings
from streamer.transports.evidence import Output
from streamer.transports.kafka.changelog import as_record, awaited, read_stretches, topic_of, whole_ends
from streamer.transports.kafka.clients import (
    NULL_VALUE,
    broker_errors,
    let_go,
    make_admin,
    make_changelog_consumer,
    require_fast_checksums,
    within_timeout,
)
from streamer.transports.kafka.rights import refusal, withheld_in
from streamer.transports.kafka.topics import claims_of_group, require_topics
from streamer.transports.kafka.transactions.hanging import producer_id_of, require_all_ended, take_over
from streamer.transports.resending import Way
from streamer.transports.transport import Claim


class KafkaResending:
    """See `Resending`."""

    def __init__(self, settings: Settings, way: Way) -> None:
        self._settings = settings
        self._way = way
        # Among the transactional ids that the service's user may use.
        self._instance = f"{settings.kafka.instance}-{way.name}"
        self._target = settings.topics.input if way.target is None else topic_of(settings, way.target)
        self._admin: KafkaAdminClient | None = None
        self._producer: KafkaProducer | None = None

    def open(self, *, to_send: bool) -> None:
        """See `Resending`."""
        require_fast_checksums()
        require_topics(self._settings, to_read=not to_send)
        if to_send:
            with broker_errors(self._settings, "connecting"):
                self._admin = make_admin(self._settings)
            with broker_errors(self._settings, f"taking over the transactions of {self._instance!r}"):
                self._producer = take_over(self._settings, self._instance, self._admin, [self._target])

    def claims(self) -> Mapping[Source, Claim]:
        """See `Resending`."""
        return claims_of_group(self._settings)

    def outputs(self, since_ms: int | None) -> Iterator[list[Output]]:
        """See `Resending`. Waits for transactions that are open."""
        for at, records in self._records(topic_of(self._settings, self._way.origin), since_ms):
            found = []
            for each in records:
                told = told_by(tuple(each.headers), self._way.origin)
                topic, position = self._settings.topics.input, told.position
                record = None if position is None else as_record(topic, position, each)
                found.append(Output(self._way.origin, f"{at.topic}/{at.partition}", each.offset, told, record))
            yield found

    def sent(self, since_ms: int | None) -> Iterator[list[Position]]:
        """See `Resending`."""
        for _, records in self._records(self._target, since_ms):
            positions = (self._way.position(tuple(record.headers)) for record in records)
            yield [position for position in positions if position is not None]

    def send(self, records: Sequence[Record]) -> None:
        """See `Resending`. Nothing is under way at the commit, for every record was acknowledged by then."""
        assert self._producer is not None, "opened to send"
        assert self._admin is not None, "opened to send"
        producer, settings = self._producer, self._settings
        try:
            require_all_ended(settings, self._admin, producer_id_of(producer), [self._target])
            producer.begin_transaction()
            self._send(producer, records)
            within_timeout(settings, producer.commit_transaction, "commit")
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise SettingsError(
                f"a record is larger than {self._target!r} or the broker takes ({error}): raise its max.message.bytes, or "
                "kafka.request_bytes_max"
            ) from error
        except AuthorizationError as error:
            raise SettingsError(refusal(settings, withheld_in(settings, error, "delivering"))) from error
        except (KafkaError, ValueError) as error:
            raise DeliveryDoubtful(
                f"{len(records)} records may not have arrived in {self._target!r}: {error}. Run the command again: it sends "
                "what is missing, and nothing twice."
            ) from error

    def close(self) -> None:
        """See `Resending`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            let_go(producer)
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(KafkaError, OSError, RuntimeError):
                admin.close()

    def _send(self, producer: KafkaProducer, records: Sequence[Record]) -> None:
        timeout_seconds = self._settings.kafka.delivery_timeout_ms / 1000
        deadline = time.monotonic() + timeout_seconds
        under_way = [
            producer.send(
                self._target,
                value=NULL_VALUE if record.value is None else record.value,
                key=record.key,
                headers=[(name, value or b"") for name, value in record.headers],
                partition=None,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        with suppress(UnknownError):
            producer.flush(timeout=timeout_seconds)
        for future in under_way:
            future.get(timeout=max(0.0, deadline - time.monotonic()))

    def _records(self, topic: str, since_ms: int | None) -> Iterator[tuple[TopicPartition, list[ConsumerRecord]]]:
        with broker_errors(self._settings, f"connecting to read {topic!r}"):
            consumer = make_changelog_consumer(self._settings)
        with closing(consumer):
            for polled, _ in read_stretches(self._settings, consumer, self._stretches(consumer, topic, since_ms)):
                yield from polled.items()

    def _stretches(self, consumer: KafkaConsumer, topic: str, since_ms: int | None) -> dict[TopicPartition, range]:
        timeout_ms = self._settings.kafka.request_timeout_ms
        with broker_errors(self._settings, f"looking up the offsets of {topic!r}"):
            partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
        ends = awaited(whole_ends(self._settings, consumer, partitions))
        with broker_errors(self._settings, f"looking up the offsets of {topic!r}"):
            firsts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
            if since_ms is not None:
                # The first that is not before, be it a record or an end of a transaction: all that are not before stand behind.
                asked = dict.fromkeys(partitions, max(0, since_ms))
                found = consumer.offsets_for_times(asked, timeout_ms=timeout_ms)
                firsts = {at: max(firsts[at], ends[at] if found[at] is None else found[at].offset) for at in partitions}
        return {at: range(firsts[at], max(firsts[at], ends[at])) for at in partitions}
