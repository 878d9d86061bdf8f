"""confluent-kafka clients with safe settings, and their errors as kafka-python's.

librdkafka numbers the brokers' errors as the protocol does, and its own below zero. The brokers' become the same kafka-python
errors, so a person reads the same sentence with either client.
"""

import logging
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka.errors import KafkaError as BrokerError
from kafka.errors import RetriableError

from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import (
    broker_error,
    broker_errors,
    heartbeat_interval_ms,
    no_answer,
    refused_settings,
    transactional_id,
)

_log = logging.getLogger("kafka.confluent")
"""Below the other client's logger, so that repeated complaints are held back alike."""

_METADATA_AGE_MS_MAX = 3_000
"""Longest wait until the client sees a partition added to the input."""
_RECONNECT_BACKOFF_MS_MAX = 2_000
_MESSAGE_BYTES_MAX = 1_000_000_000
"""The most that librdkafka sends or takes in one record."""

BATCH_BYTES_MAX = 1_000_000
"""Size of the client's batch for one partition: just below a topic's default max.message.bytes."""

_LINGER_MS_MAX = 1_000
"""Longer than it takes to hand over a batch, so that each partition gets one client batch; the commit sends it at once.

With a second batch for a partition, the client's thread waits in a tight loop for the answer to the first.
"""

_FETCH_BYTES_MAX = 16 * 2**20
_FETCH_PARTITION_BYTES_MAX = 2 * 2**20
_RESPONSE_BYTES_MAX = 2**30
_QUEUE_KBYTES_MAX = 32 * 2**10
"""Prefetch limit: some batches of the largest size by default."""

_QUEUE_BACKOFF_MS = 20
"""Pause of a fetch when the prefetch is full; the client's default of a second would make a fast worker wait."""

_CODES_OF_SILENCE = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
_CODES_OF_LOGIN = {KafkaError._AUTHENTICATION, KafkaError._SSL}

_METADATA_MAGIC = b"CGMDv2:"


class Membership(NamedTuple):
    """librdkafka's serialised group membership."""

    generation: int
    member_id: str


def parse_membership(metadata: bytes) -> Membership | None:
    """Membership from `consumer_group_metadata`; None if the consumer is no member just now.

    librdkafka's format: a mark, the generation as 32 bits, then group and member, each ended by a zero byte.
    """
    if not metadata.startswith(_METADATA_MAGIC):
        raise AssertionError(f"librdkafka tells its membership in a new form: {metadata[:16]!r}")
    at = len(_METADATA_MAGIC)
    (generation,) = struct.unpack_from("=i", metadata, at)
    _, member, *_ = metadata[at + 4 :].split(b"\0")
    return Membership(generation, member.decode()) if generation >= 0 and member else None


class Lines:
    """Log lines of a client, handed over during our calls; warnings go to the log."""

    def log(self, level: int, _words: str, facility: str, _name: str, line: str) -> None:
        """Take a line: `facility` names its subject."""
        if level >= logging.WARNING:
            _log.log(level, "%s: %s", facility, line)


def is_about_login(error: KafkaError) -> bool:
    """Whether a broker may have refused certificate or password."""
    return error.code() in _CODES_OF_LOGIN


def is_passing(error: KafkaError) -> bool:
    """Whether the client goes on by itself."""
    return error.code() < 0 or error.retriable() or isinstance(as_broker_error(error), RetriableError)


@contextmanager
def client_errors(settings: Settings, doing: str) -> Iterator[None]:
    """Like `broker_errors`, for confluent-kafka's errors."""
    with broker_errors(settings, doing), translated():
        yield


@contextmanager
def translated() -> Iterator[None]:
    """Turn confluent-kafka's errors into kafka-python's."""
    try:
        yield
    except KafkaException as error:
        raise as_broker_error(error.args[0]) from error


def as_broker_error(error: KafkaError) -> BrokerError:
    """The same error in kafka-python."""
    words = error.str()
    if error.code() in _CODES_OF_SILENCE | _CODES_OF_LOGIN:
        return no_answer(words)
    if error.code() == KafkaError._INVALID_ARG:
        return refused_settings(words)
    return broker_error(error.code(), words)


