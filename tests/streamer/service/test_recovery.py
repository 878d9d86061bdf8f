"""Every state that a start can find has one written answer."""

import pytest

from streamer.errors import RecoveryRefused
from streamer.service.recovery import Plan, SourceOffsets, plan
from streamer.settings.settings import Recovery


def found(
    committed: int | None, applied: int | None, *, first: int = 0, end: int = 100, recreated: bool = False
) -> SourceOffsets:
    return SourceOffsets("news", 3, committed, applied, first, end, recreated)


STOPPING = Recovery(index_behind="stop")


@pytest.mark.parametrize("policy", [Recovery(), STOPPING])
def test_a_group_and_an_index_that_agree_go_on_where_they_were(policy: Recovery) -> None:
    assert plan(found(7, 7), policy) == Plan(7)


@pytest.mark.parametrize("policy", [Recovery(), STOPPING])
def test_an_index_ahead_of_the_group_replays_from_the_committed_offset(policy: Recovery) -> None:
    assert plan(found(5, 9), policy) == Plan(5)


def test_an_index_behind_the_group_is_restored_before_going_on() -> None:
    assert plan(found(9, 5), Recovery()) == Plan(9, restore=range(5, 9))


def test_an_index_behind_the_group_stops_where_the_policy_says_so() -> None:
    with pytest.raises(RecoveryRefused, match=r"news/3: the group is at 9, the index at 5.*recovery\.index_behind"):
        plan(found(9, 5), STOPPING)


def test_a_new_index_under_an_old_group_is_restored_from_the_beginning() -> None:
    assert plan(found(9, None), Recovery()) == Plan(9, restore=range(9))


def test_a_new_index_under_a_group_that_committed_nothing_yet_has_nothing_to_restore() -> None:
    assert plan(found(0, None), STOPPING) == Plan(0)


def test_a_first_start_begins_at_the_first_record_and_says_so_to_the_group() -> None:
    assert plan(found(None, None, first=4), Recovery()) == Plan(4, commit=True)


def test_a_first_start_may_begin_behind_the_last_record() -> None:
    assert plan(found(None, None, first=4), Recovery(first_start="latest")) == Plan(100, commit=True)


def test_lost_group_offsets_need_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"everything below 8.*recovery\.committed_missing"):
        plan(found(None, 8), Recovery())


def test_lost_group_offsets_may_be_taken_from_the_index() -> None:
    assert plan(found(None, 8), Recovery(committed_missing="applied")) == Plan(8, commit=True)


def test_lost_group_offsets_below_what_retention_kept_are_counted_as_skipped() -> None:
    policy = Recovery(committed_missing="applied")
    assert plan(found(None, 8, first=20), policy) == Plan(20, commit=True, skipped=12)


def test_lost_group_offsets_may_be_answered_by_delivering_everything_again() -> None:
    assert plan(found(None, 8, first=2), Recovery(committed_missing="earliest")) == Plan(2, commit=True)


def test_a_recreated_input_needs_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"deleted and made again.*recovery\.topic_recreated"):
        plan(found(None, None, recreated=True), Recovery())


def test_a_recreated_input_is_read_from_its_first_record() -> None:
    policy = Recovery(topic_recreated="continue", first_start="latest")
    assert plan(found(None, None, recreated=True), policy) == Plan(0, commit=True)


def test_a_recreated_input_that_was_begun_before_goes_on_as_any_other() -> None:
    assert plan(found(5, 9, recreated=True), Recovery()) == Plan(5)
    assert plan(found(5, None, recreated=True), Recovery()) == Plan(5, restore=range(5))


def test_undelivered_records_that_retention_took_need_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"5 offsets from 10 on were deleted.*recovery\.offsets_gone"):
        plan(found(10, 10, first=15), Recovery())


def test_undelivered_records_that_retention_took_are_skipped_and_counted_where_the_policy_says_so() -> None:
    policy = Recovery(offsets_gone="skip")
    assert plan(found(10, 4, first=15), policy) == Plan(15, restore=range(4, 10), commit=True, skipped=5)


@pytest.mark.parametrize(("committed", "applied"), [(101, 101), (None, 101)])
def test_offsets_behind_the_end_always_need_a_person(committed: int | None, applied: int) -> None:
    policy = Recovery(offsets_gone="skip", topic_recreated="continue", committed_missing="applied")
    with pytest.raises(RecoveryRefused, match="at offset 101, but the input ends at 100"):
        plan(found(committed, applied), policy)
