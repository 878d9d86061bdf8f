"""Producing with confluent-kafka, by the rules in `confluent.reader`."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import IllegalGenerationError

from streamer.errors import DeliveryDoubtful
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits, Send
from streamer.transports.kafka.clients import Attempt, drop_producer
from streamer.transports.kafka.confluent.clients import Lines, make_transactional_producer, translated
from streamer.transports.kafka.confluent.reader import Proof
from streamer.transports.kafka.rights import transactional_id
from streamer.transports.kafka.transactions.hanging import described

_dropped: list[Producer] = []


class ConnectionLines(Lines):
    """A producer's log lines, the only prompt sign of a lost connection."""

    def __init__(self) -> None:
        self.lost = 0

    def log(self, level: int, words: str, facility: str, name: str, line: str) -> None:
        """Take a client's line."""
        if facility == "STATE" and line.endswith("-> DOWN"):
            self.lost += 1
        super().log(level, words, facility, name, line)


class ConfluentProducer:
    """See `Producer`. Fences the kafka-python client that ended the predecessor's transactions."""

    def __init__(
        self, settings: Settings, instance: str, admin: KafkaAdminClient, taken: KafkaProducer, batch_bytes: int
    ) -> None:
        self._settings = settings
        self._lines = ConnectionLines()
        self._lost_before = -1
        drop_producer(taken)
        with translated():
            self.client = make_transactional_producer(settings, instance, batch_bytes, self._lines)
            _dropped.append(self.client)
            self.client.init_transactions(settings.kafka.delivery_timeout_ms / 1000)
        last = described(settings, admin, transactional_id(settings.kafka, instance))
        self.identity = None if last is None else (last.producer_id, last.producer_epoch)

    def has_lost_connection(self) -> bool:
        """See `Producer`. True at the first call."""
        with translated():
            self.client.poll(0)
        before, self._lost_before = self._lost_before, self._lines.lost
        return before != self._lost_before

    def begin(self) -> None:
        """See `Producer`."""
        with translated():
            self.client.begin_transaction()

    def fill(self, sends: Sequence[Send], commits: Commits, proof: object) -> bool:
        """See `Producer`. Sends records and offsets concurrently."""
        if not isinstance(proof, Proof):
            raise DeliveryDoubtful("the proof of membership is of another client")
        metadata, topic = proof.metadata(commits), self._settings.topics.input
        offsets = [TopicPartition(topic, number, offset, note) for number, (offset, note) in commits.items()]

        def send_offsets() -> None:
            with translated():
                try:
                    self.client.send_offsets_to_transaction(offsets, metadata, -1)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError._STATE:
                        raise
                    # A record was refused during the call. Only the next call names that error.
                    self.client.send_offsets_to_transaction(offsets, metadata, -1)

        sending = Attempt(send_offsets, "offsets")
        with translated():
            self._produce(sends)
        try:
            sending.wait(self._settings.kafka)
        except IllegalGenerationError:
            return False
        return True

    def commit(self) -> None:
        """See `Producer`."""
        with translated():
            self.client.commit_transaction(-1)

    def abort(self) -> None:
        """See `Producer`."""
        with translated():
            self.client.abort_transaction(-1)

    def close(self) -> None:
        """See `Producer`. The client's own close would wait, and abort a doubtful transaction."""
        self.client.purge(blocking=False)

    def _produce(self, sends: Sequence[Send]) -> None:
        produce = self.client.produce
        for topic, record, headers, partition in sends:
            # By position: names cost a tenth of the whole call. The client takes time 0 for the present, so the nearest time
            # replaces it. It accepts headers only as a list.
            listed: list[Any] = [*headers]
            produce(
                topic,
                record.value,
                record.key,
                -1 if partition is None else partition,
                None,
                None,
                record.timestamp_ms or 1,
                listed,
            )
