"""An answer is a decision in a caller's words."""

import pytest

from index import Verdict
from streamer.ask.answer import answer_of
from streamer.records.record import Decision


def test_a_position_that_stands_for_an_id_is_no_id() -> None:
    assert answer_of(Decision(Verdict.UNIQUE, "no-match", "check/0/3"), "check/0/3").id is None
    assert answer_of(Decision(Verdict.UNIQUE, "no-match", "a"), "check/0/3").id == "a"


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [
        (Verdict.UNIQUE, True),
        (Verdict.SUSPECT, True),
        (Verdict.UNDECIDABLE, True),
        (Verdict.DUPLICATE, False),
        (Verdict.DEAD_LETTER, True),
    ],
)
def test_all_but_duplicates_is_kept(verdict: Verdict, kept: bool) -> None:
    assert answer_of(Decision(verdict, "any", "a"), "check/0/0").kept is kept


def test_a_problem_is_what_no_document_has_and_names_reason_and_detail() -> None:
    for verdict in Verdict:
        answer = answer_of(Decision(verdict, "no-text", "a", detail="there is no text"), "check/0/0")
        assert answer.problem == ("no-text: there is no text" if verdict is Verdict.DEAD_LETTER else None)
    assert answer_of(Decision(Verdict.DEAD_LETTER, "tombstone", "a"), "check/0/0").problem == "tombstone"
