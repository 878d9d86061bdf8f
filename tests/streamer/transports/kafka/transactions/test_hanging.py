"""The end that a forgotten transaction must have, told from what is left of it; and the error where nothing tells."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.admin import TransactionState
from kafka.errors import LeaderNotAvailableError, TopicAuthorizationFailedError
from structlog.testing import capture_logs

from index.entry import Position, Source
from streamer.errors import BrokerUnavailable
from streamer.transports.kafka.transactions.commit_note import Unasked
from streamer.transports.kafka.transactions.hanging import (
    OFFSETS_TOPIC,
    Open,
    hanging,
    never_asked,
    outcome,
    partition_of_group,
    require_offsets_not_hanging,
)
from tests.support.examples import examples
from tests.support.transport_worlds import make_settings

SOURCE, OTHER = Source("stream", 0), Source("stream", 1)

ENDS = {
    True: (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT),
    False: (TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT, TransactionState.ONGOING),
}


@examples(300)
@given(
    commit=st.booleans(),
    starts=st.dictionaries(st.sampled_from([SOURCE, OTHER]), st.integers(0, 5), min_size=1),
    length=st.integers(1, 4),
    outputs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.booleans()), max_size=5),
    offsets=st.sampled_from(["not sent", "marked", "forgotten"]),
    taken=st.sets(st.sampled_from([SOURCE, OTHER])),
    state=st.data(),
)
def test_a_transaction_ends_as_it_was_decided_whichever_of_its_marks_were_forgotten(
    commit: bool,
    starts: dict[Source, int],
    length: int,
    outputs: Sequence[tuple[int, int, bool]],
    offsets: str,
    taken: set[Source],
    state: st.DataObject,
) -> None:
    # A transaction of records [start, start + length) of each source. Only one that sent its offsets can be committed.
    if offsets == "not sent":
        commit = False
    sources = sorted(starts)
    forgotten = [
        Position(sources[source % len(sources)], starts[sources[source % len(sources)]] + at % length)
        for source, at, marked in outputs
        if not marked
    ]
    moved = length if commit and offsets == "marked" else 0
    # Another worker may have delivered since what was aborted; none can begin behind an open offset.
    others = set() if offsets == "forgotten" else taken
    committed = {source: start + max(moved, length * (source in others)) for source, start in starts.items()}
    last = state.draw(st.sampled_from(ENDS[commit]))
    if forgotten or offsets == "forgotten":
        found = outcome(forgotten, committed, last, offsets_open=offsets == "forgotten")
        assert found is commit or (found is None and others & starts.keys())


@pytest.mark.parametrize("last", [None, TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT])
def test_what_no_offset_was_committed_for_is_aborted_whatever_the_coordinator_says(
    last: TransactionState | None,
) -> None:
    assert outcome([Position(SOURCE, 4), Position(OTHER, 7)], {SOURCE: 5, OTHER: 7}, last, offsets_open=False) is False


@pytest.mark.parametrize("last", [None, TransactionState.EMPTY, TransactionState.COMPLETE_ABORT])
def test_what_another_worker_may_have_delivered_is_not_committed_beside_it(last: TransactionState | None) -> None:
    assert outcome([Position(SOURCE, 4)], {SOURCE: 5}, last, offsets_open=False) is None


@pytest.mark.parametrize("last", [None, TransactionState.EMPTY, TransactionState.DEAD])
def test_offsets_that_are_open_tell_nothing_once_the_coordinator_has_forgotten_too(
    last: TransactionState | None,
) -> None:
    assert outcome([Position(SOURCE, 3)], {SOURCE: 5}, last, offsets_open=True) is None


@pytest.mark.parametrize(
    "positions",
    [
        pytest.param([None], id="a record that names no position"),
        pytest.param([Position(OTHER, 1)], id="a source of which nothing is committed"),
        pytest.param([Position(SOURCE, 4), None], id="one told, one not"),
    ],
)
def test_nothing_is_guessed_where_the_records_do_not_tell(positions: list[Position | None]) -> None:
    assert outcome(positions, {SOURCE: 5}, TransactionState.COMPLETE_COMMIT, offsets_open=False) is None


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        # Java's hash of this name is the least integer, which has no absolute value.
        ("polygenelubricants", 0),
        ("近似", 0x8FD1 * 31 + 0x4F3C),
    ],
)
def test_a_group_lies_where_the_broker_looks_for_it(group: str, code: int) -> None:
    for partitions in (1, 4, 50):
        assert partition_of_group(group, partitions) == code % partitions


def test_the_message_names_the_transaction_and_a_command_for_each_partition() -> None:
    settings = make_settings("one:9092")
    found = Open(7, {TopicPartition("unique", 2): 40}, {TopicPartition(OFFSETS_TOPIC, 3): 50})
    message = str(hanging(settings, "group-0", found))
    assert "transactional id 'group-0' (producer id 7)" in message
    assert repr(settings.kafka.group) in message
    assert "docs/runbook.md" in message
    for partition in ("unique --partition 2 --start-offset 40", f"{OFFSETS_TOPIC} --partition 3 --start-offset 50"):
        assert f"kafka-transactions.sh --bootstrap-server one:9092 abort --topic {partition}" in message
    assert "of an unknown transactional id" in str(hanging(settings, None, found))


def test_a_user_who_may_not_look_is_warned_of_it() -> None:
    def refuse(partitions: list[TopicPartition]) -> Any:
        raise TopicAuthorizationFailedError({partition.topic for partition in partitions})

    partitions = [{"partition_index": number} for number in range(4)]
    topic = {"name": OFFSETS_TOPIC, "error_code": 0, "partitions": partitions}
    admin: Any = SimpleNamespace(describe_topics=lambda _names: [topic], describe_producers=refuse)
    with capture_logs() as logged:
        require_offsets_not_hanging(make_settings(), admin)
    assert [(line["log_level"], line["topics"]) for line in logged] == [("warning", [OFFSETS_TOPIC])]


def test_a_topic_that_cannot_be_described_is_not_taken_for_one_without_partitions() -> None:
    topic = {"name": OFFSETS_TOPIC, "error_code": LeaderNotAvailableError.errno, "partitions": []}
    admin: Any = SimpleNamespace(describe_topics=lambda _names: [topic], describe_producers=None)
    with pytest.raises(BrokerUnavailable, match="LeaderNotAvailableError"):
        require_offsets_not_hanging(make_settings(), admin)


NOTED = Unasked((7, 3), {0: 10, 1: 0}, {0: 10, 2: 4})


def left(epoch: int = 3, *, offsets: bool = False) -> Open:
    return Open(
        7,
        {TopicPartition("unique", 0): 5},
        {TopicPartition(OFFSETS_TOPIC, 0): 9} if offsets else {},
        frozenset({epoch}),
    )


@pytest.mark.parametrize("offsets", [False, True])
def test_what_is_open_belongs_to_the_noted_transaction_where_it_can_be_of_no_earlier_one(offsets: bool) -> None:
    committed = {SOURCE: 10, Source("stream", 2): 4}
    assert never_asked(NOTED, left(offsets=offsets), [Position(SOURCE, 10)], committed)


@pytest.mark.parametrize(
    ("noted", "found", "positions", "reached"),
    [
        pytest.param(None, left(), [Position(SOURCE, 10)], 10, id="no note, or the commit was asked for"),
        pytest.param(NOTED, left(epoch=4), [Position(SOURCE, 10)], 10, id="a producer of another epoch"),
        pytest.param(NOTED, left(), [Position(SOURCE, 9)], 10, id="a record of the transaction before"),
        pytest.param(
            NOTED, left(), [Position(Source("stream", 2), 9)], 10, id="a record of a partition that is not noted"
        ),
        pytest.param(NOTED, left(), [None], 10, id="a record that names no position"),
        pytest.param(NOTED, left(offsets=True), [Position(SOURCE, 10)], 9, id="offsets of the transaction before"),
    ],
)
def test_nothing_is_aborted_that_may_be_of_an_earlier_transaction(
    noted: Unasked | None, found: Open, positions: list[Position | None], reached: int
) -> None:
    assert not never_asked(noted, found, positions, {SOURCE: reached, Source("stream", 2): 4})
