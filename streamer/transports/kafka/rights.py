"""Rights that the service's user needs, in terms of Kafka's authorizer, and missing ones.

The service checks them at its start: the first dead letter may come months later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kafka import KafkaAdminClient, errors

from streamer.errors import SettingsError
from streamer.settings.kafka import Kafka
from streamer.settings.parts import input_key, outputs_of
from streamer.settings.settings import Settings

DOCUMENTED_AT = "docs/running.md, Rights"

OFFSETS_TOPIC = "__consumer_offsets"


class Resource(Enum):
    """Kind of resource, as in Kafka's tools."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource. READ and WRITE include DESCRIBE.

    name      the resource's; for a transactional id its prefix
    setting   key that names the resource
    required  True: the service does not start without it; False: only `purpose` fails

    >>> str(Right("WRITE", Resource.TOPIC, "unique", "topics.unique", "to deliver"))
    "WRITE on topic 'unique' (topics.unique)"
    """

    operation: str
    resource: Resource
    name: str
    setting: str
    purpose: str
    required: bool = True

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource.value} {self.name!r} ({self.setting})"


_SEPARATOR = ":"
"""Between group and instance: no instance's name has it, so each transactional id is of one group only."""


def transactional_id(kafka: Kafka, instance: str) -> str:
    """Transactional id of a group's instance. As client id, it lets workers recognise each other.

    >>> transactional_id(Kafka(group="news"), "eu-0"), transactional_id(Kafka(group="news-eu"), "0")
    ('news:eu-0', 'news-eu:0')
    """
    return f"{kafka.group}{_SEPARATOR}{instance}"


def is_of_group(kafka: Kafka, identity: str) -> bool:
    """Whether a transactional id is of this group.

    >>> [is_of_group(Kafka(group="news"), identity) for identity in ("news:eu-0", "news:eu:0")]
    [True, False]
    """
    return identity.rpartition(_SEPARATOR)[0] == kafka.group


def rights_of(settings: Settings) -> list[Right]:
    """All rights that the service uses, or the part that the settings are for."""
    topics, kafka = settings.topics, settings.kafka
    outputs = outputs_of(settings)
    identity = transactional_id(kafka, f"{kafka.instance}-")
    what = "fingerprints" if settings.part == "decide" else "documents"
    restoring = "to restore an index, and to end transactions that a broker forgot"
    offsets = "to end transactions that a broker forgot, among committed offsets"
    rights = [
        Right("READ", Resource.TOPIC, topics.input, input_key(settings), f"to read the {what}"),
        Right("READ", Resource.GROUP, kafka.group, "kafka.group", "to join the group and to commit offsets"),
        Right("WRITE", Resource.TRANSACTIONAL_ID, identity, "kafka.group, kafka.instance", "to deliver exactly once"),
        *(Right("WRITE", Resource.TOPIC, name, key, f"to deliver {_OF_OUTPUTS[key]}") for key, name in outputs.items()),
        *(Right("READ", Resource.TOPIC, name, key, restoring, required=False) for key, name in outputs.items()),
        Right("READ", Resource.TOPIC, OFFSETS_TOPIC, "Kafka's own", offsets, required=False),
    ]
    if settings.part == "route":
        rights.append(Right("READ", Resource.TOPIC, topics.verdicts, "topics.verdicts", "to learn what was decided"))
    return rights


_OF_OUTPUTS = {
    "topics.unique": "unique documents",
    "topics.duplicate": "duplicate documents",
    "topics.dead_letter": "dead letter documents",
    "topics.fingerprints": "fingerprints",
    "topics.verdicts": "verdicts",
    "topics.stories": "stories",
    "topics.protected": "copies for protected sets",
}


def user_of(kafka: Kafka) -> str:
    """The user that the brokers see, with the setting that names it."""
    if kafka.sasl_username is not None:
        return f"user {kafka.sasl_username!r} (kafka.sasl_username)"
    if kafka.ssl_certfile is not None:
        return f"the holder of {kafka.ssl_certfile} (kafka.ssl_certfile)"
    return f"the anonymous user (kafka.security_protocol is {kafka.security_protocol} without a certificate)"


def withheld_on_topics(admin: KafkaAdminClient, rights: Sequence[Right]) -> list[Right]:
    """Topic rights that the brokers deny. Leaves out topics about which they say nothing. Raises KafkaError."""
    wanted = [right for right in rights if right.resource is Resource.TOPIC]
    allowed = _allowed_on_topics(admin, list(dict.fromkeys(right.name for right in wanted)))
    return [right for right in wanted if right.name in allowed and right.operation not in allowed[right.name]]


def _allowed_on_topics(admin: KafkaAdminClient, names: list[str]) -> Mapping[str, Sequence[str]]:
    allowed: dict[str, Sequence[str]] = {}
    for topic in admin.describe_topics(names):
        if topic["error_code"] == errors.TopicAuthorizationFailedError.errno:
            allowed[topic["name"]] = ()
        elif topic["authorized_operations"] is not None:
            allowed[topic["name"]] = topic["authorized_operations"]
    return allowed


def require_rights_on_topics(settings: Settings, admin: KafkaAdminClient) -> None:
    """Raise SettingsError that names every missing topic right which the service or its part requires. Also raises KafkaError."""
    withheld = withheld_on_topics(admin, [right for right in rights_of(settings) if right.required])
    if withheld:
        raise SettingsError(refusal(settings, ", ".join(map(str, withheld))))


def refusal(settings: Settings, missing: str) -> str:
    """Message about missing rights, and the remedy."""
    servers = ", ".join(settings.kafka.bootstrap_servers)
    return f"{servers} does not allow {user_of(settings.kafka)} {missing}: allow it as {DOCUMENTED_AT} shows"


def withheld_in(settings: Settings, error: errors.AuthorizationError, doing: str) -> str:
    """Missing rights in a client's error."""
    of = {right.resource: right for right in rights_of(settings) if right.resource is not Resource.TOPIC}
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return str(of[Resource.GROUP])
    if isinstance(error, errors.TransactionalIdAuthorizationFailedError):
        return f"{of[Resource.TRANSACTIONAL_ID]}, prefixed, while {doing}"
    if isinstance(error, errors.ClusterAuthorizationFailedError):
        return f"a right on the cluster while {doing} ({error})"
    return f"what is needed while {doing} ({error})"
