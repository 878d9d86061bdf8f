from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from index.dataflow import HISTORY, Arrival, Dataflow, Kind, Message, Seeds, Stage, name_digests
from index.dataflow.flow import FORMAT_VERSION
from index.dataflow.resolving.forgotten import FORGOTTEN
from index.dataflow.resolving.given_back import GIVEN_BACK
from index.entry import Source
from index.errors import StateDiffersError
from index.matching.root import RootRule
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

    def __init__(self, flow: Dataflow = FLOW) -> None:
        self.order, self.task = flow.order(), KeyState({})

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
    # Each has a time of its own, repeated ones too.
    assert ordered.batches(arrival(3, 8)) == [(1_002, 5, 2, 3)]
    assert ordered.batches(arrival(8, 8)) == []
    assert ordered.batches(arrival(20, 21)) == [(1_003, 20, 0, 1)]


def test_a_job_without_a_state_refuses_to_begin_behind_the_first_document_unless_it_is_told() -> None:
    with pytest.raises(ValueError, match="Partition 3 of documents begins at offset 1,500, and this job has no state"):
        Ordered().messages(arrival(1_500, 1_502))
    told = replace(FLOW, incomplete=True)
    assert told.stamp == FLOW.stamp
    assert Ordered(told).batches(arrival(1_500, 1_502)) == [(1_000, 1_500, 0, 2)]
    # A partition that has a state has seen what comes before.
    ordered = Ordered()
    ordered.messages(arrival(0, 1))
    assert ordered.batches(arrival(20, 21)) == [(1_001, 20, 0, 1)]


def test_time_never_goes_back_though_the_clock_of_the_log_does() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 1, 5_000))
    assert ordered.batches(arrival(1, 2, 4_000)) == [(5_001, 1, 0, 1)]
    # Empty and repeated batches move watermarks on as others do.
    ordered.messages(arrival(2, 2, 6_000))
    ordered.messages(arrival(0, 2, 7_000))
    assert ordered.batches(arrival(2, 3, 4_500)) == [(7_001, 2, 0, 1)]


def test_a_topic_that_was_made_again_is_another_input_with_keys_of_its_own() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 2))
    assert ordered.batches(arrival(0, 2, source=Source("other", 3))) == [(1_001, 0, 0, 2)]
    assert ordered.batches(arrival(0, 2)) == []


def test_a_range_without_documents_is_told_to_join_alone() -> None:
    (message,) = Ordered().messages(replace(arrival(0, 0), end=4))
    assert message.stage is Stage.JOIN
    assert message.key == 3


def test_other_settings_than_those_of_the_state_are_refused_by_their_names() -> None:
    ordered = Ordered()
    ordered.messages(replace(arrival(0, 1), stamp='{"weight":"tf"}'))
    with pytest.raises(StateDiffersError, match=r"other settings: fingerprint\.weight: stored tf, asked \(not set\)\."):
        ordered.messages(arrival(1, 2))
    for other, setting in (
        (replace(FLOW, shards=5), "shards: stored 4, asked 5"),
        (replace(FLOW, parameters=Parameters(distance_max=4)), "distance_max: stored 3, asked 4"),
        (replace(FLOW, parameters=Parameters(insert="root", root=RootRule(6))), "insert: stored unique, asked root"),
    ):
        # Also before any document came: a sign of life is enough.
        for given in (arrival(1, 2), arrival(0, 0)):
            with pytest.raises(StateDiffersError, match=f"{setting}.* Go on with the stored ones"):
                list(other.order().arrive(ordered.task, given))


def test_a_state_of_an_older_format_is_refused_by_its_version() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 1))
    ((name, content),) = ordered.task.content.items()
    ordered.task.put_all({name: content.replace(f'"format": "{FORMAT_VERSION}"'.encode(), b'"format": "1"')})
    with pytest.raises(
        StateDiffersError, match=f"format: stored 1, asked {FORMAT_VERSION}. Go on with the stored ones"
    ):
        ordered.messages(arrival(1, 2))


def seeded(place: int, ends: dict[str, int] | None = None, until_ms: int = -1) -> Arrival:
    none = np.zeros((0, 2), np.uint64)
    columns = np.zeros(0, np.int64), none, none[:, :1], none[:, :0].astype(np.uint8), np.zeros(0, np.uint32)
    seeds = Seeds(*columns, ends=ends, until_ms=until_ms)
    return replace(arrival(0, 0 if ends else 3, place), content=b"", seeds=seeds)


