"""Broker facts for `streamer doctor`: greetings, rights, topics, timeouts. Nothing is changed.

No request shows the rights on transactional ids, or the brokers' timeouts, to a user who may not read their settings. So both are
tried by requests that the broker checks first and then has to refuse:

    JoinGroup       by a member that the group does not know: rights on the group, then the session timeout
    InitProducerId  for a producer that is not the last one: rights on the id, then the transaction timeout
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, OffsetSpec
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.errors import (
    AuthorizationError,
    InvalidSessionTimeoutError,
    InvalidTransactionTimeoutError,
    RetriableError,
    UnsupportedVersionError,
    for_code,
)
from kafka.protocol.consumer.group import JoinGroupRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import InitProducerIdRequest
from kafka.record import util as record_checksums

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.parts import PARTS, settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import broker_errors, make_admin, transactional_id
from streamer.transports.kafka.handshake import Greeting, greet
from streamer.transports.kafka.rights import Resource, Right, rights_of, withheld_on_topics

TOPIC_SETTINGS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
)

_RETRY_SECONDS = 0.1
_NOBODY = 2**62


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Partitions, replicas of each, and settings of one topic; None if this user may not ask for them."""

    partitions: int
    replicas: int
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The brokers' answers.

    withheld   missing rights
    topics     by name; None for a topic that is missing, or hidden from this user
    refused    keys of timeouts beyond the brokers' limits
    untried    keys of timeouts that a missing right kept from being tried
    newest_ms  latest timestamp in the input; None without records, or if the brokers do not answer
    withheld_from_parts  missing rights that only a service in parts uses
    """

    withheld: Sequence[Right]
    topics: Mapping[str, TopicFacts | None]
    refused: Sequence[str]
    untried: Sequence[str]
    newest_ms: int | None = None
    withheld_from_parts: Sequence[Right] = ()


def greetings(settings: Settings) -> dict[str, Greeting | SettingsError | BrokerUnavailable]:
    """Greeting, or error, of every broker by its address: from the settings, and from the brokers' own list."""
    found: dict[str, Greeting | SettingsError | BrokerUnavailable] = {}
    waiting = list(settings.kafka.bootstrap_servers)
    while waiting:
        address = waiting.pop(0)
        if address in found:
            continue
        try:
            answer = found[address] = greet(settings, address)
        except (SettingsError, BrokerUnavailable) as error:
            found[address] = error
        else:
            waiting += answer.brokers
    return found


def diagnose(settings: Settings) -> Facts:
    """Ask for all else. Raises SettingsError, BrokerUnavailable."""
    rights = rights_of(settings)
    topics = settings.topics
    with broker_errors(settings, "looking into rights and topics"), make_admin(settings) as admin:
        withheld = withheld_on_topics(admin, rights)
        facts = _topics(admin, [getattr(topics, key) for key in type(topics).model_fields])
        of_parts = {right: None for part in PARTS for right in rights_of(settings_of(settings, part), part)}
        further = [right for right in of_parts if right not in rights and facts.get(right.name) is not None]
        withheld_from_parts = (
            [*withheld_on_topics(admin, further), *_denied_to_parts(settings, admin)] if further else []
        )
        of_input = facts[topics.input]
        newest_ms = None if of_input is None else _newest_ms(admin, topics.input, of_input.partitions)
        trials = {
            ("kafka.session_timeout_ms", Resource.GROUP): (_try_group(settings, admin), InvalidSessionTimeoutError),
            ("kafka.transaction_timeout_ms", Resource.TRANSACTIONAL_ID): (
                _try_transactional_id(settings, admin),
                InvalidTransactionTimeoutError,
            ),
        }
    denied = {resource for (_, resource), (error, _) in trials.items() if issubclass(error, AuthorizationError)}
    return Facts(
        withheld=tuple(right for right in rights if right in withheld or right.resource in denied),
        topics=facts,
        refused=tuple(key for (key, _), (error, refusal) in trials.items() if error is refusal),
        untried=tuple(key for (key, resource), _ in trials.items() if resource in denied),
        newest_ms=newest_ms,
        withheld_from_parts=tuple(withheld_from_parts),
    )


