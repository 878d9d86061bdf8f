"""Partitions without an owner: told and claimed once they stay so while the group is stable, and not before."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from structlog.testing import capture_logs

from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.settings.settings import Kafka
from streamer.transports.kafka import ownership
from streamer.transports.kafka.client import Reader
from streamer.transports.kafka.ownership import CONFIRM_SECONDS, OwnershipWatch
from streamer.transports.kafka.silence import CHECK_SECONDS
from tests.support.secure_kafka import SecureKafka
from tests.support.transport_worlds import make_settings

Found = Sequence[Sequence[int]] | str | Exception
"""What one look finds: the partitions of each member of a stable group, another state of the group, or an error."""

PARTITIONS = [{"partition_index": number} for number in range(4)]
WHOLE = ((0, 1), (2, 3))
HALF = ((0, 1), ())


class Group:
    """A group of a topic with four partitions, as the watch sees it; `rejoins` counts what the watch asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = make_settings()
        self.seconds = 0.0
        self.looks = 0
        self.rejoins = 0
        self._found: Found = WHOLE
        self.topic_id: str | None = "begun with"
        self.foreign: set[int] = set()
        """Members, by their place, that are other programs."""
        self.unlearnt: set[int] = set()
        """Partitions of the watch's own member whose assignment has not arrived."""
        self.turned_away = 0
        """So many questions about topics are refused."""
        monkeypatch.setattr(ownership, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self.watch = OwnershipWatch(self.settings, "0-0")

    def at_next_look(self, found: Found) -> tuple[int, ...]:
        self._found = found
        self.seconds += CHECK_SECONDS
        self.look()
        return self.watch.unowned

    def look(self) -> None:
        self.watch.look(cast(KafkaAdminClient, self), cast(Reader, self), "begun with")

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        if self.turned_away:
            self.turned_away -= 1
            refused = {"error_code": TopicAuthorizationFailedError.errno, "authorized_operations": None}
            return [{"name": topic, "topic_id": None, **refused} for topic in topics]
        if len(topics) > 1:
            return [{"name": topic, "error_code": 0, "authorized_operations": None} for topic in topics]
        assert topics == [self.settings.topics.input]
        found = {"name": topics[0], "topic_id": self.topic_id, "error_code": 0, "partitions": PARTITIONS}
        return [found if self.topic_id else found | {"error_code": 3}]

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        (group,) = groups
        self.looks += 1
        if isinstance(self._found, Exception):
            raise self._found
        stable = not isinstance(self._found, str)
        members = self._found if stable else () if self._found == "Empty" else ((),)
        return {
            group: {
                "error": None if self._found != "error" else "GroupAuthorizationFailedError",
                "group_state": "Stable" if stable else self._found,
                "members": [
                    {
                        "client_id": f"{group}:0-{number}" if number not in self.foreign else "reports",
                        "group_instance_id": f"0-{number}" if number not in self.foreign else None,
                        "client_host": "/10.0.0.7",
                        "member_assignment": {
                            "assigned_partitions": [
                                {"topic": "another", "partitions": [0, 1, 2, 3]},
                                {"topic": self.settings.topics.input, "partitions": list(partitions)},
                            ]
                        }
                        if partitions
                        else b"",
                    }
                    for number, partitions in enumerate(members)
                ],
            }
        }

    def rejoin(self) -> None:
        self.rejoins += 1

    def assignment(self) -> frozenset[int]:
        owned = WHOLE[0] if isinstance(self._found, (str, Exception)) else self._found[0]
        return frozenset(owned) - self.unlearnt


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


def test_what_stays_without_an_owner_for_an_interval_is_told_and_claimed_until_it_has_one(group: Group) -> None:
    assert [group.at_next_look(HALF) for _ in range(3)] == [(), (2, 3), (2, 3)]
    assert group.rejoins == 2
    assert group.at_next_look(WHOLE) == ()
    assert group.rejoins == 2


def test_the_second_look_comes_early_so_that_ready_is_not_untrue_for_two_intervals(group: Group) -> None:
    assert group.at_next_look(HALF) == ()
    group.seconds += CONFIRM_SECONDS
    group.look()
    assert group.watch.unowned == (2, 3)
    group.seconds += CONFIRM_SECONDS
    group.look()
    assert group.looks == 2, "what is known already waits for the usual look"


def test_what_the_group_gave_to_this_worker_and_it_never_heard_of_counts_as_unread_but_needs_no_rejoin(
    group: Group,
) -> None:
    group.unlearnt = {1}
    assert [group.at_next_look(WHOLE) for _ in range(2)] == [(), (1,)]
    assert group.rejoins == 0, "the group's answer is under way"
    group.unlearnt = set()
    assert group.at_next_look(WHOLE) == ()


def test_another_program_is_named_and_what_it_owns_counts_as_read_by_no_worker(group: Group) -> None:
    group.foreign = {1}
    with capture_logs() as logged:
        assert [group.at_next_look(WHOLE) for _ in range(3)] == [(), (2, 3), (2, 3)]
    named = "client 'reports' at 10.0.0.7 (partitions: 2, 3)"
    assert group.watch.strangers == (named,)
    assert [each.get("members") for each in logged] == [[named]], "once, and no rejoin that would not help"
    assert group.rejoins == 0
    group.foreign = set()
    assert group.at_next_look(WHOLE) == ()
    assert group.watch.strangers == ()


def test_another_program_that_owns_nothing_yet_is_named_too(group: Group) -> None:
    group.foreign = {1}
    assert group.at_next_look(((0, 1, 2, 3), ())) == ()
    assert group.watch.strangers == ("client 'reports' at 10.0.0.7 (partitions: none)",)


def test_a_group_that_nobody_has_looked_at_yet_is_asked_for_other_programs(group: Group) -> None:
    group.foreign = {0}
    admin = cast(KafkaAdminClient, group)
    for _ in range(3):
        assert group.watch.ask_for_strangers(admin) == ("client 'reports' at 10.0.0.7 (partitions: 0, 1)",)
    assert group.looks == 1


def test_a_group_whose_partitions_all_have_owners_is_left_alone(group: Group) -> None:
    assert {group.at_next_look(WHOLE) for _ in range(5)} == {()}
    assert (group.looks, group.rejoins) == (5, 0)


def test_partitions_in_the_middle_of_a_move_are_not_claimed(group: Group) -> None:
    for found in (HALF, WHOLE, ((2, 3), ()), HALF, WHOLE):
        assert group.at_next_look(found) == ()
    assert group.rejoins == 0


def test_a_group_that_lost_all_its_members_is_joined_anew(group: Group) -> None:
    assert [group.at_next_look("Empty") for _ in range(2)] == [(), (0, 1, 2, 3)]
    assert group.rejoins == 1
    assert group.at_next_look(WHOLE) == ()


@pytest.mark.parametrize(
    "unknown", ["PreparingRebalance", "CompletingRebalance", "error", KafkaConnectionError("away")]
)
def test_where_nothing_is_known_nothing_is_asked_for_and_what_was_found_stands(group: Group, unknown: Found) -> None:
    assert [group.at_next_look(each) for each in (HALF, unknown, HALF)] == [(), (), ()]
    assert group.at_next_look(HALF) == (2, 3)
    assert group.at_next_look(unknown) == (2, 3)
    assert group.rejoins == 1


def test_a_broker_that_gives_no_answer_is_told_of_once_until_it_does(group: Group) -> None:
    away = KafkaConnectionError("away")
    with capture_logs() as logged:
        for found in (away, away, "error", WHOLE, away):
            group.at_next_look(found)
    assert ["away" in each["reason"] for each in logged] == [True, True]


def test_the_broker_is_asked_once_an_interval_however_often_the_input_is_read(group: Group) -> None:
    for _ in range(100):
        group.look()
        group.seconds += CHECK_SECONDS / 10
    assert 8 <= group.looks <= 10


@pytest.mark.parametrize(("found", "told"), [(None, "was deleted$"), ("another", "was deleted and recreated$")])
def test_a_topic_that_is_no_longer_the_same_ends_the_reading_even_where_nothing_is_read(
    group: Group, found: str | None, told: str
) -> None:
    assert group.at_next_look(WHOLE) == ()
    group.topic_id = found
    with pytest.raises(DeliveryDoubtful, match=told):
        group.at_next_look(WHOLE)


def test_a_right_on_the_input_that_was_withdrawn_needs_a_person_even_where_the_client_is_silent(group: Group) -> None:
    assert group.at_next_look(WHOLE) == ()
    group.turned_away = 2
    with pytest.raises(SettingsError, match=f"does not allow .*READ on topic '{group.settings.topics.input}'"):
        group.at_next_look(WHOLE)


def test_a_right_that_is_there_again_is_not_missed(group: Group) -> None:
    assert group.at_next_look(HALF) == ()
    group.turned_away = 1
    assert [group.at_next_look(HALF) for _ in range(3)] == [(), (), (2, 3)]


@pytest.mark.kafka
def test_a_broker_that_turns_the_service_away_while_it_runs_needs_a_person(
    secure_kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(monkeypatch)
    changed = secure_kafka.connection("SASL", secure_kafka.make_user()) | {"sasl_password": "the former one"}
    kafka = Kafka(**(group.settings.kafka.model_dump() | changed))
    group.watch = OwnershipWatch(group.settings.model_copy(update={"kafka": kafka}), "0-0")
    with pytest.raises(SettingsError, match=r"kafka.sasl_password: .* refuses"):
        group.at_next_look(KafkaConnectionError("socket disconnected"))


def test_a_broker_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch)
    assert group.at_next_look(KafkaConnectionError("socket disconnected")) == ()