def test_entries_of_an_index_are_decided_by_nobody_and_what_they_cover_is_dropped() -> None:
    ordered = Ordered()
    kinds = {message.kind for message in ordered.messages(seeded(1))}
    assert kinds == {Kind.NAMES, Kind.CLAIMS}
    assert ordered.messages(seeded(2, {"stream": 7})) == []
    assert ordered.batches(arrival(5, 9)) == [(1_000, 7, 2, 2)]


def test_entries_of_an_index_come_once_and_first_and_all_of_them() -> None:
    ordered = Ordered()
    ordered.messages(seeded(1))
    with pytest.raises(ValueError, match="lacks entries of the index"):
        ordered.messages(arrival(5, 9))
    with pytest.raises(ValueError, match="twice, or too late"):
        ordered.messages(seeded(1))
    late = Ordered()
    late.messages(arrival(0, 1))
    with pytest.raises(ValueError, match="seed a job that has no state"):
        late.messages(seeded(2_000))


def test_entries_that_were_written_for_other_settings_are_refused() -> None:
    history = replace(seeded(1), seeds=replace(seeded(1).seeds, history=np.zeros(3, HISTORY)))
    for flow, given in ((FLOW, history), (replace(FLOW, updates=True), seeded(1))):
        with pytest.raises(ValueError, match=r"as another index\.recrawl or retention needs them. Write them again"):
            Ordered(flow).messages(given)


def test_what_the_log_forgot_or_gave_back_while_the_index_decided_is_known() -> None:
    updating, names = Ordered(replace(FLOW, updates=True)), np.array(name_digests("id-1"), np.uint64)
    updating.messages(seeded(1, {"stream": 7}, until_ms=2_000))
    forgetting, given_back = (
        replace(arrival(7, 7, 2_000), forgets=names),
        replace(arrival(2, 4, 2_000), given_back=True),
    )
    assert updating.messages(forgetting) == updating.messages(given_back) == []
    later = [replace(each, time_ms=2_001) for each in (forgetting, given_back)]
    assert {each.kind for each in updating.messages(later[0])} == {Kind.FORGOTTEN}
    assert Kind.GIVEN_BACK in {each.kind for each in updating.messages(later[1])}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (arrival(0, 1, time_ms=2**48), "time"),
        (arrival(0, 1, source=Source("stream", 2**16)), "partition"),
    ],
)
def test_what_a_key_cannot_hold_is_refused(given: Arrival, what: str) -> None:
    with pytest.raises(ValueError, match=f"a batch has the {what}"):
        Ordered(replace(FLOW, incomplete=True)).messages(given)


def test_a_job_whose_entries_never_leave_refuses_to_forget_and_says_what_would() -> None:
    ordered, names = Ordered(), np.array(name_digests("id-1"), np.uint64)
    ordered.messages(arrival(0, 5))
    with pytest.raises(
        ValueError, match=r'no entry leaves.*Submit it without the state and with index.recrawl = "update"'
    ):
        ordered.messages(replace(arrival(5, 5), forgets=names))
    updating = Ordered(replace(FLOW, updates=True))
    updating.messages(arrival(0, 5))
    (message,) = updating.messages(replace(arrival(5, 5, 900), forgets=names))
    assert (message.stage, message.kind) == (Stage.RESOLVE, Kind.FORGOTTEN)
    # Behind the documents that the log had before, though its clock went back.
    rows = np.frombuffer(message.content, FORGOTTEN).tolist()
    assert rows == [(name, 1_001 << 16 | 3, 0) for name in names.tolist()]


def test_what_was_given_back_comes_behind_all_before_and_decides_no_offsets() -> None:
    updating = Ordered(replace(FLOW, updates=True))
    updating.messages(arrival(0, 5))
    given_back = replace(arrival(2, 4, 900), given_back=True)
    messages = updating.messages(given_back)
    (noted,) = [each for each in messages if each.kind is Kind.GIVEN_BACK]
    rows = np.frombuffer(noted.content, GIVEN_BACK)
    assert [row[:2] for row in rows.tolist()] == [(1_001 << 16 | 3, row) for row in range(2)]
    assert rows["names"][:, 0].tolist() == [name_digests(f"id-{offset}")[0] for offset in (2, 3)]
    assert Stage.JOIN not in {each.stage for each in messages}
    assert {Stage.NAME, Stage.CLAIM, Stage.VERSIONS} <= {each.stage for each in messages}
    assert updating.batches(arrival(5, 6)) == [(1_002, 5, 0, 1)]


def test_a_job_whose_entries_never_leave_refuses_what_was_given_back() -> None:
    ordered = Ordered()
    ordered.messages(arrival(0, 5))
    with pytest.raises(ValueError, match=r"to be given back.*no entry leaves"):
        ordered.messages(replace(arrival(2, 4), given_back=True))
