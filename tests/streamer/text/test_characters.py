"""Normal form and script rules: the tables against the definition, over all of Unicode."""

import sys
import unicodedata
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streamer.text.characters import Rule, fold, letters, normalise, ragged, rule_table
from streamer.text.look_alikes import ALPHABETS
from streamer.text.same_letters import same_letters
from tests.support.examples import examples

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]")


def definition(text: str) -> str:
    """The steps of `normalise`, in their order."""
    seen = "".join(character for character in text if not INVISIBLE.match(character)).translate(
        str.maketrans(same_letters())
    )
    form = unicodedata.normalize("NFKD", seen).casefold().translate(str.maketrans(same_letters()))
    form = unicodedata.normalize("NFKC", form).casefold()
    form = unicodedata.normalize("NFKC", form).replace("\u06c0", "\u0647\u0654")
    letter, kept = "", ""
    for character in form:
        is_mark = unicodedata.category(character).startswith("M")
        letter = letter if is_mark else character
        name = unicodedata.name(letter or " ", "")
        is_symbol = unicodedata.category(letter or "=").startswith("S")
        is_stroke = character == "\u0338" and not is_symbol
        is_stress = character in "\u0300\u0301" and name.startswith(("CYRILLIC", "MODIFIER LETTER CYRILLIC"))
        kept += "" if is_stroke or is_stress or (character == "\u0307" and letter in list("ij")) else character
    return " ".join(unicodedata.normalize("NFKC", kept).split())


def alphabets_meet(text: str) -> bool:
    """Whether letters of several alphabets meet in a text; `test_look_alikes` has the form of these."""
    return sum(bool(regex.search(rf"\p{{Script={name}}}", text)) for name in ALPHABETS) > 1


@cache
def odd_characters() -> list[str]:
    """Every character that a step changes, or that can act upon a neighbour."""
    return [
        character
        for character in map(chr, [*range(0x20000), *range(0xE0000, 0xE0200)])
        if definition(character) != character or unicodedata.combining(character)
    ] + list("aei ιΣσς가각각\u1161\u11a8\u0300\ud800\udc00")


# Made when the first test asks: they take seconds.
ODD_TEXT = st.deferred(lambda: st.lists(st.sampled_from(odd_characters()), max_size=6).map("".join))


def normalised(texts: list[str]) -> list[str]:
    characters = fold(texts)
    return [characters.text(row) for row in range(len(texts))]


@pytest.mark.rest
def test_every_single_character_has_the_form_of_the_definition() -> None:
    planes_with_characters = [*range(0x40000), *range(0xE0000, 0xE1000)]
    everything = [chr(codepoint) for codepoint in [*planes_with_characters, *range(0x40000, sys.maxunicode + 1, 199)]]
    forms = normalised(everything)
    wrong = [character for character, form in zip(everything, forms, strict=True) if form != definition(character)]
    assert [character for character in wrong if not alphabets_meet(definition(character))] == []
    assert normalised(forms) == forms


@examples(300)
@given(st.lists(ODD_TEXT | ANY_TEXT, max_size=5))
def test_the_tables_agree_with_the_definition_wherever_characters_meet(texts: list[str]) -> None:
    chosen = [text for text in texts if not alphabets_meet(definition(text))]
    assert normalised(chosen) == [definition(text) for text in chosen]


def test_texts_of_odd_characters_agree_with_the_definition() -> None:
    """Many pairs of neighbours of every kind at once; a property test would need hours to find them."""
    generator = np.random.default_rng(20_240_601)
    odd = odd_characters()
    texts = ["".join(odd[place] for place in places) for places in generator.integers(0, len(odd), (20_000, 3))]
    texts = [text for text in texts if not alphabets_meet(definition(text))]
    forms = normalised(texts)
    assert len(texts) > 10_000
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
        ("Straße İstanbul ΣΑΣ", "strasse istanbul σασ"),
        ("ﬁn ½ ①②…", "fin 1⁄2 12..."),
        ("한국", "한국"),
        ("\u0345\u0301α", "\u0301ια"),
        ("\ud800 a\udc00", "\ud800 a\udc00"),
        ("\x00a", "\x00a"),
    ],
)
def test_the_normal_form_of_examples(text: str, form: str) -> None:
    assert normalise(text) == form


def test_the_form_of_a_text_does_not_depend_on_its_batch() -> None:
    texts = ["e", "\u0301", "", "\u0323", " ", "ㄱ", "가", "\u11a8", "a\u200b", "\u200b"]
    assert normalised(texts) == [normalise(text) for text in texts]


@pytest.mark.parametrize(
    ("characters", "rule"),
    [
        ("。😀+_- \n", Rule.SEPARATOR),
        ("a1한हé", Rule.WORD),
        ("\u4e00长\u9fd5", Rule.HAN),
        ("々〇\u3400\u9fd6\U00020000", Rule.IDEOGRAPH),
        ("ไあーษ", Rule.UNSPACED),
        ("\u0301\u0e34\u093f", Rule.MARK),
        ("'", Rule.APOSTROPHE),
    ],
)
def test_the_rule_of_each_character(characters: str, rule: Rule) -> None:
    assert {Rule(found) for found in rule_table()[list(map(ord, characters))].tolist()} == {rule}


@given(st.lists(ANY_TEXT, max_size=6))
def test_bounds_separate_the_texts(texts: list[str]) -> None:
    characters = fold(texts)
    assert characters.bounds[0] == 0
    assert characters.bounds[-1] == len(characters.codepoints)
    assert (np.diff(characters.bounds) >= 0).all()
    assert len(characters.bounds) == len(texts) + 1
    parts = [characters.codepoints[begin:end].tolist() for begin, end in pairwise(characters.bounds)]
    assert parts == [fold([text]).codepoints.tolist() for text in texts]


def test_ragged_counts_up_from_each_start() -> None:
    assert ragged(np.array([5, 9, 1]), np.array([2, 0, 3])).tolist() == [5, 6, 1, 2, 3]
    assert ragged(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


@given(st.lists(ANY_TEXT, max_size=5))
def test_letters_are_all_but_separators_and_apostrophes(texts: list[str]) -> None:
    rules = rule_table()
    wanted = [
        sum(rules[ord(letter)] not in (Rule.SEPARATOR, Rule.APOSTROPHE) for letter in normalise(text)) for text in texts
    ]
    assert letters(fold(texts)).tolist() == wanted
