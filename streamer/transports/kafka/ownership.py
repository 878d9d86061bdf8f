"""Check of the group: reclaims unread partitions, and names other programs.

In a cooperative rebalance, moving partitions lose their owner in the first round, and get one in the second. Static
members that die in between and return within the session timeout prevent the second round: the broker hands them the
first round's assignment, and calls the group stable.

    describe the group, stable  ->  partitions without an owner  ->  the same CONFIRM_SECONDS later  ->  ask to rejoin

Every member asks: only a rejoin of the group's leader starts a rebalance (Kafka 4.3.1). A group without members is
looked at like a stable one: it has expelled this worker.

Another program in the group keeps partitions like any worker. Only a worker's client id names the group and its own
instance (`kafka.clients`).
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, RetriableError, TopicAuthorizationFailedError

from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Reader
from streamer.transports.kafka.handshake import require_login
from streamer.transports.kafka.rights import require_rights_on_topics, transactional_id
from streamer.transports.kafka.silence import CHECK_SECONDS
from streamer.transports.kafka.topics import same_topic_partitions

log = structlog.get_logger(__name__)

CONFIRM_SECONDS = 2.5
"""Time until the look that confirms unread partitions, above a rebalance's second round."""

_REBALANCES = frozenset({"PreparingRebalance", "CompletingRebalance"})
"""States of a group that end by themselves."""

Member = Mapping[str, Any]
"""The broker's description of a member."""


class OwnershipWatch:
    """Periodic comparison of the group's assignments with the input's partitions."""

    def __init__(self, settings: Settings, instance: str) -> None:
        self._settings = settings
        self._instance = instance
        self._group = settings.kafka.group
        self._topic = settings.topics.input
        self._due_seconds = time.monotonic() + CHECK_SECONDS
        self._suspects: frozenset[int] = frozenset()
        self._answered = True
        self.unowned: tuple[int, ...] = ()
        """Partitions unread for CONFIRM_SECONDS, ascending."""
        self.strangers: tuple[str, ...] = ()
        """Other programs in the group: client, host and partitions in words."""
        self._seen_seconds = -math.inf
        self.answered_seconds = -math.inf
        """Monotonic time of the broker's last answer, even an error."""

    def look(self, admin: KafkaAdminClient, reader: Reader, topic_id: str) -> None:
        """Look, if due. The reader rejoins at its next poll if partitions stay without an owner.

        Without an answer, the last result stays valid. Raises SettingsError for changed passwords or withdrawn rights, and
        DeliveryDoubtful for a changed topic id, which an idle consumer may miss.
        """
        if time.monotonic() < self._due_seconds:
            return
        partitions, members = self._answer(admin, topic_id)
        self._due_seconds = time.monotonic() + CHECK_SECONDS
        if members is None:
            self._suspects = frozenset()
            return
        workers = [member for member in members if self._is_worker(member)]
        # The broker names a static member's partitions before, or without, its client's learning of them.
        owned_here = self._partitions_of([each for each in workers if each["group_instance_id"] == self._instance])
        unread = partitions - self._partitions_of(workers) | owned_here - reader.assignment()
        if unread - self._suspects:
            self._due_seconds = time.monotonic() + CONFIRM_SECONDS
        unowned = tuple(sorted(unread & self._suspects))
        self._suspects = unread
        if free := sorted(frozenset(unowned) - self._partitions_of(members)):
            log.warning("no worker reads these partitions; rejoining the group", topic=self._topic, partitions=free)
            reader.rejoin()
        elif self.unowned and not unowned:
            log.info("every partition has an owner again", topic=self._topic)
        self.unowned = unowned

    def ask_for_strangers(self, admin: KafkaAdminClient) -> tuple[str, ...]:
        """Other programs in the group, by a recent look or a new request."""
        if time.monotonic() - self._seen_seconds > 2 * CHECK_SECONDS:
            with suppress(KafkaError):
                self._members(admin)
        return self.strangers

    def _answer(self, admin: KafkaAdminClient, topic_id: str) -> tuple[frozenset[int], Sequence[Member] | None]:
        """Input partitions, and members as `_members` gives them. No partitions without an answer."""
        try:
            answer = self._partitions(admin, topic_id), self._members(admin)
        except KafkaError as error:
            # Once: the client complains often enough about an absent broker.
            if self._answered:
                log.warning("cannot look for partitions without an owner", reason=str(error))
            self._answered = False
            if isinstance(error, RetriableError):
                # Else the reading would wait for ever: the client does not report the refusal.
                require_login(self._settings.kafka, everywhere=True)
            return frozenset(), None
        self._answered = True
        return answer

    def _partitions(self, admin: KafkaAdminClient, topic_id: str) -> frozenset[int]:
        try:
            return same_topic_partitions(self._settings, admin, topic_id)
        except TopicAuthorizationFailedError:
            # The client goes silent after a refusal in its metadata.
            require_rights_on_topics(self._settings, admin)
            raise

    def _members(self, admin: KafkaAdminClient) -> Sequence[Member] | None:
        """Members; None in a rebalance or without an answer. Raises KafkaError."""
        group = admin.describe_groups([self._group])[self._group]
        self.answered_seconds = time.monotonic()
        if group["error"] is not None:
            raise KafkaError(group["error"])
        if group["group_state"] in _REBALANCES:
            return None
        members: Sequence[Member] = group["members"]
        self._seen_seconds = self.answered_seconds
        self._note_strangers([self._words(member) for member in members if not self._is_worker(member)])
        return members

    def _note_strangers(self, strangers: Sequence[str]) -> None:
        if strangers and tuple(strangers) != self.strangers:
            log.warning("other programs are members of the group", group=self._group, members=list(strangers))
        elif self.strangers and not strangers:
            log.info("no other program is a member of the group any more", group=self._group)
        self.strangers = tuple(strangers)

    def _is_worker(self, member: Member) -> bool:
        instance = member["group_instance_id"]
        return instance is not None and member["client_id"] == transactional_id(self._settings.kafka, instance)

    def _words(self, member: Member) -> str:
        named = ", ".join(map(str, sorted(self._partitions_of([member])))) or "none"
        return f"client {member['client_id']!r} at {member['client_host'].lstrip('/')} (partitions: {named})"

    def _partitions_of(self, members: Sequence[Member]) -> frozenset[int]:
        return frozenset(
            partition
            for member in members
            # A member without partitions, or with its own scheme, has no readable assignment.
            if isinstance(member["member_assignment"], Mapping)
            for topic in member["member_assignment"]["assigned_partitions"]
            if topic["topic"] == self._topic
            for partition in topic["partitions"]
        )
