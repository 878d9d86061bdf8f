"""Producing with kafka-python 3.0.12, by the rules in `transport`."""

import time
from collections.abc import Sequence
from contextlib import suppress

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import UnknownError
from kafka.structs import ConsumerGroupMetadata

from streamer.errors import DeliveryDoubtful
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits, Send
from streamer.transports.kafka.clients import connections_of, drop_producer, within_timeout
from streamer.transports.kafka.kafka_python.filling import Filling
from streamer.transports.kafka.kafka_python.reader import offsets_of
from streamer.transports.kafka.refusals import FINAL
from streamer.transports.kafka.transactions.hanging import producer_of


class KafkaPythonProducer:
    """See `Producer`. It goes on with the client that took over."""

    def __init__(
        self, settings: Settings, _instance: str, _admin: KafkaAdminClient, taken: KafkaProducer, _batch_bytes: int
    ) -> None:
        self._settings = settings
        self._connections: frozenset[object] = frozenset()
        self.client = taken

    @property
    def identity(self) -> tuple[int, int]:
        """See `Producer`."""
        return producer_of(self.client)

    def has_lost_connection(self) -> bool:
        """See `Producer`."""
        before, self._connections = self._connections, connections_of(self.client)
        return not before <= self._connections

    def begin(self) -> None:
        """See `Producer`."""
        self.client.begin_transaction()

    def fill(self, sends: Sequence[Send], commits: Commits, proof: object) -> bool:
        """See `Producer`. Every record is acknowledged before the offsets are sent."""
        if commits and not isinstance(proof, ConsumerGroupMetadata):
            raise DeliveryDoubtful("the proof of membership is of another client")
        self._send(sends)
        if commits:
            offsets, send = offsets_of(self._settings.topics.input, commits), self.client.send_offsets_to_transaction
            within_timeout(self._settings.kafka, lambda: send(offsets, proof), "offsets")
        return True

    def commit(self) -> None:
        """See `Producer`."""
        self.client.commit_transaction()

    def abort(self) -> None:
        """See `Producer`."""
        self.client.abort_transaction()

    def close(self) -> None:
        """See `Producer`."""
        drop_producer(self.client)

    def _send(self, sends: Sequence[Send]) -> None:
        timeout_seconds = self._settings.kafka.delivery_timeout_ms / 1000
        deadline = time.monotonic() + timeout_seconds
        filled = Filling(self.client).fill(sends)
        # The client splits a batch that the broker finds too large; `flush` fails on the unsplit one.
        with suppress(UnknownError):
            self.client.flush(timeout=timeout_seconds)
        errors = [error for batch in filled for error in batch.errors(deadline)]
        if errors:
            # A refused record's neighbours in its batch fail too, without the reason.
            raise next((error for error in errors if isinstance(error, FINAL)), errors[0])
