"""Delivering with kafka-python 3.0.12, by the rules in `transport`."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownError,
)
from kafka.structs import ConsumerGroupMetadata

from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Destination, Handover, Headers, Outgoing, Record
from streamer.settings.parts import Part, outputs_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits, Member, too_large
from streamer.transports.kafka.clients import NULL_VALUE, broker_errors, connections_of, let_go, within_timeout
from streamer.transports.kafka.kafka_python.reader import offsets_of
from streamer.transports.kafka.rights import refusal, withheld_in
from streamer.transports.kafka.topics import topic_of
from streamer.transports.kafka.transactions.commit_note import CommitNote
from streamer.transports.kafka.transactions.hanging import producer_id_of, producer_of, require_all_ended, take_over


class Send(NamedTuple):
    """A record to send with these headers; `partition` None: the client chooses."""

    topic: str
    record: Record
    headers: Headers
    partition: int | None


@contextmanager
def delivery_errors(settings: Settings) -> Iterator[None]:
    """Turn the client's errors into DeliveryDoubtful, or SettingsError if no retry helps."""
    try:
        yield
    except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
        raise too_large(error) from error
    except AuthorizationError as error:
        raise SettingsError(refusal(settings, withheld_in(settings, error, "delivering"))) from error
    except (KafkaError, ValueError) as error:
        raise DeliveryDoubtful(str(error)) from error


def send_all(settings: Settings, producer: KafkaProducer, sends: Iterable[Send]) -> None:
    """Send, and wait until every record is acknowledged. Raises KafkaError if one is not."""
    timeout_seconds = settings.kafka.delivery_timeout_ms / 1000
    deadline = time.monotonic() + timeout_seconds
    sent = [
        producer.send(
            topic,
            value=NULL_VALUE if record.value is None else record.value,
            key=record.key,
            # The client cannot write a header without a value, so the value becomes empty.
            headers=[(name, value or b"") for name, value in headers],
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for topic, record, headers, partition in sends
    ]
    # The client splits a batch that the broker finds too large, and `flush` fails on the unsplit one.
    with suppress(UnknownError):
        producer.flush(timeout=timeout_seconds)
    for future in sent:
        future.get(timeout=max(0.0, deadline - time.monotonic()))


class KafkaPythonWriter:
    """See `Writer`."""

    def __init__(self, settings: Settings, instance: str, admin: KafkaAdminClient, part: Part | None = None) -> None:
        self._settings = settings
        self._admin = admin
        self._outputs = outputs_of(settings, part).values()
        self._topics = {each: topic_of(settings, each) for each in (*Destination, *Handover)}
        self._connections: frozenset[object] = frozenset()
        with broker_errors(settings, f"taking over the transactions of instance {instance!r}"):
            self.producer: KafkaProducer = take_over(settings, instance, admin, self._outputs)
        self._note = CommitNote(settings, instance)

    def deliver(self, outgoing: Sequence[Outgoing], commits: Commits, member: Member) -> None:
        """See `Writer`."""
        if not isinstance(member.proof, ConsumerGroupMetadata):
            raise DeliveryDoubtful("the proof of membership is of another client")
        offsets, producer = offsets_of(self._settings.topics.input, commits), self.producer
        with delivery_errors(self._settings):
            self._require_all_ended()
            self._note.begin(outgoing, producer_of(producer))
            producer.begin_transaction()
            send_all(self._settings, producer, map(self._send, outgoing))
            within_timeout(
                self._settings, lambda: producer.send_offsets_to_transaction(offsets, member.proof), "offsets"
            )
            self._note.ask()
            within_timeout(self._settings, producer.commit_transaction, "commit")
            self._note.committed(commits)

    def close(self) -> None:
        """See `Writer`."""
        let_go(self.producer)
        self._note.close()

    def _require_all_ended(self) -> None:
        """After a lost connection, check that the last transaction was ended."""
        connections = connections_of(self.producer)
        if not self._connections <= connections:
            require_all_ended(self._settings, self._admin, producer_id_of(self.producer), self._outputs)
        self._connections = connections

    def _send(self, outgoing: Outgoing) -> Send:
        record, destination = outgoing.record, outgoing.destination
        partition = record.source.partition if isinstance(destination, Handover) else None
        return Send(self._topics[destination], record, outgoing.headers, partition)
