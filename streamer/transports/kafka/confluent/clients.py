"""confluent-kafka clients with safe settings, and kafka-python's errors.

librdkafka numbers the brokers' errors as the protocol does, and its own below zero. The brokers' become
kafka-python's, so both clients give the same messages.
"""

import logging
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka.errors import KafkaConfigurationError, KafkaTimeoutError, RetriableError, UnknownError, for_code
from kafka.errors import KafkaError as BrokerError

from streamer.settings.kafka import Kafka
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients
from streamer.transports.kafka.rights import transactional_id

_log = logging.getLogger("kafka.confluent")
"""Below the other client's logger, so that repeated complaints are held back alike."""

_MESSAGE_BYTES_MAX = 1_000_000_000
"""librdkafka's limit for one record."""

_RESPONSE_BYTES_MAX = 2**30
_QUEUE_KBYTES_MAX = 32 * 2**10
"""Prefetch limit: several batches of the default size limit."""

_QUEUE_BACKOFF_MS = 20
"""Pause after a full prefetch; the default, a second, would stall a fast worker."""

_CODES_OF_SILENCE = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
CODES_OF_LOGIN = {KafkaError._AUTHENTICATION, KafkaError._SSL}
"""A broker may have refused the certificate or the password."""

_METADATA_MAGIC = b"CGMDv2:"


class Membership(NamedTuple):
    """librdkafka's serialised group membership.

    >>> parse_membership(b"CGMDv2:" + struct.pack("=i", 3) + b"group\\0member\\0").generation
    3
    """

    generation: int
    member_id: str


def parse_membership(metadata: bytes) -> Membership | None:
    """Membership from `consumer_group_metadata`; None without one.

    librdkafka's format: a mark, the generation as 32 bits, then group and member, each ended by a zero byte.
    """
    if not metadata.startswith(_METADATA_MAGIC):
        raise AssertionError(f"librdkafka tells its membership in a new form: {metadata[:16]!r}")
    at = len(_METADATA_MAGIC)
    (generation,) = struct.unpack_from("=i", metadata, at)
    _, member, *_ = metadata[at + 4 :].split(b"\0")
    return Membership(generation, member.decode()) if generation >= 0 and member else None


class Lines:
    """A client's log lines; warnings go to the log."""

    def log(self, level: int, _words: str, facility: str, _name: str, line: str) -> None:
        """Take a line about the subject `facility`."""
        if level >= logging.WARNING:
            _log.log(level, "%s: %s", facility, line)


def is_passing(error: KafkaError) -> bool:
    """Whether the client recovers by itself."""
    return error.code() < 0 or error.retriable() or isinstance(as_broker_error(error), RetriableError)


@contextmanager
def client_errors(settings: Settings, doing: str) -> Iterator[None]:
    """Like `broker_errors`, for confluent-kafka's errors."""
    with clients.broker_errors(settings, doing), translated():
        yield


@contextmanager
def translated() -> Iterator[None]:
    """Translate confluent-kafka's errors into kafka-python's."""
    try:
        yield
    except KafkaException as error:
        raise as_broker_error(error.args[0]) from error


def as_broker_error(error: KafkaError) -> BrokerError:
    """The same error in kafka-python."""
    words = error.str()
    if error.code() in _CODES_OF_SILENCE | CODES_OF_LOGIN:
        return KafkaTimeoutError(words)
    if error.code() == KafkaError._INVALID_ARG:
        return KafkaConfigurationError(words)
    return for_code(error.code())(words) if error.code() >= UnknownError.errno else BrokerError(words)


def _connection(kafka: Kafka) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "security.protocol": kafka.security_protocol,
        "socket.timeout.ms": kafka.request_timeout_ms,
        "socket.connection.setup.timeout.ms": max(1_000, kafka.request_timeout_ms),
        "reconnect.backoff.max.ms": clients.RECONNECT_BACKOFF_MS_MAX,
        "topic.metadata.refresh.interval.ms": clients.METADATA_AGE_MS_MAX,
        "allow.auto.create.topics": False,
    }
    if kafka.sasl_mechanism is not None:
        options["sasl.mechanism"] = kafka.sasl_mechanism
        options["sasl.username"] = kafka.sasl_username
        options["sasl.password"] = kafka.sasl_password.get_secret_value() if kafka.sasl_password else None
    if kafka.security_protocol.endswith("SSL"):
        # Its default path differs from Python's, which kafka-python and the handshake use.
        paths = ssl.get_default_verify_paths()
        options["ssl.ca.location"] = str(kafka.ssl_cafile or paths.cafile or paths.capath or "probe")
        if kafka.ssl_certfile is not None:
            options["ssl.certificate.location"] = str(kafka.ssl_certfile)
            options["ssl.key.location"] = str(kafka.ssl_keyfile)
    return options


def make_consumer(
    settings: Settings, instance: str, note_error: Callable[[KafkaError], None], lines: Lines
) -> Consumer:
    """Consumer of the input, a static group member. `note_error` takes errors outside any call.

    Raises the client's errors; see `client_errors`.
    """
    kafka, batch = settings.kafka, settings.batch
    return Consumer(
        {
            **_connection(kafka),
            **{name.replace("_", "."): value for name, value in clients.member_options(settings, instance).items()},
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # Off by default: damage would be read as a document.
            "check.crcs": True,
            "fetch.wait.max.ms": min(batch.wait_ms, kafka.request_timeout_ms - 1),
            "receive.message.max.bytes": _RESPONSE_BYTES_MAX,
            # A few batches of the default size: with more, one partition keeps the others waiting.
            "queued.min.messages": 10_000,
            "queued.max.messages.kbytes": _QUEUE_KBYTES_MAX,
            "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
            "error_cb": note_error,
        },
        logger=lines,
    )


def make_transactional_producer(settings: Settings, instance: str, batch_bytes: int, lines: Lines) -> Producer:
    """Producer of the outputs. Fences an earlier one with the same group and instance.

    batch_bytes  size that every output accepts: the client splits no batch
    lines        takes the client's log, which names lost connections

    Raises the client's errors; see `client_errors`.
    """
    kafka = settings.kafka
    identity = transactional_id(kafka, instance)
    return Producer(
        {
            **_connection(kafka),
            "client.id": identity,
            "transactional.id": identity,
            "transaction.timeout.ms": kafka.transaction_timeout_ms,
            "delivery.timeout.ms": kafka.delivery_timeout_ms,
            "compression.type": kafka.compression,
            # Java's hash, as in kafka-python: either client writes a key to the same partition.
            "partitioner": "murmur2_random",
            "batch.size": batch_bytes,
            # The commit sends a batch at once. At a partition's second batch, the client's thread waits for the first answer in a
            # tight loop.
            "linger.ms": min(clients.LINGER_MS_MAX, kafka.delivery_timeout_ms // 2),
            # Spread records without a key: else most of a transaction goes to one partition, in several batches.
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
