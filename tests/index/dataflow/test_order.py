from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from index.dataflow import Arrival, Dataflow, Kind, Message, Stage
from index.entry import Source
from index.errors import ParametersDiffer
from index.storage.parameters import Parameters
from tests.support.dataflow import KeyState
from tests.support.entries import Row, entries_of

SOURCE = Source("stream", 3)
FLOW = Dataflow(Parameters(), shards=4, slot_ms=100)


def arrival(begin: int, end: int, time_ms: int = 1_000, source: Source = SOURCE) -> Arrival:
    rows = [Row(offset, (offset * 2**40) % 2**64, source, id=f"id-{offset}") for offset in range(begin, end)]
    entries = entries_of(rows or [Row(begin, 0, source)])
    return Arrival(time_ms, source, "documents", begin, end, "{}", entries.take(np.arange(len(rows))), b"content")


class Ordered:
    """ORDER with the state of one partition."""

    def __init__(self) -> None:
        self.order, self.task = FLOW.order(), KeyState({})

    def batches(self, given: Arrival) -> list[tuple[int, int, int, int]]:
        """Time, first offset, first row and number of rows of what goes to JOIN."""
        return [read for message in self.messages(given) for read in heading(message)]

    def messages(self, given: Arrival) -> list[Message]:
        return list(self.order.arrive(self.task, given))


def heading(message: Message) -> Iterator[tuple[int, int, int, int]]:
    if message.stage is Stage.JOIN:
        assert message.kind is Kind.BATCH
        high, begin, first, count = np.frombuffer(message.content, "<u8", 4).tolist()
        assert message.slot - FLOW.slot_ms < high >> 16 <= message.slot
        yield high >> 16, begin, first, count


def test_what_was_seen_is_dropped_and_of_the_rest_only_the_rest_is_handed_out() -> None:
    ordered = Ordered()
    assert ordered.batches(arrival(0, 5)) == [(1_000, 0, 0, 5)]
    assert ordered.batches(arrival(0, 5)) == []
    assert ordered.batches(arrival(3, 8)) == [(1_000, 5, 2, 3)]
    assert ordered.batches(arrival(8, 8)) == []
    assert ordered.batches(arrival(20, 21)) == [(1_000, 20, 0, 1)]


def test_time_never_goes_back_though_the_clock_of_the_log_does() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 1, 5_000))
    assert ordered.batches(arrival(1, 2, 4_000)) == [(5_000, 1, 0, 1)]
    # Empty and repeated batches move watermarks on as others do.
    ordered.messages(arrival(2, 2, 6_000))
    ordered.messages(arrival(0, 2, 7_000))
    assert ordered.batches(arrival(2, 3, 4_500)) == [(7_000, 2, 0, 1)]


def test_a_topic_that_was_made_again_is_another_input_with_keys_of_its_own() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 2))
    assert ordered.batches(arrival(0, 2, source=Source("other", 3))) == [(1_001, 0, 0, 2)]
    assert ordered.batches(arrival(0, 2)) == []


def test_a_range_without_documents_is_told_to_join_alone() -> None:
    (message,) = Ordered().messages(replace(arrival(0, 0), end=4))
    assert message.stage is Stage.JOIN
    assert message.key == 3


def test_other_settings_than_those_of_the_state_are_refused() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 1))
    with pytest.raises(ParametersDiffer, match="documents was decided with other settings"):
        ordered.messages(replace(arrival(1, 2), stamp='{"weight":"tf"}'))
    with pytest.raises(ParametersDiffer, match="begin with an empty state"):
        list(replace(FLOW, shards=5).order().arrive(ordered.task, arrival(1, 2)))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (arrival(0, 1, time_ms=2**48), "time"),
        (arrival(0, 1, source=Source("stream", 2**16)), "partition"),
        (arrival(2**48, 2**48 + 1), "offset"),
    ],
)
def test_what_a_key_cannot_hold_is_refused(given: Arrival, what: str) -> None:
    with pytest.raises(ValueError, match=f"a batch has the {what}"):
        Ordered().messages(given)
