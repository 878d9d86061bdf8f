"""Topic administration for the command line: create, check, fill. The service itself creates no topic."""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from index import Source
from streamer.errors import BrokerUnavailable, DeliveryDoubtful, SettingsError
from streamer.records.record import Destination, Feed, Handover
from streamer.settings.parts import outputs_of
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients, refusals
from streamer.transports.kafka.client import NOTE_END
from streamer.transports.kafka.rights import require_rights_on_topics
from streamer.transports.transport import Claim, Place

_LOAD_RECORDS = 5_000
_RESTORING = "restoring"
_PLACE = "place="
_THERE = (type(None), TopicAlreadyExistsError)
_ANY_PAST = {"message.timestamp.type": "CreateTime", clients.TIMESTAMP_BEFORE: str(2**63 - 1)}
"""Topic settings that allow any timestamp before now."""


@dataclass(frozen=True, slots=True)
class Note:
    """Note attached to a committed offset.

    stream  id of the input topic, new for a recreated topic; "" if unknown
    index   id of the deciding index; "" if unknown
    in_use  False: that index was still being restored
    place   matching offset in the other log of a service in parts

    >>> parse_note(Note("topic-id", "index-id").text()).index
    'index-id'
    """

    stream: str
    index: str = ""
    in_use: bool = True
    place: Place | None = None

    def claim(self, offset: int) -> Claim:
        """The claim of this note at `offset`."""
        return Claim(offset, self.index, self.in_use, self.place, foreign=not self.names_topic)

    @property
    def names_topic(self) -> bool:
        """Whether it has a topic id, as only the service's notes do."""
        try:
            return str(UUID(self.stream)) == self.stream
        except ValueError:
            return False

    def text(self) -> str:
        """Committed form of the note."""
        words = [self.stream, self.index, "" if self.in_use else _RESTORING]
        if self.place is not None:
            words.append(f"{_PLACE}{self.place.stream}:{self.place.offset}")
        return " ".join(word for word in words if word)


def parse_note(text: str | None) -> Note:
    """Inverse of `Note.text`; ignores anything after `NOTE_END`.

    Offsets set by hand have no note. Parts without an index note only the stream.
    """
    words = (text or "").partition(NOTE_END)[0].split(" ")
    place = _parse_place(words.pop()) if words[-1].startswith(_PLACE) else None
    words += [""] * (2 - len(words))
    return Note(words[0], words[1], words[2:] != [_RESTORING], place)


def _parse_place(word: str) -> Place | None:
    stream, _, offset = word.removeprefix(_PLACE).rpartition(":")
    return Place(stream, int(offset)) if stream and offset.isdigit() else None


def create_topics(
    settings: Settings, partitions: int, replication_factor: int, *, parts: bool = False
) -> dict[str, Literal["created", "exists"]]:
    """Create missing topics; returns the outcome per topic. Existing topics stay as they are.

    parts  also create the two topics between parts. The brokers set their timestamps, so that a worker's wrong clock
           cannot make retention remove undelivered verdicts.

    Outputs take any timestamp, and records up to kafka.request_bytes_max. Raises BrokerUnavailable, and SettingsError
    for a refused topic (name, replication factor, rights).
    """
    topics = settings.topics
    # An output has a few headers more than its input: the default of 1 MiB could refuse it.
    size = {"max.message.bytes": str(settings.kafka.request_bytes_max)}
    # Outputs keep the input's timestamps, however old or far ahead.
    for_outputs = _ANY_PAST | {clients.TIMESTAMP_AFTER: str(2**63 - 1)} | size
    for_parts = {"message.timestamp.type": "LogAppendTime"} | size
    wanted: dict[str, dict[str, Any]] = {
        name: {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}
        for name, configs in (
            (topics.input, {}),
            (topics.unique, for_outputs),
            (topics.duplicate, for_outputs),
            (topics.dead_letter, for_outputs),
            *(((topics.fingerprints, for_parts), (topics.verdicts, for_parts)) if parts else ()),
            *(((topics.stories, for_outputs | {clients.CLEANUP_POLICY: "compact"}),) if topics.stories else ()),
            *(((topics.protected, for_outputs),) if topics.protected else ()),
        )
    }
    outcomes = _create(settings, wanted)
    for name, error in outcomes.items():
        if error is not None and not isinstance(error, TopicAlreadyExistsError):
            raise SettingsError(f"the broker refuses to create topic {name!r}: {error.args[0]}")
    return {name: "exists" if outcomes[name] else "created" for name in wanted}


