"""Where sources begin in a part without an index."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from index import Source
from streamer.errors import Rebalancing, RecoveryRefused
from streamer.parts.starting import Notes, OffsetStarter
from streamer.service.recovery import Unrecovered
from streamer.settings.settings import Recovery
from streamer.transports.transport import Assigned, Claim

ONE, TWO = Source("stream", 0), Source("stream", 1)
FIRST, END = 4, 100


class Outside:
    """Committed offsets, and what a part asked for."""

    def __init__(self, committed: Mapping[Source, int], *, rebalancing: bool = False, foreign: bool = False) -> None:
        self._committed = dict(committed)
        self._foreign = foreign
        self._rebalancing = rebalancing
        self.sought: dict[Source, int] = {}
        self.started: dict[Source, int] = {}

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        known = self._committed
        return {
            each: Claim(known[each], "", in_use=True, foreign=self._foreign) if each in known else None
            for each in sources
        }

    def strangers(self) -> tuple[str, ...]:
        return ("client 'reports' at 10.0.0.7 (partitions: 0)",)

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        return dict.fromkeys(sources, FIRST)

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        return dict.fromkeys(sources, END)

    def commit_start(self, offsets: Mapping[Source, int]) -> None:
        if self._rebalancing:
            raise Rebalancing("the group shares its partitions out anew")
        self.started.update(offsets)

    def seek(self, source: Source, offset: int, _applied: object) -> None:
        self.sought[source] = offset


def begun(
    outside: Outside,
    delivered: Mapping[Source, int] | None = None,
    others: tuple[Source, ...] = (),
    handed_on: int = 0,
    foreign: bool = False,
    **policy: Any,
) -> Any:
    """`foreign`: what is delivered was committed by another program."""
    claims = {source: Claim(at, "", in_use=True, foreign=foreign) for source, at in (delivered or {}).items()}
    beginner = OffsetStarter(outside, Recovery(**policy), lambda *_: handed_on, lambda: claims)  # type: ignore[arg-type]
    return beginner.recover(Assigned((ONE,), {"stream": "documents"}, others))


def with_notes(committed: Mapping[Source, int], noted: int, outputs: Iterable[int], *, foreign: bool = False) -> Any:
    """Outside, and where the source begins, with a note and delivered offsets in the outputs."""
    outside, asked = Outside(committed, foreign=foreign), list[range]()

    def delivered(source: Source, offsets: range) -> int:
        assert source == ONE
        asked.append(offsets)
        return max((offset + 1 for offset in outputs if offset in offsets), default=0)

    notes = Notes(lambda source: noted if source == ONE else 0, delivered)
    starter = OffsetStarter(outside, Recovery(foreign_offsets="trust"), lambda *_: 0, notes=notes)  # type: ignore[arg-type]
    plans = starter.recover(Assigned((ONE, TWO), {"stream": "documents"}, ()))
    assert isinstance(plans, dict)
    assert plans[TWO].begin == FIRST
    return outside, plans[ONE].begin, asked


@pytest.mark.parametrize("committed", [{}, {ONE: 20}])
def test_commits_that_brokers_lost_deliver_nothing_again(committed: Mapping[Source, int]) -> None:
    # The last batch may have been delivered without a note, and the offset before the note may be no record.
    for outputs, begin in ((range(FIRST, 50), 50), (range(FIRST, 56), 56), (range(FIRST, 47), 47)):
        outside, began, _ = with_notes(committed, 50, outputs)
        assert began == begin
        assert outside.sought[ONE] == begin
        assert outside.started[ONE] == begin


def test_outputs_are_looked_at_only_where_a_note_says_that_commits_are_missing() -> None:
    for committed, noted in (({ONE: 50}, 50), ({ONE: 60}, 50), ({ONE: 30}, 0), ({}, 0), ({}, FIRST)):
        _, began, asked = with_notes(committed, noted, range(FIRST, 99))
        assert asked == []
        assert began == committed.get(ONE, FIRST)


def test_an_offset_that_a_person_has_set_counts_as_it_is() -> None:
    _, began, asked = with_notes({ONE: 20, TWO: FIRST}, 50, range(FIRST, 50), foreign=True)
    assert (began, asked) == (20, [])


def test_outputs_as_old_as_the_commits_are_filled_again_and_without_a_commit_a_person_decides() -> None:
    _, began, _ = with_notes({ONE: 20}, 50, ())
    assert began == 20
    with pytest.raises(
        RecoveryRefused, match=r"documents/0: the group has no offset.* up to offset 50, and the outputs"
    ):
        with_notes({}, 50, ())


def test_a_part_goes_on_where_its_group_stands() -> None:
    outside = Outside({ONE: 30})
    assert begun(outside)[ONE].begin == 30
    assert (outside.sought, outside.started) == ({ONE: 30}, {})


def test_a_part_begins_where_the_whole_service_has_delivered_to_if_that_is_further() -> None:
    for committed in ({}, {ONE: 30}):
        outside = Outside(committed)
        assert begun(outside, {ONE: 50})[ONE].begin == 50
        assert (outside.sought, outside.started) == ({ONE: 50}, {ONE: 50})
    assert begun(Outside({ONE: 60}), {ONE: 50})[ONE].begin == 60


def test_a_first_start_begins_at_the_first_record_and_says_so_to_the_group() -> None:
    outside = Outside({})
    assert begun(outside)[ONE].begin == FIRST
    assert outside.started == {ONE: FIRST}


def test_a_first_start_at_the_end_is_refused_for_the_parts_would_begin_at_different_ends() -> None:
    with pytest.raises(RecoveryRefused, match=r"recovery\.first_start"):
        begun(Outside({}), first_start="latest")


def test_a_partition_that_is_added_later_begins_at_its_first_record() -> None:
    outside = Outside({TWO: 9})
    assert begun(outside, others=(TWO,), first_start="latest")[ONE].begin == FIRST


def test_documents_that_retention_took_are_for_a_person_to_skip() -> None:
    with pytest.raises(RecoveryRefused, match=r"recovery\.offsets_gone"):
        begun(Outside({ONE: 1}))
    plan = begun(Outside({ONE: 1}), offsets_gone="skip")[ONE]
    assert (plan.begin, plan.skipped, plan.restore) == (FIRST, FIRST - 1, range(0))


def test_an_input_that_lost_records_is_refused() -> None:
    with pytest.raises(RecoveryRefused, match="the input ends at 100"):
        begun(Outside({ONE: 101}))


def test_nothing_is_restored_where_there_is_no_index() -> None:
    assert begun(Outside({ONE: 30}), index_behind="stop")[ONE].restore == range(0)


def test_a_rebalance_amid_the_start_lets_the_part_look_again() -> None:
    outside = Outside({}, rebalancing=True)
    assert begun(outside) is Unrecovered.WAITING
    assert outside.sought == {}


def test_an_offset_that_another_program_committed_is_refused_and_the_program_is_named() -> None:
    outside = Outside({ONE: 30}, foreign=True)
    with pytest.raises(RecoveryRefused) as refusal:
        begun(outside, handed_on=20)
    for words in (
        "documents/0",
        "offset 30",
        "--to-offset 20",
        "client 'reports' at 10.0.0.7",
        "foreign_offsets = 'trust'",
    ):
        assert words in str(refusal.value)
    assert (outside.sought, outside.started) == ({}, {})


@pytest.mark.parametrize(("handed_on", "policy"), [(30, {}), (40, {}), (0, {"foreign_offsets": "trust"})])
def test_a_foreign_offset_is_taken_over_where_nothing_is_skipped_or_the_policy_says_so(
    handed_on: int, policy: dict[str, str]
) -> None:
    outside = Outside({ONE: 30}, foreign=True)
    assert begun(outside, handed_on=handed_on, **policy)[ONE].begin == 30
    assert (outside.sought, outside.started) == ({ONE: 30}, {ONE: 30})


def test_a_part_does_not_begin_behind_what_another_program_committed_for_the_whole_service() -> None:
    assert begun(Outside({ONE: 30}), {ONE: 50}, foreign=True)[ONE].begin == 30
    assert begun(Outside({ONE: 30}), {ONE: 50}, foreign=True, foreign_offsets="trust")[ONE].begin == 50
