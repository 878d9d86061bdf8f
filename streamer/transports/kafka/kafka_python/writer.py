"""Delivering with kafka-python 3.0.12, by the rules in `transport`."""

import time
from collections.abc import Sequence
from contextlib import suppress

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
from streamer.records.record import Destination, Outgoing
from streamer.settings.parts import writes_between_parts
from streamer.settings.settings import Settings
from streamer.transports.kafka.changelog import topic_of
from streamer.transports.kafka.client import Commits, Member, output_too_large
from streamer.transports.kafka.clients import NULL_VALUE, broker_errors, connections_of, let_go, within_timeout
from streamer.transports.kafka.kafka_python.reader import offsets_of
from streamer.transports.kafka.rights import refusal, withheld_in
from streamer.transports.kafka.transactions.commit_note import CommitNote
from streamer.transports.kafka.transactions.hanging import producer_id_of, producer_of, require_all_ended, take_over


class KafkaPythonWriter:
    """See `Writer`."""

    def __init__(self, settings: Settings, instance: str, admin: KafkaAdminClient) -> None:
        self._settings = settings
        self._admin = admin
        self._topics = {destination: topic_of(settings, destination) for destination in Destination}
        self._connections: frozenset[object] = frozenset()
        with broker_errors(settings, f"taking over the transactions of instance {instance!r}"):
            self.producer: KafkaProducer = take_over(settings, instance, admin)
        self._note = CommitNote(settings, instance)

    def deliver(self, outgoing: Sequence[Outgoing], commits: Commits, member: Member) -> None:
        """See `Writer`."""
        if not isinstance(member.proof, ConsumerGroupMetadata):
            raise DeliveryDoubtful("the proof of membership is of another client")
        offsets, producer = offsets_of(self._settings.topics.input, commits), self.producer
        try:
            self._require_all_ended()
            self._note.begin(outgoing, producer_of(producer))
            producer.begin_transaction()
            self._send(outgoing)
            within_timeout(
                self._settings, lambda: producer.send_offsets_to_transaction(offsets, member.proof), "offsets"
            )
            self._note.ask()
            within_timeout(self._settings, producer.commit_transaction, "commit")
            self._note.committed(commits)
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise output_too_large(error) from error
        except AuthorizationError as error:
            missing = withheld_in(self._settings, error, "delivering")
            raise SettingsError(refusal(self._settings, missing)) from error
        except (KafkaError, ValueError) as error:
            raise DeliveryDoubtful(str(error)) from error

    def close(self) -> None:
        """See `Writer`."""
        let_go(self.producer)
        self._note.close()

    def _require_all_ended(self) -> None:
        """Where a connection was lost since the last delivery, check that its transaction was ended."""
        connections = connections_of(self.producer)
        if not self._connections <= connections:
            require_all_ended(self._settings, self._admin, producer_id_of(self.producer))
        self._connections = connections

    def _send(self, outgoing: Sequence[Outgoing]) -> None:
        """Send, and wait until every record is acknowledged. Raises KafkaError where one is not."""
        producer, topics, stays = self.producer, self._topics, writes_between_parts(self._settings)
        timeout_seconds = self._settings.kafka.delivery_timeout_ms / 1000
        deadline = time.monotonic() + timeout_seconds
        sent = [
            producer.send(
                topics[each.destination],
                value=NULL_VALUE if each.record.value is None else each.record.value,
                key=each.record.key,
                # The client cannot write a header without a value, so the value becomes empty.
                headers=[(name, value or b"") for name, value in each.headers],
                partition=each.record.source.partition if stays else None,
                timestamp_ms=each.record.timestamp_ms,
            )
            for each in outgoing
        ]
        # The client splits a batch of its own that the broker finds too large, and `flush` fails on the unsplit one.
        with suppress(UnknownError):
            producer.flush(timeout=timeout_seconds)
        for future in sent:
            future.get(timeout=max(0.0, deadline - time.monotonic()))