def _denied_to_parts(settings: Settings, admin: KafkaAdminClient) -> list[Right]:
    """Missing rights on groups and transactional ids that only a part with its own name needs."""
    denied: list[Right] = []
    for part in PARTS:
        own = settings_of(settings, part)
        if own.kafka.group == settings.kafka.group:
            continue
        tried = {Resource.GROUP: _try_group, Resource.TRANSACTIONAL_ID: _try_transactional_id}
        refused = {resource for resource, trial in tried.items() if issubclass(trial(own, admin), AuthorizationError)}
        denied += [right for right in rights_of(own, part) if right.resource in refused]
    return denied


def codecs() -> dict[str, bool]:
    """Availability of each library that a batch of records may need: checksums in C code, and codecs by name."""
    return {
        "crc32c": record_checksums.crc32c_c is not None,
        "gzip": has_gzip(),
        "lz4": has_lz4(),
        "snappy": has_snappy(),
        "zstd": has_zstd(),
    }


def _topics(admin: KafkaAdminClient, names: list[str]) -> dict[str, TopicFacts | None]:
    found: dict[str, TopicFacts | None] = dict.fromkeys(names)
    for topic in admin.describe_topics(names):
        if topic["error_code"] == 0:
            partitions = topic["partitions"]
            replicas = min(len(partition["replica_nodes"]) for partition in partitions)
            found[topic["name"]] = TopicFacts(len(partitions), replicas, _settings_of(admin, topic["name"]))
    return found


def _newest_ms(admin: KafkaAdminClient, name: str, partitions: int) -> int | None:
    wanted = {TopicPartition(name, number): OffsetSpec.MAX_TIMESTAMP for number in range(partitions)}
    try:
        found = admin.list_partition_offsets(wanted)
    except (AuthorizationError, UnsupportedVersionError):
        # Without a right on the topic, or brokers before Kafka 3.0.
        return None
    return max((each.timestamp for each in found.values() if each.timestamp >= 0), default=None)


def _settings_of(admin: KafkaAdminClient, name: str) -> dict[str, str] | None:
    wanted = ConfigResource("topic", name, dict.fromkeys(TOPIC_SETTINGS))
    found = admin.describe_configs([wanted], config_filter="all")["topic"][name]
    # If this user may not ask, the client answers with nothing.
    return {key: str(found[key]["value"]) for key in TOPIC_SETTINGS} if found else None


def _try_group(settings: Settings, admin: KafkaAdminClient) -> type[Exception]:
    kafka = settings.kafka

    def request() -> Any:
        return JoinGroupRequest(
            group_id=kafka.group,
            session_timeout_ms=kafka.session_timeout_ms,
            rebalance_timeout_ms=kafka.max_poll_interval_ms,
            member_id="streamer-doctor",
            protocol_type="consumer",
            protocols=[("none", b"")],
            max_version=7,
        )

    return _outcome(settings, admin, kafka.group, CoordinatorType.GROUP, request)


def _try_transactional_id(settings: Settings, admin: KafkaAdminClient) -> type[Exception]:
    identity = transactional_id(settings, f"{settings.kafka.instance}-0")

    def request() -> Any:
        return InitProducerIdRequest(
            transactional_id=identity,
            transaction_timeout_ms=settings.kafka.transaction_timeout_ms,
            producer_id=_NOBODY,
            producer_epoch=0,
            min_version=3,
            max_version=4,
        )

    return _outcome(settings, admin, identity, CoordinatorType.TRANSACTION, request)


def _outcome(
    settings: Settings, admin: KafkaAdminClient, key: str, kind: CoordinatorType, request: Callable[[], Any]
) -> type[Exception]:
    """Error class of the coordinator's answer; asks again while it is only starting."""
    deadline = time.monotonic() + settings.kafka.request_timeout_ms / 1000
    while True:
        try:
            node = admin._manager.run(admin._find_coordinator_id, key, kind)
            answer: type[Exception] = for_code(admin._manager.run(admin._manager.send, request(), node).error_code)
        except AuthorizationError as error:
            return type(error)
        except RetriableError:
            if time.monotonic() > deadline:
                raise
        else:
            if not issubclass(answer, RetriableError) or time.monotonic() > deadline:
                return answer
        time.sleep(_RETRY_SECONDS)
