"""Digests of texts against their definition, written plainly."""

import re

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.fingerprint.digests import digests_of
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.text import passage_kernels, substance
from streamer.text.characters import decode, fold, normalise
from streamer.text.substance import counters_and_dates
from tests.support.examples import examples

KEY = HashKey.of(b"0123456789abcdef")
PIECES = [
    *("阅读 12 次", "阅读 13 次", "two missing", "two dead. ", "1,204 views", "3.5", "end.", "!", "é", " word " * 20),
    *(" ", "  ", "\n", " \n ", "\t", "\x1c", "\0", "\u1680", "\u2003 ", "\u2028", "\x85", "\u205f", "\u3000", "x" * 64),
    *(
        " · ",
        "|",
        ":",
        "。",
        "? ",
        ". ",
        ", ",
        "(",
        "x",
        "candidate: 12:30",
        "view",
        "_",
        "٣ views 3",
        "12:30",
        "row 7\n" * 20,
    ),
]
ITEMS = st.from_regex(re.compile(substance._ITEM.pattern), fullmatch=True)
TEXTS = st.lists(st.sampled_from(PIECES) | ITEMS | st.text(max_size=10) | st.text("ab1. \n", max_size=90), max_size=9)


def plain_digests(text: str) -> list[int]:
    """The definition: a short passage with digits, among a text's first or last that are so, loses counters and dates."""
    (letters,) = [decode(fold([text]).codepoints)]
    lines = [" ".join(line.split()) for line in re.split("[\n\r\v\f\x85\u2028\u2029]", letters)]
    parts = [re.split(r"(?<=[!?。])|(?<=\.)(?= |$)", line) for line in lines if line]
    places = [(line, part) for line, listed in enumerate(parts) for part in range(len(listed))]
    passages = [
        (line, part)
        for line, part in places
        if re.search("[0-9]", parts[line][part])
        and len(parts[line][part].replace(" ", "")) <= passage_kernels.LETTERS_MAX
    ]
    whole = " ".join(map("".join, parts))
    for line, part in {*passages[: passage_kernels.PASSAGES_MAX], *passages[-passage_kernels.PASSAGES_MAX :]}:
        passage = parts[line][part].lstrip(" ")
        blank = parts[line][part][: -len(passage)]
        for begin, end, word in reversed(counters_and_dates(passage, is_sentence=passage[-1] in ".!?。")):
            passage = passage[:begin] + word + passage[end:]
        parts[line][part] = blank + passage
    both = (whole, " ".join(map("".join, parts)))
    return [xxhash.xxh3_64_intdigest(text.encode("utf-32-le", "surrogatepass"), KEY.seed) for text in both]


def digests(*texts: str, key: HashKey = PUBLIC) -> list[list[int]]:
    return digests_of(fold(texts), key).tolist()


@examples(200)
@given(st.lists(TEXTS.map("".join), max_size=4))
@example(["1 hr ago"])
def test_digests_are_those_of_the_normal_form_and_of_the_substance(texts: list[str]) -> None:
    assert digests(*texts, key=KEY) == [plain_digests(text) for text in texts]
    assert [text for text, _ in digests(*texts, key=KEY)] == [
        xxhash.xxh3_64_intdigest(normalise(text).encode("utf-32-le", "surrogatepass"), KEY.seed) for text in texts
    ]


@pytest.mark.rest
def test_no_passage_is_left_unexamined_for_a_word_of_an_item() -> None:
    """Every word and every ideograph of the items, at each place where one may have it."""
    pattern = re.sub(r"\\.|\?P<\w+>|\?", "", substance._ITEM.pattern)
    words = {*re.findall(r"[^\W\d_]+", pattern), *filter(lambda letter: letter >= "\u1100", pattern), "tt", "ttt"}
    items = [
        *("{} 12", "{}: 12", "12 {}", "12{}", "{} 12:30", "{}: 12:30", "{} 5, 2024", "5 {} 2024", "5 de {} de 2024"),
        *(
            "3 {} ago",
            "3 hours {}",
            "3{}前",
            "3分{}",
            "9:30 {}",
            "9:30 {}.m.",
            "9:30 a.{}",
            "{}, 5 may",
            "{} last 5 may",
        ),
        *(
            "5 may 2024 {} 9:30",
            "1-5-2024{}9:30",
            "12{} views",
            "12 {} views",
            "12{}阅读",
            "5{} may",
            "views 5 {}",
            "{}5:30",
        ),
        *(
            "updated {} 9:30",
            "last {} 9:30",
            "mis à {} 5 mai",
            "publié {} 5 mai",
            "5月1日{}",
            "({}12)",
            "阅读{} 12",
            "5 may {}",
        ),
    ]
    lines = ["{}", "x {}", "{} · views 3 x", "x · {} | x", "x{}, views 3", "{}。"]
    texts = [line.replace("{}", item.replace("{}", word)) for word in words for item in items for line in lines]
    expected = np.array([plain_digests(text) for text in texts], np.uint64)
    assert np.count_nonzero(expected[:, 0] != expected[:, 1]) > 3_000
    (differing,) = np.nonzero((digests_of(fold(texts), KEY) != expected).any(axis=1))
    assert [texts[row] for row in differing[:10].tolist()] == []


def test_white_space_of_all_kinds_collapses_at_every_place_of_a_block() -> None:
    """A block of 64 characters is copied whole if it holds single spaces and line feeds only."""
    blanks = [chr(codepoint) for codepoint in range(0x110000) if chr(codepoint).isspace()]
    texts = [
        "y" * place + pair + "z" * 80
        for place in (0, 1, 63, 64, 65, 127, 128)
        for one in blanks
        for pair in (one, one + " ")
    ]
    assert digests(*texts, key=KEY) == [plain_digests(text) for text in texts]


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
