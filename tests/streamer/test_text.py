"""Normal form and script rules: the tables against the definition, over all of Unicode."""

import sys
import unicodedata

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.text import Characters, Rule, decode, fold, normalise, ragged, rules

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]")


def definition(text: str) -> str:
    """The order of steps as `normalise` promises it, step by step."""
    seen = "".join(character for character in text if not INVISIBLE.match(character))
    form = unicodedata.normalize("NFD", seen).casefold()
    form = unicodedata.normalize("NFKC", form).casefold()
    return " ".join(unicodedata.normalize("NFKC", form).split())


def odd_characters() -> list[str]:
    """Every character that some step changes, or that can act upon a neighbour."""
    return [
        character
        for character in map(chr, [*range(0x20000), *range(0xE0000, 0xE0200)])
        if definition(character) != character or unicodedata.combining(character)
    ] + list("aei ιΣσς가각각\u1161\u11a8\u0300\ud800\udc00")


ODD = odd_characters()
ODD_TEXT = st.lists(st.sampled_from(ODD), max_size=6).map("".join)


def normalised(texts: list[str]) -> list[str]:
    characters = fold(texts)
    return [characters.text(row) for row in range(len(texts))]


def test_every_character_by_itself_takes_the_form_of_the_definition() -> None:
    planes_with_characters = [*range(0x40000), *range(0xE0000, 0xE1000)]
    everything = [chr(codepoint) for codepoint in [*planes_with_characters, *range(0x40000, sys.maxunicode + 1, 199)]]
    forms = normalised(everything)
    wrong = [character for character, form in zip(everything, forms, strict=True) if form != definition(character)]
    assert wrong == []
    assert normalised(forms) == forms


@settings(max_examples=300)
@given(st.lists(ODD_TEXT | ANY_TEXT, max_size=5))
def test_the_tables_do_what_the_definition_says_wherever_characters_meet(texts: list[str]) -> None:
    assert normalised(texts) == [definition(text) for text in texts]


@settings(max_examples=300)
@given(ODD_TEXT | ANY_TEXT)
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


def test_texts_of_odd_characters_only_agree_with_the_definition() -> None:
    """Neighbours of every kind: many pairs at once, which a property test would need hours to meet."""
    generator = np.random.default_rng(20_240_601)
    texts = ["".join(ODD[place] for place in places) for places in generator.integers(0, len(ODD), (20_000, 3))]
    forms = normalised(texts)
    assert forms == [definition(text) for text in texts]
    assert normalised(forms) == forms


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", ""),
        (" \t\r\n\u3000\xa0\u2028 ", ""),
        ("  a \n\n b\u3000c ", "a b c"),
        ("ＡＢＣ１２３，！", "abc123,!"),
        ("你\u200b好\u2060世\ufeff界", "你好世界"),
        ("soft\xadhyphen", "softhyphen"),
        ("葛\U000e0100飾", "葛飾"),
        ("e\u200d\u0301", "é"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("Straße İstanbul ΣΑΣ", "strasse i̇stanbul σασ"),
        ("ﬁn ½ ①②…", "fin 1⁄2 12..."),
        ("한국", "한국"),
        ("\u0345\u0301α", "\u0301ια"),
        ("\ud800 a\udc00", "\ud800 a\udc00"),
        ("\x00a", "\x00a"),
    ],
)
def test_the_normal_form_of_examples(text: str, form: str) -> None:
    assert normalise(text) == form


def test_a_text_has_the_same_form_whatever_stands_beside_it() -> None:
    texts = ["e", "\u0301", "", "\u0323", " ", "ㄱ", "가", "\u11a8", "a\u200b", "\u200b"]
    assert normalised(texts) == [normalise(text) for text in texts]


def rule_names(text: str) -> list[str]:
    resolved, _ = rules(fold([text]))
    return [Rule(rule).name for rule in resolved.tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("长a。", ["HAN", "WORD", "SEPARATOR"]),
        ("々〇\u3400\u9fd6\U00020000", ["IDEOGRAPH"] * 5),
        ("한ไあー1", ["WORD", "UNSPACED", "UNSPACED", "UNSPACED", "WORD"]),
        ("ษา\u0e34", ["UNSPACED", "UNSPACED", "MARK"]),
        ("हि", ["WORD", "WORD"]),
        ("\u0301a", ["SEPARATOR", "WORD"]),
        ("长\u0327a\u0327\u0327", ["HAN", "SEPARATOR", "WORD", "WORD", "WORD"]),
        ("a'b", ["WORD", "WORD", "WORD"]),
        ("'a' b", ["SEPARATOR", "WORD", "SEPARATOR", "SEPARATOR", "WORD"]),
        ("长'a''b", ["HAN", "SEPARATOR", "WORD", "SEPARATOR", "SEPARATOR", "WORD"]),
        ("😀+_-", ["SEPARATOR"] * 4),
    ],
)
def test_the_rule_of_each_character(text: str, expected: list[str]) -> None:
    assert rule_names(text) == expected


def test_every_apostrophe_inside_a_word_is_written_alike() -> None:
    resolved, codepoints = rules(fold(["don’t", "donʼt", "don't"]))
    assert decode(codepoints) == "don't" * 3
    assert (resolved == Rule.WORD).all()


def test_neither_marks_nor_apostrophes_reach_over_the_border_of_a_text() -> None:
    resolved, _ = rules(fold(["a", "'", "b", "", "\u0327", "ไ", "\u0e31"]))
    expected = [Rule.WORD, Rule.SEPARATOR, Rule.WORD, Rule.SEPARATOR, Rule.UNSPACED, Rule.SEPARATOR]
    assert resolved.tolist() == expected


@given(st.lists(ANY_TEXT, max_size=6))
def test_bounds_part_the_texts(texts: list[str]) -> None:
    characters = fold(texts)
    assert isinstance(characters, Characters)
    assert characters.bounds[0] == 0
    assert characters.bounds[-1] == len(characters.codepoints)
    assert (np.diff(characters.bounds) >= 0).all()
    assert len(characters.bounds) == len(texts) + 1


def test_ragged_counts_up_from_each_start() -> None:
    assert ragged(np.array([5, 9, 1]), np.array([2, 0, 3])).tolist() == [5, 6, 1, 2, 3]
    assert ragged(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
