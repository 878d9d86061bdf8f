"""Texts side by side: what differs is shown, what a terminal would obey is not."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.explain import side_by_side as module
from streamer.explain.explanation import Span
from streamer.explain.printable import printable
from streamer.explain.side_by_side import BRIEF_CHANGES_MAX, CHANGES_MAX, excerpt, in_one, side_by_side
from tests.support.examples import examples

texts = st.lists(
    st.sampled_from(
        ["Ash", "birch, ", "\n ", "don't ", "elm", "七八", "九", "ไทย ", "\x1b[2J", "…", "\u202e", "ﬁ", " 7.5%"]
    ),
    max_size=30,
).map("".join)


def joined(spans: tuple[Span, ...], kind: str = "") -> str:
    return "".join(span.text for span in spans if kind in ("", span.kind))


@examples(200)
@given(texts, texts)
def test_in_full_both_texts_come_back_and_what_is_the_same_has_the_same_words(before: str, after: str) -> None:
    found = side_by_side(before, after, full=True)
    for text, spans in ((before, found.before), (after, found.after)):
        assert joined(spans) in (printable(text).strip(), "")
        assert all(span.kind in ("same", "differing") for span in spans)
    same = [
        [word for span in spans if span.kind == "same" for word, _ in module._words(span.text)]
        for spans in (found.before, found.after)
    ]
    assert same[0] == same[1]
    assert (found.changes == 0) == (not joined(found.before + found.after, "differing"))
    assert side_by_side(before, before).changes == 0


@examples(200)
@given(st.text())
def test_nothing_that_a_terminal_obeys_comes_through(text: str) -> None:
    for shown in (printable(text), joined(excerpt(text)), joined(side_by_side(text, "x").before)):
        assert not [
            character
            for character in shown
            if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        ]


def test_case_punctuation_and_white_space_make_no_change_and_are_shown_as_written() -> None:
    found = side_by_side("The  Quick,\nbrown fox", "the quick brown FOX!")
    assert found.changes == 0
    assert (joined(found.before), joined(found.after)) == ("The Quick, brown fox", "the quick brown FOX!")
    # Ideographic full stops are common to several scripts, as kana are: they are no words either.
    assert side_by_side("你好、我们。ラー", "你好我们ラー。").changes == 0


@pytest.mark.parametrize(
    ("before", "after", "of_before", "of_after"),
    [
        ("one two three four", "one two 3 four", "three ", "3 "),
        ("今天天气很好，我们去公园玩。", "今天天气很差，我们去公园玩。", "好，", "差，"),
        ("alpha beta gamma", "alpha gamma", "beta ", ""),
        # A single word between two changes belongs to them.
        ("red is a colour of roses", "blue is no colour of violets", "red is a ", "blue is no "),
    ],
)
def test_words_that_differ_are_marked(before: str, after: str, of_before: str, of_after: str) -> None:
    found = side_by_side(before, after)
    assert joined(found.before, "differing").startswith(of_before)
    assert joined(found.after, "differing").startswith(of_after)


def test_long_texts_are_shown_around_their_changes_alone() -> None:
    words = [f"word{number} " for number in range(3_000)]
    changed = words.copy()
    for place in (500, 1_500):
        changed[place] = "other "
    found = side_by_side("".join(words), "".join(changed))
    assert (found.changes, found.hidden) == (2, 0)
    assert joined(found.before, "differing") == "word500 word1500 "
    assert joined(found.after, "differing") == "other other "
    assert "word490 word491" in joined(found.before, "same")
    assert "word489" not in joined(found.before)
    assert [span.text for span in found.after if span.kind == "gap"] == [
        " … 490 more … ", " … 980 more … ", " … 1,490 more … ",
    ]  # fmt: skip
    assert joined(side_by_side("".join(words), "".join(changed), full=True).before) == "".join(words).strip()


def test_further_changes_are_counted() -> None:
    words = [f"word{number} " for number in range(3_000)]
    changed = ["other " if number % 100 == 50 else word for number, word in enumerate(words)]
    found = side_by_side("".join(words), "".join(changed))
    assert (found.changes, found.hidden) == (30, 30 - CHANGES_MAX)
    assert len([span for span in found.after if span.kind == "differing"]) == CHANGES_MAX


def test_two_texts_in_one_have_the_changes_of_both_sides_in_less_context() -> None:
    words = [f"word{number} " for number in range(3_000)]
    changed = ["other " if number % 100 == 50 else word for number, word in enumerate(words)]
    spans, hidden = in_one("".join(words), "".join(changed))
    assert joined(spans, "removed") == "word50 word150 word250 "
    assert joined(spans, "added") == "other " * BRIEF_CHANGES_MAX
    assert hidden == 30 - BRIEF_CHANGES_MAX
    assert len(joined(spans)) < 350


@examples(200)
@given(texts, texts)
def test_two_texts_in_one_give_both_back_if_nothing_is_left_out(before: str, after: str) -> None:
    spans, hidden = in_one(before, after)
    if not spans:
        assert side_by_side(before, after).changes == 0
    elif not hidden and not joined(spans, "gap"):
        new = "".join(span.text for span in spans if span.kind != "removed")
        assert new in (printable(after).strip(), "")
        old = [word for span in spans if span.kind != "added" for word, _ in module._words(span.text)]
        assert old == [word for word, _ in module._words(before)]


def test_what_would_take_too_long_to_compare_is_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED_WORDS_MAX", 3)
    assert side_by_side("same a b c d same", "same e b c f same").changes == 1
    monkeypatch.setattr(module, "COMPARED_WORDS_MAX", 4)
    assert side_by_side("same aa bbbbbbbbb c d same", "same e bbbbbbbbb c f same").changes == 2


def test_a_text_by_itself_is_shown_by_its_beginning_or_in_full() -> None:
    text = "".join(f"word{number:04} " for number in range(1_000))
    assert joined(excerpt(text), "same") == text[: 45 * 9]
    assert joined(excerpt(text), "gap") == " … 955 more … "
    assert joined(excerpt(text, full=True)) == text.strip()
    assert (joined(excerpt("")), joined(excerpt("...\x07"))) == ("", r"...\x07")


def longest(old: list[str], new: list[str]) -> int:
    """Length of the longest common subsequence, by the table of its definition."""
    row = [0] * (len(new) + 1)
    for word in old:
        above = row.copy()
        for at, other in enumerate(new, start=1):
            row[at] = above[at - 1] + 1 if word == other else max(above[at], row[at - 1])
    return row[-1]


@examples(200)
@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abcd"), max_size=40))
def test_common_words_are_a_longest_common_subsequence(old: list[str], new: list[str]) -> None:
    pairs = module.common(old, new)
    assert all(old[one] == new[other] for one, other in pairs)
    assert all(one < later[0] and other < later[1] for (one, other), later in pairwise(pairs))
    assert len(pairs) == longest(old, new)
