"""Broker facts for `streamer doctor`: rights, topics, timeouts. Changes nothing.

Rights on transactional ids and the brokers' timeouts may be hidden. Two requests test them. The broker checks each, and
then must refuse it:

    JoinGroup       by an unknown member: rights on the group, then the session timeout
    InitProducerId  for an outdated producer: rights on the id, then the transaction timeout
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import OffsetSpec
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.protocol.consumer.group import JoinGroupRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import InitProducerIdRequest
from kafka.record import util as record_checksums

from streamer.settings.parts import PARTS, settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import answered, asking, topic_settings
from streamer.transports.kafka.rights import Resource, Right, rights_of, transactional_id, withheld_on_topics

TOPIC_SETTINGS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
)

_UNKNOWN_PRODUCER = 2**62


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's partitions, replicas per partition, and settings; None without the right to ask."""

    partitions: int
    replicas: int
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The brokers' answers.

    topics     by name; None for a missing or hidden topic
    refused    keys of timeouts beyond the brokers' limits
    untried    keys of timeouts that could not be tested for lack of a right
    newest_ms  latest input timestamp in milliseconds since 1970; None without records or an answer
    withheld, withheld_from_parts  missing rights of the service, and those that only a service in parts needs
    """

    withheld: Sequence[Right]
    topics: Mapping[str, TopicFacts | None]
    refused: Sequence[str]
    untried: Sequence[str]
    newest_ms: int | None = None
    withheld_from_parts: Sequence[Right] = ()


def diagnose(settings: Settings) -> Facts:
    """Collect all facts. Raises SettingsError, BrokerUnavailable."""
    rights = rights_of(settings)
    topics = settings.topics
    with asking(settings, "looking into rights and topics") as admin:
        withheld = withheld_on_topics(admin, rights)
        facts = _topics(admin, [name for key in type(topics).model_fields if (name := getattr(topics, key))])
        part_rights = {right: None for part in PARTS for right in rights_of(settings_of(settings, part))}
        further = [right for right in part_rights if right not in rights and facts.get(right.name) is not None]
        withheld_from_parts = (
            [*withheld_on_topics(admin, further), *_denied_to_parts(settings, admin)] if further else []
        )
        of_input = facts[topics.input]
        newest_ms = None if of_input is None else _newest_ms(admin, topics.input, of_input.partitions)
        tried = _tried(settings, admin)
    denied = _denied(tried)
    return Facts(
        withheld=tuple(right for right in rights if right in withheld or right.resource in denied),
        topics=facts,
        refused=tuple(key for resource, (key, refusal) in _TIMEOUTS.items() if tried[resource] is refusal),
        untried=tuple(key for resource, (key, _) in _TIMEOUTS.items() if resource in denied),
        newest_ms=newest_ms,
        withheld_from_parts=tuple(withheld_from_parts),
    )


def _denied_to_parts(settings: Settings, admin: KafkaAdminClient) -> list[Right]:
    denied: list[Right] = []
    for part in PARTS:
        part_settings = settings_of(settings, part)
        if part_settings.kafka.group == settings.kafka.group:
            continue
        refused = _denied(_tried(part_settings, admin))
        denied += [right for right in rights_of(part_settings) if right.resource in refused]
    return denied


def codecs() -> dict[str, bool]:
    """Whether C code for checksums, and each codec, is installed."""
    return {
        "crc32c": record_checksums.crc32c_c is not None,
        "gzip": has_gzip(),
        "lz4": has_lz4(),
        "snappy": has_snappy(),
        "zstd": has_zstd(),
    }


def _topics(admin: KafkaAdminClient, names: list[str]) -> dict[str, TopicFacts | None]:
    facts: dict[str, TopicFacts | None] = dict.fromkeys(names)
    for topic in admin.describe_topics(names):
        if topic["error_code"] == 0:
            partitions = topic["partitions"]
            replicas = min(len(partition["replica_nodes"]) for partition in partitions)
            configured = topic_settings(admin, [topic["name"]], TOPIC_SETTINGS).get(topic["name"])
            facts[topic["name"]] = TopicFacts(len(partitions), replicas, configured)
    return facts


def _newest_ms(admin: KafkaAdminClient, name: str, partitions: int) -> int | None:
    wanted = {TopicPartition(name, number): OffsetSpec.MAX_TIMESTAMP for number in range(partitions)}
    try:
        newest = admin.list_partition_offsets(wanted)
    except (errors.AuthorizationError, errors.UnsupportedVersionError):
        # Without a right on the topic, or before Kafka 3.0.
        return None
    return max((each.timestamp for each in newest.values() if each.timestamp >= 0), default=None)


_TIMEOUTS: dict[Resource, tuple[str, type[Exception]]] = {
    Resource.GROUP: ("kafka.session_timeout_ms", errors.InvalidSessionTimeoutError),
    Resource.TRANSACTIONAL_ID: ("kafka.transaction_timeout_ms", errors.InvalidTransactionTimeoutError),
}
"""Setting that each request tests, and the error of a refused value."""


def _tried(settings: Settings, admin: KafkaAdminClient) -> dict[Resource, type[Exception]]:
    kafka, identity = settings.kafka, transactional_id(settings.kafka, f"{settings.kafka.instance}-0")
    join = partial(
        JoinGroupRequest,
        group_id=kafka.group,
        session_timeout_ms=kafka.session_timeout_ms,
        rebalance_timeout_ms=kafka.max_poll_interval_ms,
        member_id="streamer-doctor",
        protocol_type="consumer",
        protocols=[("none", b"")],
        max_version=7,
    )
    initialise = partial(
        InitProducerIdRequest,
        transactional_id=identity,
        transaction_timeout_ms=kafka.transaction_timeout_ms,
        producer_id=_UNKNOWN_PRODUCER,
        producer_epoch=0,
        min_version=3,
        max_version=4,
    )
    return {
        Resource.GROUP: _outcome(settings, admin, kafka.group, CoordinatorType.GROUP, join),
        Resource.TRANSACTIONAL_ID: _outcome(settings, admin, identity, CoordinatorType.TRANSACTION, initialise),
    }


def _denied(tried: Mapping[Resource, type[Exception]]) -> set[Resource]:
    return {resource for resource, error in tried.items() if issubclass(error, errors.AuthorizationError)}


def _outcome(
    settings: Settings, admin: KafkaAdminClient, key: str, kind: CoordinatorType, request: Callable[[], Any]
) -> type[Exception]:
    def ask() -> type[Exception]:
        node = admin._manager.run(admin._find_coordinator_id, key, kind)
        answer: type[Exception] = errors.for_code(admin._manager.run(admin._manager.send, request(), node).error_code)
        if issubclass(answer, errors.RetriableError):
            raise answer
        return answer

    try:
        return answered(settings.kafka.request_timeout_ms, ask)
    except errors.AuthorizationError as error:
        return type(error)
