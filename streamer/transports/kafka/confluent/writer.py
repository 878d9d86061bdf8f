"""Delivering with confluent-kafka, by the rules in `confluent.reader`."""

import logging
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka.errors import AuthorizationError, TopicAuthorizationFailedError

from streamer.errors import BrokerUnavailable, DeliveryDoubtful, SettingsError
from streamer.records.record import Destination, Handover, Outgoing
from streamer.settings.parts import Part, outputs_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits, Member, too_large
from streamer.transports.kafka.clients import (
    Attempt,
    broker_error,
    let_go,
    output_bytes_max,
    transactional_id,
    within_timeout,
)
from streamer.transports.kafka.confluent.clients import (
    BATCH_BYTES_MAX,
    Lines,
    client_errors,
    make_transactional_producer,
)
from streamer.transports.kafka.confluent.reader import Proof
from streamer.transports.kafka.rights import refusal, rights_of, withheld_in, withheld_on_topics
from streamer.transports.kafka.topics import topic_of
from streamer.transports.kafka.transactions.commit_note import CommitNote
from streamer.transports.kafka.transactions.hanging import producer_of_identity, require_all_ended, take_over

log = logging.getLogger("kafka.confluent")

_ERRORS = (KafkaException,)
_ATTEMPTS_MAX = 3

_dropped: list[Producer] = []


class ConnectionLines(Lines):
    """Log lines of a producer. Counts lost connections, which the client reports at once in no other way."""

    def __init__(self) -> None:
        self.lost = 0

    def log(self, level: int, words: str, facility: str, name: str, line: str) -> None:
        """Take a line of the client."""
        if facility == "STATE" and line.endswith("-> DOWN"):
            self.lost += 1
        super().log(level, words, facility, name, line)


class ConfluentWriter:
    """See `Writer`."""

    def __init__(self, settings: Settings, instance: str, admin: KafkaAdminClient, part: Part | None = None) -> None:
        self._settings = settings
        self._admin = admin
        self._part = part
        self._outputs = outputs_of(settings, part).values()
        self._topics = {each: topic_of(settings, each) for each in (*Destination, *Handover)}
        self._lines = ConnectionLines()
        doing = f"taking over the transactions of instance {instance!r}"
        with client_errors(settings, doing):
            # The client that can inspect transactions ends the predecessor's. The next producer fences that client.
            let_go(take_over(settings, instance, admin, self._outputs))
            self._batch_bytes = min(BATCH_BYTES_MAX, output_bytes_max(admin, self._outputs) or BATCH_BYTES_MAX)
            self.producer = make_transactional_producer(settings, instance, self._batch_bytes, self._lines)
            _dropped.append(self.producer)
            self.producer.init_transactions(settings.kafka.delivery_timeout_ms / 1000)
            self._known = producer_of_identity(settings, admin, transactional_id(settings, instance))
        self._note = CommitNote(settings, instance)
        self._lost_before = -1

    def deliver(self, outgoing: Sequence[Outgoing], commits: Commits, member: Member) -> None:
        """See `Writer`."""
        if not isinstance(member.proof, Proof):
            raise DeliveryDoubtful("the proof of membership is of another client")
        producer, settings = self.producer, self._settings
        try:
            for _ in range(_ATTEMPTS_MAX):
                self._require_all_ended()
                if self._known is not None:
                    self._note.begin(outgoing, self._known)
                producer.begin_transaction()
                if self._fill(outgoing, commits, member.proof):
                    self._note.ask()
                    within_timeout(settings, lambda: producer.commit_transaction(-1), "commit", _ERRORS)
                    self._note.committed(commits)
                    return
                # Nothing is in doubt: no commit was asked for.
                within_timeout(settings, lambda: producer.abort_transaction(-1), "abort", _ERRORS)
        except KafkaException as error:
            raise self._translated(error.args[0], outgoing) from error
        raise DeliveryDoubtful(f"the rebalance did not finish within {_ATTEMPTS_MAX} attempts to commit")

    def close(self) -> None:
        """See `Writer`. The client's own close would wait for the brokers, and abort a doubtful transaction."""
        self.producer.purge(blocking=False)
        self._note.close()

    def _fill(self, outgoing: Sequence[Outgoing], commits: Commits, proof: Proof) -> bool:
        """Add records and offsets to the transaction concurrently; False if the group has just moved on."""
        producer, topic = self.producer, self._settings.topics.input
        metadata = proof.metadata(commits)
        offsets = [TopicPartition(topic, number, offset, note) for number, (offset, note) in commits.items()]
        sending = Attempt(lambda: producer.send_offsets_to_transaction(offsets, metadata, -1), "offsets", _ERRORS)
        self._produce(outgoing)
        try:
            sending.wait(self._settings)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.ILLEGAL_GENERATION:
                raise
            return False
        return True

    def _produce(self, outgoing: Sequence[Outgoing]) -> None:
        """Hand all records to the client, which sends them meanwhile."""
        produce, topics = self.producer.produce, self._topics
        for each in outgoing:
            record = each.record
            # By position: arguments by name cost a tenth of the whole call. The client takes time 0 for the present, so the
            # nearest time replaces it. It accepts headers only as a list.
            headers: list[Any] = [*each.headers]
            partition = record.source.partition if isinstance(each.destination, Handover) else -1
            produce(
                topics[each.destination],
                record.value,
                record.key,
                partition,
                None,
                None,
                record.timestamp_ms or 1,
                headers,
            )

    def _require_all_ended(self) -> None:
        """After a lost connection, and at the first delivery, check that the transaction was ended."""
        self.producer.poll(0)
        if self._lines.lost != self._lost_before and self._known is not None:
            try:
                with client_errors(self._settings, "looking for transactions that the broker forgot"):
                    require_all_ended(self._settings, self._admin, self._known[0], self._outputs)
            except BrokerUnavailable as error:
                raise DeliveryDoubtful(str(error)) from error
        self._lost_before = self._lines.lost

    def _translated(self, error: KafkaError, outgoing: Sequence[Outgoing]) -> SettingsError | DeliveryDoubtful:
        code, words = error.code(), error.str()
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return self._too_large(words, outgoing)
        known = broker_error(code, words)
        if isinstance(known, AuthorizationError):
            return SettingsError(refusal(self._settings, self._withheld(known)))
        return DeliveryDoubtful(words)

    def _withheld(self, error: AuthorizationError) -> str:
        """Message for a missing right. The client does not name the topic."""
        if isinstance(error, TopicAuthorizationFailedError):
            with client_errors(self._settings, "asking what is allowed"):
                withheld = withheld_on_topics(
                    self._admin, [right for right in rights_of(self._settings, self._part) if right.required]
                )
            if withheld:
                return ", ".join(map(str, withheld))
        return withheld_in(self._settings, error, "delivering")

    def _too_large(self, words: str, outgoing: Sequence[Outgoing]) -> SettingsError | DeliveryDoubtful:
        with client_errors(self._settings, "asking what the outputs take"):
            taken = output_bytes_max(self._admin, self._outputs)
        if taken is not None and taken < self._batch_bytes:
            return DeliveryDoubtful(f"an output takes no more than {taken} bytes by now: {words}")
        largest = max(outgoing, key=_size)
        return too_large(f"{words}; the largest, {largest.record.position}, has {_size(largest)} bytes")


def _size(outgoing: Outgoing) -> int:
    record = outgoing.record
    headers = sum(len(name) + len(value or b"") for name, value in outgoing.headers)
    return len(record.value or b"") + len(record.key or b"") + headers