def _connection(settings: Settings) -> dict[str, Any]:
    kafka = settings.kafka
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "security.protocol": kafka.security_protocol,
        "socket.timeout.ms": kafka.request_timeout_ms,
        "socket.connection.setup.timeout.ms": max(1_000, kafka.request_timeout_ms),
        "reconnect.backoff.max.ms": _RECONNECT_BACKOFF_MS_MAX,
        "topic.metadata.refresh.interval.ms": _METADATA_AGE_MS_MAX,
        "allow.auto.create.topics": False,
    }
    if kafka.sasl_mechanism is not None:
        options["sasl.mechanism"] = kafka.sasl_mechanism
        options["sasl.username"] = kafka.sasl_username
        options["sasl.password"] = kafka.sasl_password.get_secret_value() if kafka.sasl_password else None
    if kafka.security_protocol.endswith("SSL"):
        # Its own default path differs from Python's, which kafka-python and the handshake use.
        paths = ssl.get_default_verify_paths()
        options["ssl.ca.location"] = str(kafka.ssl_cafile or paths.cafile or paths.capath or "probe")
        if kafka.ssl_certfile is not None:
            options["ssl.certificate.location"] = str(kafka.ssl_certfile)
            options["ssl.key.location"] = str(kafka.ssl_keyfile)
    return options


def make_consumer(
    settings: Settings, instance: str, note_error: Callable[[KafkaError], None], lines: Lines
) -> Consumer:
    """Consumer of the input, a static member of the group. `note_error` takes errors that belong to no call.

    Raises the client's errors; see `client_errors`.
    """
    kafka, batch = settings.kafka, settings.batch
    return Consumer(
        {
            **_connection(settings),
            "client.id": transactional_id(settings, instance),
            "group.id": kafka.group,
            "group.instance.id": instance,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": kafka.session_timeout_ms,
            "heartbeat.interval.ms": heartbeat_interval_ms(settings),
            "max.poll.interval.ms": kafka.max_poll_interval_ms,
            # Even for an input without transactions: only with it does the client fetch stable committed offsets.
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # Off by default, and then damage would be read as a document.
            "check.crcs": True,
            "fetch.wait.max.ms": min(batch.wait_ms, kafka.request_timeout_ms - 1),
            "fetch.max.bytes": _FETCH_BYTES_MAX,
            "fetch.message.max.bytes": _FETCH_PARTITION_BYTES_MAX,
            "receive.message.max.bytes": _RESPONSE_BYTES_MAX,
            "queued.min.messages": 10 * batch.records_max,
            "queued.max.messages.kbytes": _QUEUE_KBYTES_MAX,
            "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
            "error_cb": note_error,
        },
        logger=lines,
    )


def make_transactional_producer(settings: Settings, instance: str, batch_bytes_max: int, lines: Lines) -> Producer:
    """Producer of the outputs. A new one with the same group and instance fences the old one.

    batch_bytes_max  largest batch of records that every output accepts: the client splits none
    lines            takes the client's lines, including those of its connections

    Raises the client's errors; see `client_errors`.
    """
    kafka = settings.kafka
    identity = transactional_id(settings, instance)
    return Producer(
        {
            **_connection(settings),
            "client.id": identity,
            "transactional.id": identity,
            "transaction.timeout.ms": kafka.transaction_timeout_ms,
            "delivery.timeout.ms": kafka.delivery_timeout_ms,
            "compression.type": kafka.compression,
            # Java's hash, as in kafka-python: a key's records stay in their partition, whichever client writes.
            "partitioner": "murmur2_random",
            "batch.size": min(BATCH_BYTES_MAX, batch_bytes_max),
            "linger.ms": min(_LINGER_MS_MAX, kafka.delivery_timeout_ms // 2),
            # Records without a key go to all partitions: else most of a transaction goes to one, in several batches.
            "sticky.partitioning.linger.ms": 0,
            "message.max.bytes": max(1_000, min(_MESSAGE_BYTES_MAX, kafka.request_bytes_max)),
            # A batch of the service is bounded already.
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2**31 - 1,
            "delivery.report.only.error": True,
            # Reports connections, and little else.
            "debug": "broker",
        },
        logger=lines,
    )
