"""Broker clients with safe settings, and the streamer's errors.

`kafka.transport` has the rules for the pinned kafka-python. Clients are not fork-safe: create them in the process that
uses them.
"""

import platform
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.admin import ConfigResource, ProducerState
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.net.selector import NetworkSelector
from kafka.partitioner.sticky import StickyPartitioner
from kafka.record import util as record_checksums
from kafka.structs import MemberState

from streamer.errors import BrokerUnavailable, DeliveryDoubtful, SettingsError
from streamer.settings.kafka import Kafka
from streamer.settings.settings import Settings
from streamer.transports.kafka.handshake import require_login
from streamer.transports.kafka.rights import refusal, transactional_id, withheld_in
from streamer.transports.kafka.unreadable import TolerantConsumer

BATCH_BYTES_MAX = 1_000_000
"""Batch size for one partition: just below a topic's default max.message.bytes.

The client wakes its thread for every record after a partition's first batch. CPU microseconds per document: 51 at this
size, 59 at 256 KiB, 125 at the client's default of 16 KiB.
"""

LINGER_MS_MAX = 1_000
"""Longer than it takes to hand over a batch, so client batches fill up; `flush` sends them at once."""

_READING = {
    # Even for an input without transactions: only then does a client fetch stable committed offsets.
    "isolation_level": "read_committed",
    "enable_auto_commit": False,
    "fetch_max_bytes": 16 * 2**20,
}
_FETCH_BYTES_MIN, _FETCH_BYTES_MAX = 2**14, 2**21
_HEARTBEAT_INTERVAL_MS_MAX = 3_000
CLOSE_MS_MAX = 1_000
METADATA_AGE_MS_MAX = 3_000
"""Longest time until the client sees an added input partition."""
RECONNECT_BACKOFF_MS_MAX = 2_000
_TRANSACTION_MS_MAX = "transaction.max.timeout.ms"
_TRANSACTION_MS_MAX_DEFAULT = 900_000
CLEANUP_POLICY = "cleanup.policy"
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_MESSAGE_BYTES_MAX = "max.message.bytes"


# The client warns about each step above 0.1 s, common on a busy machine. `workers.progress_timeout_ms` ends a hung worker.
NetworkSelector.DEFAULT_CONFIG["slow_task_threshold_secs"] = 0

RETRY_SECONDS = 0.1
Answer = TypeVar("Answer")
Producers = list[tuple[TopicPartition, ProducerState]]
"""Producers, each with a partition that it writes to."""

_dropped: list[KafkaProducer] = []


def require_fast_checksums() -> None:
    """Raise SettingsError without crc32c's C code: the client would silently be ten times slower."""
    if record_checksums.crc32c_c is None:
        raise SettingsError(
            f"the package crc32c has no working C code in this Python ({platform.python_version()}, "
            f"{platform.machine()}): reinstall it with `pip install --force-reinstall crc32c`"
        )


@contextmanager
def broker_errors(settings: Settings, doing: str) -> Iterator[None]:
    """Translate the client's errors: SettingsError if a person must change something, else BrokerUnavailable.

    `doing` completes "... while {doing}".
    """
    servers = ", ".join(settings.kafka.bootstrap_servers)
    try:
        yield
    except errors.SaslAuthenticationFailedError as error:
        raise SettingsError(f"{servers} refuses kafka.sasl_username and kafka.sasl_password: {error}") from error
    except errors.AuthorizationError as error:
        raise SettingsError(refusal(settings, withheld_in(settings, error, doing))) from error
    except errors.InconsistentGroupProtocolError as error:
        raise BrokerUnavailable(
            f"group {settings.kafka.group!r} has members of another program, which shares partitions out in another way "
            f"({error}): end it, or give it a group of its own. The service joins once it has left"
        ) from error
    except errors.InvalidSessionTimeoutError as error:
        raise SettingsError(
            f"kafka.session_timeout_ms ({settings.kafka.session_timeout_ms}): {servers} takes none below its "
            "group.min.session.timeout.ms or above its group.max.session.timeout.ms (by default 6000 and 1800000)"
        ) from error
    except errors.KafkaConfigurationError as error:
        raise SettingsError(f"the Kafka client refuses its settings while {doing}: {error}") from error
    except errors.KafkaError as error:
        if errors.InvalidTransactionTimeoutError.__name__ in str(error):
            # The client wraps this one as text, in an error without a kind.
            raise SettingsError(
                f"kafka.transaction_timeout_ms ({settings.kafka.transaction_timeout_ms}): {servers} takes none above its "
                "transaction.max.timeout.ms (by default 900000)"
            ) from error
        if isinstance(error, errors.RetriableError):
            # The client reports nothing more about a refused certificate or password.
            require_login(settings.kafka, everywhere=True)
        _require_files()
        raise BrokerUnavailable(f"no answer from {servers} while {doing}: {error}") from error


