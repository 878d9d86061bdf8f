"""Unicode's normal forms, equal to those of `unicodedata`, for runs of marks without end too."""

import sys
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.text import unicode_forms
from streamer.text.characters import normalise
from streamer.text.unicode_forms import INSERTED_MAX, Form, unicode_form

FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
# Marks of many classes, marks that decompose or fold to letters, letters that become marks, letters with marks, and others.
ACTING = list("\u0301\u0316\u0345\u0344\u0308\u3099\u0323\u093c\u0591\u034f\u200dｶﾞéếΐ각\u1161\u11a8ﷺﹷaα中\ud800")
runs = st.tuples(st.lists(st.sampled_from(ACTING), max_size=12).map("".join), st.integers(1, 60)).map(
    lambda piece: piece[0] * piece[1]
)
texts = st.lists(runs, max_size=3).map("".join)


@pytest.mark.parametrize("form", FORMS)
@given(text=texts)
def test_every_form_is_that_of_unicodedata(form: Form, text: str) -> None:
    assert unicode_form(form, text) == unicodedata.normalize(form, text)


@given(texts)
def test_the_normal_form_of_long_runs_is_stable(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [INSERTED_MAX - 1, INSERTED_MAX, INSERTED_MAX + 1, 2 * INSERTED_MAX])
def test_runs_about_the_limit_are_put_in_order(form: Form, count: int) -> None:
    for text in ("a" + "\u0301" * count + "\u0316", "\u0301" * count + "\u0316b", "é\u0316" * count):
        assert unicode_form(form, text) == unicodedata.normalize(form, text)


def test_all_characters_with_marks_are_in_the_table() -> None:
    table = unicode_forms._have_marks()
    for codepoint in range(sys.maxunicode + 1):
        form = unicodedata.normalize("NFKD", chr(codepoint))
        assert table[codepoint] == any(map(unicodedata.combining, form))


HOSTILE: list[Callable[[int], str]] = [
    lambda count: "a" + "\u0301" * count + "\u0316" * count,
    lambda count: "a" + "\u0301" * count + "\uff9e" * count,
    lambda count: "a" + "\u0301\u0316" * count,
    lambda count: "\u0344" * count + "\u0316" * count,
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_marks_out_of_order_take_no_longer_than_a_few_seconds(hostile: Callable[[int], str]) -> None:
    text = hostile(100_000)
    begin = time.process_time()
    normalise(text)
    assert time.process_time() - begin < 4


@pytest.mark.rest
def test_without_the_sort_they_would_take_quadratic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(count: int) -> float:
        text = HOSTILE[0](count)
        begin = time.process_time()
        unicode_form("NFD", text)
        return time.process_time() - begin

    monkeypatch.setattr(unicode_forms, "INSERTED_MAX", sys.maxsize)
    assert seconds(20_000) > 4**1.5 * seconds(5_000)
