"""Each check of what brokers told, and what makes it fail."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamer.doctor import brokers
from streamer.doctor.finding import Finding, State, exit_code
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.settings import Index, Settings, Workers
from streamer.transports.kafka.diagnosis import Facts, TopicFacts
from streamer.transports.kafka.handshake import Greeting
from streamer.transports.kafka.rights import Resource, Right, rights_of

SETTINGS = Settings(index=Index(age_max_hours=24.0))
DAY = 86_400
NOW = 1_000 * DAY

GOOD = TopicFacts(
    4,
    3,
    {
        "cleanup.policy": "delete",
        "max.message.bytes": "1000000",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
        "retention.bytes": "-1",
        "retention.ms": "-1",
    },
)
NAMES = ("documents", "documents-unique", "documents-duplicate", "documents-dead-letter")


def changed(**settings: str) -> TopicFacts:
    assert GOOD.settings is not None
    return replace(
        GOOD, settings={**GOOD.settings, **{key.replace("_", "."): value for key, value in settings.items()}}
    )


def of_topics(name: str, facts: TopicFacts | None, settings: Settings = SETTINGS) -> list[Finding]:
    """What is found unwell where one topic is otherwise than good."""
    found = brokers.topics(settings, {**dict.fromkeys(NAMES, GOOD), name: facts}, ())
    return [finding for finding in found if finding.state is not State.OK]


def test_topics_that_fit_are_well() -> None:
    assert of_topics("documents", GOOD) == []


@pytest.mark.parametrize(
    ("name", "facts", "state", "words"),
    [
        ("documents", None, State.WRONG, "topics create"),
        ("documents-dead-letter", None, State.WRONG, "topics.dead_letter"),
        ("documents-unique", changed(cleanup_policy="compact"), State.WRONG, "compaction"),
        ("documents", changed(cleanup_policy="compact,delete"), State.WRONG, "compaction"),
        ("documents-unique", changed(message_timestamp_type="CreateTime"), State.WRONG, "before.max.ms is 3600000"),
        (
            "documents-dead-letter",
            changed(message_timestamp_type="CreateTime"),
            State.ADVICE,
            "after.max.ms is 3600000",
        ),
        ("documents-duplicate", changed(min_insync_replicas="4"), State.WRONG, "writes fail"),
        ("documents-duplicate", changed(max_message_bytes="999999"), State.WRONG, "raise max.message.bytes"),
        ("documents", changed(max_message_bytes=str(2**27)), State.WRONG, "kafka.request_bytes_max"),
        ("documents-unique", changed(retention_ms=str(23 * 3_600_000)), State.ADVICE, "restored in part"),
        ("documents-unique", changed(retention_bytes="1"), State.ADVICE, "1 bytes a partition"),
        ("documents", replace(GOOD, settings=None), State.UNCHECKED, "cannot be seen"),
        ("documents-unique", replace(GOOD, settings=None), State.UNCHECKED, "DESCRIBE_CONFIGS"),
    ],
)
def test_a_topic_that_does_not_fit_is_told(name: str, facts: TopicFacts | None, state: State, words: str) -> None:
    found = of_topics(name, facts)
    assert state in {finding.state for finding in found}
    assert words in " ".join(f"{finding.result} {finding.remedy}" for finding in found)


def test_the_topic_of_stories_is_looked_at_if_it_is_named_and_should_be_compacted() -> None:
    named = SETTINGS.model_copy(update={"topics": SETTINGS.topics.model_copy(update={"stories": "stories"})})
    [found] = of_topics("stories", GOOD, named)
    assert (found.state, "compact" in found.remedy) == (State.ADVICE, True)
    assert of_topics("stories", changed(cleanup_policy="compact"), named) == []
    [missing] = of_topics("stories", None, named)
    assert "topics.stories" in missing.remedy


def test_what_is_kept_as_long_as_documents_count_is_enough() -> None:
    assert of_topics("documents-unique", changed(retention_ms=str(24 * 3_600_000))) == []


def test_documents_that_count_for_ever_need_topics_that_keep_for_ever() -> None:
    [found] = of_topics("documents-unique", changed(retention_ms=str(1_000 * 3_600_000)), Settings())
    assert "for ever" in found.result


def test_more_workers_than_partitions_are_told() -> None:
    settings = SETTINGS.model_copy(update={"workers": Workers(count=8)})
    [found] = of_topics("documents", GOOD, settings)
    assert found.state is State.ADVICE
    assert "workers.count" in found.remedy


def test_a_topic_that_may_not_be_seen_is_not_said_to_be_missing() -> None:
    right = next(right for right in rights_of(SETTINGS) if right.setting == "topics.input")
    found = list(brokers.topics(SETTINGS, {**dict.fromkeys(NAMES, GOOD), "documents": None}, [right]))
    assert found[0].state is State.UNCHECKED


@pytest.mark.parametrize("right", rights_of(SETTINGS), ids=str)
def test_a_right_that_is_withheld_is_told_with_its_purpose(right: Right) -> None:
    found = [finding for finding in brokers.rights(SETTINGS, [right]) if finding.state is not State.OK]
    assert found == [
        Finding(
            str(right),
            f"not allowed; needed {right.purpose}",
            "allow it: docs/running.md, Rights",
            state=State.WRONG if right.required else State.ADVICE,
        )
    ]


@pytest.mark.parametrize("key", ["kafka.session_timeout_ms", "kafka.transaction_timeout_ms"])
def test_a_timeout_that_is_refused_or_could_not_be_tried_is_told(key: str) -> None:
    refused = {each.check: each.state for each in brokers.timeouts(SETTINGS, Facts((), {}, [key], ()))}
    untried = {each.check: each.state for each in brokers.timeouts(SETTINGS, Facts((), {}, (), [key]))}
    assert refused[key] is State.WRONG
    assert untried[key] is State.UNCHECKED
    assert len(refused) == 2
    assert list(refused.values()).count(State.OK) == 1


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (Greeting((), None), State.OK, "answers"),
        (Greeting((), NOW + 31 * DAY), State.OK, "31 days"),
        (Greeting((), NOW + 29 * DAY), State.ADVICE, "29 days"),
        (Greeting((), NOW - 2 * DAY), State.WRONG, "expired 2 days ago"),
        (SettingsError("kafka.sasl_password: no"), State.WRONG, "kafka.sasl_password"),
        (BrokerUnavailable("no answer"), State.AWAY, "no answer"),
    ],
)
def test_every_broker_is_told_of(answer: Greeting, state: State, words: str) -> None:
    [found] = brokers.connections({"one:9092": answer}, NOW)
    assert found.state is state
    assert words in f"{found.result} {found.remedy}"
    assert found.check == "broker one:9092"


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ((), 0),
        ((State.OK, State.ADVICE, State.UNCHECKED), 0),
        ((State.OK, State.AWAY), 75),
        ((State.AWAY, State.WRONG), 78),
    ],
)
def test_the_exit_code_says_whether_a_person_or_time_mends_it(states: tuple[State, ...], code: int) -> None:
    assert exit_code(Finding("", "", state=state) for state in states) == code


@pytest.mark.parametrize(
    ("newest_ms", "state", "words"),
    [
        (None, State.UNCHECKED, "has no record time"),
        (0, State.OK, "no record"),
        (NOW * 1000, State.OK, "no record"),
        ((NOW + 300) * 1000, State.OK, "no record"),
        ((NOW + 301) * 1000, State.ADVICE, "0.1 hours ahead"),
        ((NOW + DAY) * 1000, State.ADVICE, "24.0 hours ahead"),
        (2**63 - 1, State.ADVICE, "hours ahead"),
    ],
)
def test_a_record_from_the_future_is_told_of(newest_ms: int | None, state: State, words: str) -> None:
    found = brokers.clock(newest_ms, NOW)
    assert found.state is state
    assert words in found.result


def of_parts(
    fingerprints: TopicFacts | None, verdicts: TopicFacts | None, withheld: Sequence[Right] = ()
) -> list[Finding]:
    found = {**dict.fromkeys(NAMES, GOOD), "documents-fingerprints": fingerprints, "documents-verdicts": verdicts}
    return [each for each in brokers.parts(SETTINGS, found, withheld) if each.state is not State.OK]


def test_topics_between_parts_need_not_be_there() -> None:
    right = Right("WRITE", Resource.TOPIC, "documents-verdicts", "topics.verdicts", "to deliver verdicts")
    assert of_parts(None, None, [right]) == []


def test_topics_between_parts_have_as_many_partitions_as_the_input() -> None:
    assert of_parts(GOOD, GOOD) == []
    [found] = of_parts(GOOD, replace(GOOD, partitions=5))
    assert (found.state, "5 partitions" in found.result, "'documents' has 4" in found.result) == (
        State.WRONG,
        True,
        True,
    )


def test_topics_between_parts_are_not_compacted_and_have_the_times_of_the_brokers() -> None:
    by_clients = changed(message_timestamp_type="CreateTime")
    for topics, why in (((by_clients, GOOD), "an engine"), ((GOOD, by_clients), "the wrong clock of a host")):
        [found] = of_parts(*topics)
        assert (found.state, "LogAppendTime" in found.remedy, why in found.remedy) == (State.ADVICE, True, True)
    [found] = of_parts(GOOD, changed(cleanup_policy="compact"))
    assert found.state is State.WRONG


def test_a_right_that_a_part_lacks_is_named_with_the_part() -> None:
    right = Right("WRITE", Resource.TOPIC, "documents-verdicts", "topics.verdicts", "to deliver verdicts")
    [found] = of_parts(GOOD, GOOD, [right])
    assert found.state is State.ADVICE
    assert found.check.startswith("decide: WRITE on topic")