def _require_files() -> None:
    """Raise OSError if a client's eight files are too many: it says only that nothing answered."""
    with ExitStack() as files:
        for _ in range(8):
            files.enter_context(socket.socket())


def _connection(kafka: Kafka) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": list(kafka.bootstrap_servers),
        "security_protocol": kafka.security_protocol,
        "request_timeout_ms": kafka.request_timeout_ms,
        "bootstrap_timeout_ms": kafka.request_timeout_ms,
        "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MS_MAX,
        "metadata_max_age_ms": METADATA_AGE_MS_MAX,
    }
    if kafka.sasl_mechanism is not None:
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = kafka.sasl_password.get_secret_value() if kafka.sasl_password else None
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        path = getattr(kafka, name)
        if path is not None:
            options[name] = str(path)
    return options


def _reading(settings: Settings) -> dict[str, Any]:
    return _steady(settings) | {
        "auto_offset_reset": "none",
        "allow_auto_create_topics": False,
        "max_poll_records": settings.batch.records_max,
        "fetch_max_wait_ms": min(settings.batch.wait_ms, settings.kafka.request_timeout_ms - 1),
        "metrics_enabled": False,
    }


def make_consumer(settings: Settings, instance: str) -> TolerantConsumer:
    """Consumer of the input, a static group member. Raises the client's errors; see `broker_errors`."""
    return TolerantConsumer(
        **_connection(settings.kafka),
        **(_reading(settings) | member_options(settings, instance)),
        partition_assignment_strategy=[CooperativeStickyAssignor],
    )


def _steady(settings: Settings) -> dict[str, Any]:
    # A client works off what it fetched from one partition before it turns to the next: a few batches, so that none waits long.
    fetch_bytes = min(_FETCH_BYTES_MAX, max(_FETCH_BYTES_MIN, 2_048 * settings.batch.records_max))
    return _READING | {"max_partition_fetch_bytes": fetch_bytes}


