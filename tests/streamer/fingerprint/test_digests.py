"""Digests of texts against their definition, written plainly."""

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.fingerprint.digests import digests_of
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.text.characters import fold, normalise

KEY = HashKey.of(b"0123456789abcdef")
PIECES = [
    "阅读 12 次",
    "阅读 13 次",
    "two missing",
    "two found. ",
    "1,204 views",
    "  ",
    "\n",
    "\u2028",
    "3.5",
    "end.",
    "!",
    "é",
]
LINES = st.sampled_from([*PIECES, " word " * 20])


def digests(*texts: str, key: HashKey = PUBLIC) -> list[list[int]]:
    return digests_of(fold(texts), key).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(LINES | st.text(max_size=10)).map("".join), max_size=6))
def test_the_digest_of_a_text_is_that_of_its_normal_form(texts: list[str]) -> None:
    expected = [
        xxhash.xxh3_64_intdigest(normalise(text).encode("utf-32-le", "surrogatepass"), KEY.seed) for text in texts
    ]
    assert [text for text, _ in digests(*texts, key=KEY)] == expected
    assert digests(*texts, key=KEY) == [row for text in texts for row in digests(text, key=KEY)]


@pytest.mark.parametrize("text", ["", " \n", "two missing", "1,204 people\nwere saved."])
def test_a_text_without_counters_and_dates_is_its_own_substance(text: str) -> None:
    ((of_text, of_substance),) = digests(text)
    assert of_text == of_substance


def test_other_counters_change_the_text_and_not_its_substance() -> None:
    body = "The search goes on. Two are missing.\n"
    texts = np.array(digests(f"{body}1,204 views", f"{body}1,205 views", f"{body}1,205 dead", body))
    assert len(set(texts[:, 0].tolist())) == 4
    assert [row.tolist() for row in texts[:, 1] == texts[0, 1]] == [True, True, False, False]


def test_a_passage_ends_with_a_line_and_a_sentence() -> None:
    for before in ("Prose without an end\n", "Prose. ", "散文。"):
        (one, other) = digests(f"{before}12 views", f"{before}13 views")
        assert one[1] == other[1]
    (one, other) = digests("Prose without an end, 12 views", "Prose without an end, 13 views")
    assert one[1] != other[1]


def test_a_long_passage_is_prose() -> None:
    for words, is_prose in ((50, False), (80, True)):
        line = "x" * words + " · "
        one, other = digests(f"{line}12 views", f"{line}13 views")
        assert (one[1] != other[1]) == is_prose


def test_another_key_gives_other_digests() -> None:
    assert digests("text") != digests("text", key=KEY)


def test_counters_amid_a_long_table_belong_to_its_substance() -> None:
    """So that a page of a thousand lines takes no longer than one of a hundred."""
    rows = [f"row {row}" for row in range(100)]
    for place, is_seen in ((0, True), (31, True), (50, False), (69, True), (99, True)):
        tables = ["\n".join([*rows[:place], f"{reads} views", *rows[place + 1 :]]) for reads in (12, 13)]
        one, other = digests(*tables)
        assert (one[1] == other[1]) == is_seen