def _create(settings: Settings, wanted: dict[str, dict[str, Any]]) -> dict[str, KafkaError | None]:
    with clients.asking(settings, f"creating topics {', '.join(wanted)}") as admin:
        outcomes: dict[str, KafkaError | None] = {}
        for topic in admin.create_topics(wanted, raise_errors=False)["topics"]:
            error = for_code(topic["error_code"])
            refusal = error(topic.get("error_message") or error.__name__) if topic["error_code"] else None
            outcomes[topic["name"]] = refusal
        admin.wait_for_topics([name for name, error in outcomes.items() if type(error) in _THERE])
    return outcomes


def seed_topic(settings: Settings) -> str:
    """Topic with an index's entries, to seed another engine's job."""
    return f"{settings.topics.fingerprints}-seeds"


def create_seed_topic(settings: Settings, partitions: int) -> None:
    """Create the empty seed topic, in place of an older one. Raises SettingsError, BrokerUnavailable."""
    name = seed_topic(settings)
    with clients.asking(settings, f"deleting the older topic {name}") as admin:
        if clients.existing_topics(admin, [name]):
            # The group's offsets go with it, so that an older job's are not taken for the next one's.
            admin.delete_topics([name])
    # Its timestamps are places in an order: retention would delete the records at once.
    configs = _ANY_PAST | {"retention.ms": "-1", "max.message.bytes": str(settings.kafka.request_bytes_max)}
    wanted = {name: {"num_partitions": partitions, "replication_factor": -1, "configs": configs}}
    deadline = time.monotonic() + settings.kafka.request_timeout_ms / 1_000
    # A deletion takes its time in the brokers.
    while isinstance(error := _create(settings, wanted)[name], TopicAlreadyExistsError) and time.monotonic() < deadline:
        time.sleep(clients.RETRY_SECONDS)
    if error:
        raise SettingsError(f"topic {name!r} cannot be created: {error.args[0]}.")


def topic_of(settings: Settings, destination: Destination | Handover | Feed) -> str:
    """A destination's topic; "" for a feed without one."""
    topics = settings.topics
    return {
        Destination.UNIQUE: topics.unique,
        Destination.DUPLICATE: topics.duplicate,
        Destination.DEAD_LETTER: topics.dead_letter,
        Handover.FINGERPRINTS: topics.fingerprints,
        Handover.VERDICTS: topics.verdicts,
        Feed.STORIES: topics.stories or "",
        Feed.PROTECTED: topics.protected or "",
    }[destination]


def require_topics(settings: Settings, *, to_read: bool = False) -> str:
    """Id of the input topic, after a check that all topics exist, with the rights needed.

    to_read  only reading is planned, which itself shows missing rights: no check of rights

    Raises SettingsError, BrokerUnavailable.
    """
    topics, joined = settings.topics, between_parts(settings)
    names = list(dict.fromkeys([topics.input, *outputs_of(settings).values(), *joined]))
    with clients.asking(settings, "looking for the topics") as admin:
        if not to_read:
            require_rights_on_topics(settings, admin)
        described = _described(settings, admin, names, " --parts" if settings.part else "")
    _require_equal({name: len(described[name]["partitions"]) for name in joined})
    return str(described[topics.input]["topic_id"])


def between_parts(settings: Settings) -> list[str]:
    """Topics that need equal partition counts for a part; none for the whole service."""
    topics, part = settings.topics, settings.part
    if part is None:
        return []
    return [topics.input, topics.fingerprints if part == "fingerprint" else topics.verdicts]


def partitions_between(settings: Settings) -> int:
    """Partition count of both topics between the parts. Raises SettingsError, BrokerUnavailable."""
    names = [settings.topics.fingerprints, settings.topics.verdicts]
    with clients.asking(settings, "looking for the topics") as admin:
        counts = {
            name: len(topic["partitions"]) for name, topic in _described(settings, admin, names, " --parts").items()
        }
    _require_equal(counts)
    return counts[names[0]]


def _described(settings: Settings, admin: KafkaAdminClient, names: list[str], option: str) -> dict[str, Any]:
    """Descriptions by topic. Raises SettingsError for missing ones, which `topics create` with `option` makes."""
    described = clients.existing_topics(admin, names)
    if missing := [name for name in names if name not in described]:
        raise SettingsError(
            f"no topic {', '.join(map(repr, missing))} at {', '.join(settings.kafka.bootstrap_servers)}: make what is "
            f"missing with `streamer topics create{option}`, or correct the names under [topics]"
        )
    return described