def member_options(settings: Settings, instance: str) -> dict[str, Any]:
    """Options of a static group member, for both clients."""
    kafka = settings.kafka
    return _steady(settings) | {
        "client_id": transactional_id(kafka, instance),
        "group_id": kafka.group,
        "group_instance_id": instance,
        "session_timeout_ms": kafka.session_timeout_ms,
        "heartbeat_interval_ms": max(1, min(_HEARTBEAT_INTERVAL_MS_MAX, kafka.session_timeout_ms // 3)),
        "max_poll_interval_ms": kafka.max_poll_interval_ms,
    }


def ask_for_rejoin(consumer: KafkaConsumer) -> None:
    """Make a consumer rejoin at its next poll; it keeps its partitions meanwhile."""
    consumer._coordinator.request_rejoin()


def take_up_join(consumer: KafkaConsumer) -> None:
    """Make a consumer wait for its join again, if it forgot it.

    A leader that rejoins for added partitions compares what it assigned with the topics' metadata. Once it has assigned,
    both are equal, so no later poll waits for the rest of that join.
    """
    coordinator = consumer._coordinator
    if coordinator.state is not MemberState.STABLE and not coordinator.need_rejoin():
        coordinator.request_rejoin()


def make_detached_consumer(settings: Settings, *, committed_only: bool = True) -> TolerantConsumer:
    """Consumer without a group, for any topic and offset. `committed_only` False: open and aborted transactions too."""
    isolation = {} if committed_only else {"isolation_level": "read_uncommitted"}
    return TolerantConsumer(
        **_connection(settings.kafka),
        **(_reading(settings) | isolation),
        client_id=f"{settings.kafka.group}-changelog",
        group_id=None,
    )


def _writing(kafka: Kafka) -> dict[str, Any]:
    return {
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": None if kafka.compression == "none" else kafka.compression,
        "batch_size": BATCH_BYTES_MAX,
        # The client requires linger plus one request to fit into the delivery timeout.
        "linger_ms": min(LINGER_MS_MAX, kafka.delivery_timeout_ms - kafka.request_timeout_ms),
        "max_request_size": kafka.request_bytes_max,
        # Bounds init_transactions and the wait for metadata.
        "max_block_ms": kafka.delivery_timeout_ms,
        "delivery_timeout_ms": kafka.delivery_timeout_ms,
        "allow_auto_create_topics": False,
        "partitioner": StickyPartitioner(),
        "metrics_enabled": False,
    }


def make_transactional_producer(settings: Settings, instance: str) -> KafkaProducer:
    """Producer of the outputs. Fences an earlier one with the same group and instance."""
    identity = transactional_id(settings.kafka, instance)
    return KafkaProducer(
        **_connection(settings.kafka),
        **_writing(settings.kafka),
        client_id=identity,
        transactional_id=identity,
        transaction_timeout_ms=settings.kafka.transaction_timeout_ms,
    )


def make_loader(settings: Settings) -> KafkaProducer:
    """Producer without transactions, to fill an input topic by hand."""
    return KafkaProducer(
        **_connection(settings.kafka), **_writing(settings.kafka), client_id=f"{settings.kafka.group}-loader"
    )


def connections_of(producer: KafkaProducer) -> frozenset[object]:
    """A producer's current connections; each new connection is another object."""
    return frozenset(tuple(producer._sender._client._manager._conns.values()))


def drop_producer(producer: KafkaProducer) -> None:
    """Stop a producer quickly in any state, without its unsent records. Never raises."""
    # A producer's finaliser mutes its module's logger, so producers live as long as the process.
    _dropped.append(producer)
    try:
        producer.close(timeout=0)
    except errors.KafkaError:
        # With unsent records, `close` gives up before it stops the thread, which would run for ever.
        producer._sender.force_close()


def make_admin(settings: Settings) -> KafkaAdminClient:
    """Client for topics, groups and transactions, after a test login.

    Raises SettingsError if the login is refused, and the client's errors.
    """
    require_login(settings.kafka)
    return KafkaAdminClient(**_connection(settings.kafka), client_id=f"{settings.kafka.group}-admin")


@contextmanager
def asking(settings: Settings, doing: str) -> Iterator[KafkaAdminClient]:
    """A client to ask the brokers with. `doing` completes "while ...". Errors: as `broker_errors`."""
    with broker_errors(settings, doing), make_admin(settings) as admin:
        yield admin


def close_quickly(client: KafkaAdminClient | KafkaConsumer, **options: Any) -> None:
    """Close a client; never raises."""
    with suppress(errors.KafkaError, OSError, RuntimeError):
        client.close(**options)


def answered(timeout_ms: int, ask: Callable[[], Answer]) -> Answer:
    """Answer of `ask`, repeated until the timeout; then raises the client's errors.

    Brokers start slowly, and a cluster's first request creates the coordinator's topic.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return ask()
        except errors.RetriableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)


def topic_ids(admin: KafkaAdminClient, names: list[str]) -> Mapping[str, str | None]:
    """Id (a UUID as text) by topic; None for a missing topic. Raises AuthorizationError."""
    existing = existing_topics(admin, names)
    return {name: str(existing[name]["topic_id"]) if name in existing else None for name in names}


def topic_id(settings: Settings, admin: KafkaAdminClient, name: str) -> str:
    """A topic's id. Raises DeliveryDoubtful for a missing topic, SettingsError, BrokerUnavailable."""
    with broker_errors(settings, f"asking for the id of topic {name!r}"):
        identity = topic_ids(admin, [name])[name]
    if identity is None:
        raise DeliveryDoubtful(f"the topic {name!r} was deleted")
    return identity


def existing_topics(admin: KafkaAdminClient, names: list[str]) -> dict[str, Any]:
    """The client's description of each existing topic, by name. Raises AuthorizationError."""
    described = {topic["name"]: topic for topic in admin.describe_topics(names)}
    for name, topic in described.items():
        if topic["error_code"] == errors.TopicAuthorizationFailedError.errno:
            raise errors.TopicAuthorizationFailedError({name})
    return {name: topic for name, topic in described.items() if topic["error_code"] == 0}


def identity_of(admin: KafkaAdminClient, producer_id: int) -> str | None:
    """A producer's transactional id; None if unknown. Raises KafkaError."""
    listed = admin.list_transactions(producer_id_filters=[producer_id])
    return next((each.transactional_id for listings in listed.values() for each in listings), None)


def open_producers(admin: KafkaAdminClient, partitions: list[TopicPartition]) -> Producers:
    """Producers with an open transaction in these partitions. Raises KafkaError."""
    return [
        (at, producer)
        for at, state in admin.describe_producers(partitions).items()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    ]


def transaction_ms_max(settings: Settings) -> int:
    """The brokers' limit for an open transaction, in milliseconds.

    Kafka's default if the right to ask is missing. Raises SettingsError, BrokerUnavailable.
    """
    with asking(settings, "asking for the longest transaction") as admin:
        brokers = [str(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]]
        allowed = _settings_of(admin, "broker", brokers, [_TRANSACTION_MS_MAX]).values()
    return max((int(each[_TRANSACTION_MS_MAX]) for each in allowed), default=_TRANSACTION_MS_MAX_DEFAULT)


def output_bytes_max(admin: KafkaAdminClient, topics: Collection[str]) -> int | None:
    """Largest batch that every topic accepts, in bytes; None if the right to ask is missing. Raises KafkaError."""
    taken = topic_settings(admin, topics, [_MESSAGE_BYTES_MAX]).values()
    return min((int(held[_MESSAGE_BYTES_MAX]) for held in taken), default=None)


def compacted_topics(settings: Settings, topics: Collection[str]) -> list[str]:
    """Topics with compaction; none if the right to ask is missing.

    Raises SettingsError, BrokerUnavailable.
    """
    with asking(settings, f"asking how long {', '.join(topics)} are kept") as admin:
        policies = topic_settings(admin, topics, [CLEANUP_POLICY])
    return [topic for topic, held in policies.items() if "compact" in held[CLEANUP_POLICY]]


def topic_settings(
    admin: KafkaAdminClient, topics: Collection[str], keys: Collection[str]
) -> dict[str, dict[str, str]]:
    """Settings by topic and key, as far as this user may read them. Raises KafkaError."""
    try:
        return _settings_of(admin, "topic", topics, keys)
    except errors.AuthorizationError:
        return {}


def _settings_of(
    admin: KafkaAdminClient, kind: str, names: Collection[str], keys: Collection[str]
) -> dict[str, dict[str, str]]:
    wanted = [ConfigResource(kind, name, dict.fromkeys(keys)) for name in names]
    answer = admin.describe_configs(wanted, config_filter="all")[kind]
    # Without the right to ask, the answer has no settings; an older broker lacks some.
    return {
        name: {key: str(held[key]["value"]) for key in keys if key in held} for name, held in answer.items() if held
    }


def abort_commands(kafka: Kafka, starts: Mapping[TopicPartition, int]) -> str:
    """Kafka's commands to abort open transactions, given their first offsets."""
    servers = ",".join(kafka.bootstrap_servers)
    return "; ".join(
        f"kafka-transactions.sh --bootstrap-server {servers} abort --topic {at.topic} --partition {at.partition} "
        f"--start-offset {start}"
        for at, start in sorted(starts.items())
    )


def within_timeout(kafka: Kafka, call: Callable[[], None], step: str) -> None:
    """Make a call that may never return. Raises its error, or DeliveryDoubtful after the timeout."""
    Attempt(call, step).wait(kafka)


class Attempt:
    """A call on another thread that may never return. `step`: its step in the transaction."""

    def __init__(self, call: Callable[[], None], step: str) -> None:
        self._make = call
        self._step = step
        self._over = threading.Event()
        self._error: Exception | None = DeliveryDoubtful(f"the {step} of the transaction broke off")
        (_idle_callers.pop() if _idle_callers else _Caller()).attempts.put(self)

    def wait(self, kafka: Kafka) -> None:
        """Wait for the call. Raises its error, or DeliveryDoubtful after the timeout."""
        timeout_ms = kafka.delivery_timeout_ms
        if not self._over.wait(timeout_ms / 1000):
            raise DeliveryDoubtful(f"the {self._step} of the transaction was not answered within {timeout_ms} ms")
        if self._error is not None:
            raise self._error

    def make(self, caller: "_Caller") -> None:
        """Make the call. Frees the thread before it wakes the waiter. Re-raises unexpected errors."""
        try:
            self._make()
            self._error = None
            _idle_callers.append(caller)
        except (errors.KafkaError, ValueError) as error:
            self._error = error
            _idle_callers.append(caller)
        finally:
            self._over.set()


class _Caller:
    """A reused thread for attempts: a new thread would wait for the interpreter's lock twice."""

    def __init__(self) -> None:
        self.attempts: SimpleQueue[Attempt] = SimpleQueue()
        # Daemonic: a call that never returns must not keep the process alive.
        threading.Thread(target=self._run, name="kafka-caller", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.attempts.get().make(self)


_idle_callers: list[_Caller] = []