def _require_equal(partitions: dict[str, int]) -> None:
    if len(set(partitions.values())) > 1:
        (one, of_one), (other, of_other) = partitions.items()
        fewer = one if of_one < of_other else other
        raise SettingsError(
            f"topic {one!r} has {of_one} partitions and {other!r} has {of_other}: a part writes partition n for partition n, so "
            f"both need as many. Add partitions to {fewer!r} (kafka-topics.sh --alter --topic {fewer} --partitions "
            f"{max(of_one, of_other)})"
        )


def same_topic_partitions(settings: Settings, admin: KafkaAdminClient, identity: str) -> frozenset[int]:
    """Input partitions. Raises DeliveryDoubtful if the topic's id changed: a new worker will ask a person.

    Also raises KafkaError.
    """
    name = settings.topics.input
    topic = clients.existing_topics(admin, [name]).get(name)
    if topic is None or str(topic["topic_id"]) != identity:
        raise DeliveryDoubtful(f"the topic {name!r} was deleted{' and recreated' if topic else ''}")
    return frozenset(partition["partition_index"] for partition in topic["partitions"])


def committed_offsets(settings: Settings) -> dict[Source, int]:
    """The group's committed offsets in the input topic. Raises SettingsError, BrokerUnavailable."""
    return {source: claim.offset for source, claim in claims_of_group(settings).items()}


def claims_of_group(settings: Settings) -> dict[Source, Claim]:
    """The group's committed offsets as claims. Errors: as `committed_offsets`."""
    topic, group = settings.topics.input, settings.kafka.group
    with clients.asking(settings, f"fetching the committed offsets of group {group!r}") as admin:
        identity = clients.topic_ids(admin, [topic])[topic]
        offsets = admin.list_group_offsets({group: None})[group]
    claims: dict[Source, Claim] = {}
    for partition, at in offsets.items():
        if partition.topic == topic and at.offset >= 0:
            note = parse_note(at.metadata)
            source = Source(note.stream or identity or topic, partition.partition)
            claims[source] = note.claim(at.offset)
    return claims


class Loader:
    """Writer of records without a key: acknowledged, but without transactions."""

    def __init__(self, settings: Settings, topic: str) -> None:
        """Raises SettingsError for a missing topic, and BrokerUnavailable."""
        self._timeout_seconds = settings.kafka.delivery_timeout_ms / 1000
        self._topic = topic
        self.written = 0
        """Number of acknowledged records."""
        self.ends: dict[int, int] = {}
        """Offset after the last acknowledged record, by partition."""
        clients.require_fast_checksums()
        with clients.asking(settings, f"looking for topic {topic!r}") as admin:
            _described(settings, admin, [topic], "")
        with clients.broker_errors(settings, f"connecting to write to {topic!r}"):
            self._producer = clients.make_loader(settings)

    def send(self, values: Iterable[bytes]) -> None:
        """Write each value as a record; returns after the last acknowledgement.

        Raises BrokerUnavailable, and SettingsError for a final refusal.
        """
        self.send_to((None, None, value) for value in values)

    def send_to(self, records: Iterable[tuple[int | None, int | None, bytes]]) -> None:
        """As `send`, for (partition, timestamp, value). Timestamps are in milliseconds since 1970; None: the client chooses."""
        remaining = iter(records)
        try:
            # In portions: the client would take any number of records into memory.
            while portion := list(islice(remaining, _LOAD_RECORDS)):
                sent = [
                    self._producer.send(self._topic, value=value, partition=partition, timestamp_ms=time_ms)
                    for partition, time_ms, value in portion
                ]
                self._producer.flush(timeout=self._timeout_seconds)
                for future in sent:
                    at = future.get(timeout=0)
                    self.ends[at.partition] = max(at.offset + 1, self.ends.get(at.partition, 0))
                self.written += len(sent)
        except refusals.FINAL as error:
            raise SettingsError(
                f"the broker refuses a record for topic {self._topic!r}, {self.written} were written: {error}. Change the "
                "topic's settings (cleanup.policy, message.timestamp.*), or write to another topic"
            ) from error
        except KafkaError as error:
            raise BrokerUnavailable(
                f"{self.written} records were written to {self._topic!r}, the next not all: {error}"
            ) from error

    def close(self) -> None:
        """Disconnect; never raises."""
        clients.drop_producer(self._producer)


def produce(settings: Settings, topic: str, values: Iterable[bytes]) -> int:
    """Write each value as a record without key; returns how many were acknowledged.

    Raises SettingsError for a missing topic or a final refusal, and BrokerUnavailable with that number.
    """
    with closing(Loader(settings, topic)) as loader:
        loader.send(values)
        return loader.written
