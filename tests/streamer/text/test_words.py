"""Words of whole batches against the plain rules."""

from itertools import chain

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from streamer.text.characters import decode, fold, normalise
from streamer.text.segmentation import segmenter
from streamer.text.words import split, words
from tests.support.examples import examples
from tests.support.plain_jieba import plain_jieba

ANY_LETTERS = st.text(
    st.sampled_from(
        "长江大桥的一是在々〇\u3400\u9fd6あいカーไกา\u0e31\u0e34ငက\u103dab'’ʼé1२हि\u0301\u0327가다.，。 \n-_😀"
    )
    | st.characters(),
    max_size=20,
)
IDEOGRAPH = r"[[\p{Script=Han}\p{Ideographic}\p{Script=Yi}]&&[\p{L}\p{N}]]"
UNSPACED = (
    r"(?=\p{L})(?![\u4e00-\u9fd5]|" + IDEOGRAPH + r"|[\u02bc])"
    r"[\p{scx=Hiragana}\p{scx=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tai_Le}"
    r"\p{Script=New_Tai_Lue}\p{Script=Tai_Tham}\p{Script=Tai_Viet}\p{Script=Ahom}\p{Script=Javanese}\p{Script=Balinese}]"
)
WORD = r"(?![\u4e00-\u9fd5\u02bc]|" + IDEOGRAPH + "|" + UNSPACED + r")[\p{L}\p{N}]\p{M}*"
TOKEN = regex.compile(
    rf"(?P<han>[\u4e00-\u9fd5]+)|(?P<one>{IDEOGRAPH})|(?P<many>(?:{UNSPACED}\p{{M}}*)+)"
    rf"|(?P<word>(?:{WORD})+(?:['\u2019\u02bc](?:{WORD})+)*)",
    regex.VERSION1,
)
LETTER = regex.compile(rf"{UNSPACED}\p{{M}}*", regex.VERSION1)


def plain_words(text: str, size: int) -> list[str]:
    """The rules of the module, run by run, without arrays."""
    found: list[str] = []
    for match in TOKEN.finditer(normalise(text)):
        run = match.group()
        if match["han"]:
            found += plain_jieba().lcut(run)
        elif match["many"]:
            letters = LETTER.findall(run)
            found += ["".join(letters[at : at + size]) for at in range(max(1, len(letters) - size + 1))]
        else:
            found.append(regex.sub("[\u2019\u02bc]", "'", run))
    return found


@examples(300)
@given(st.lists(ANY_LETTERS, max_size=4), st.integers(1, 4))
def test_a_batch_gives_the_words_of_every_text_by_the_rules(texts: list[str], size: int) -> None:
    assert words(texts, "compiled", size) == [plain_words(text, size) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("，。！😀 +-", []),
        ("我来到北京清华大学", ["我", "来到", "北京", "清华大学"]),
        ("他来到了网易杭研大厦", ["他", "来到", "了", "网易", "杭研", "大厦"]),
        ("二〇二四年", ["二", "〇", "二", "四年"]),
        ("人々 \U00020000\u9fd6", ["人", "々", "\U00020000", "\u9fd6"]),
        ("Don’t stop 'rock'n'roll'!", ["don't", "stop", "rock'n'roll"]),
        ("'a' b", ["a", "b"]),
        ("长'a''b", ["长", "a", "b"]),
        ("don’t donʼt a\u0301’b a’\u0301b", ["don't", "don't", "á'b", "a", "b"]),
        ("\u0301a", ["a"]),
        ("长\u0327a\u0327\u0327大桥", ["长", "a\u0327\u0327", "大桥"]),
        ("々\u0327〇ไ\u0327", ["々", "〇", "ไ\u0327"]),
        ("😀+_-", []),
        ("COVID-19：3.14", ["covid", "19", "3", "14"]),
        ("API를 사용", ["api를", "사용"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("العربية لغة", ["العربية", "لغة"]),
        ("東京タワーへ行く", ["東京", "タワ", "ワー", "ーへ", "行", "く"]),
        ("ภาษาไทย๑", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย", "๑"]),
        ("กี่", ["กี่"]),
    ],
)
def test_the_words_of_examples(text: str, expected: list[str]) -> None:
    assert words([text], "compiled", 2) == [expected]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, ["あ", "い", "う"]), (2, ["あい", "いう"]), (3, ["あいう"]), (4, ["あいう"])],
)
def test_a_run_shorter_than_the_shingle_is_one_word(size: int, expected: list[str]) -> None:
    assert words(["あいう"], "compiled", size) == [expected]


def test_words_do_not_cross_the_border_of_a_text() -> None:
    texts = ["あ", "いう", "", "か\u3099", "ab", "cd", "北", "京", "々", "々", "a", "'", "b", "\u0327", "ไ", "\u0e31"]
    assert words(texts, "compiled", 2) == [
        *(["あ"], ["いう"], [], ["が"], ["ab"], ["cd"], ["北"], ["京"], ["々"], ["々"], ["a"], [], ["b"], [], ["ไ"], [])
    ]


@examples(200)
@given(st.lists(ANY_LETTERS, max_size=4), st.integers(1, 4))
def test_every_word_stands_at_its_start(texts: list[str], size: int) -> None:
    characters = fold(texts)
    found = split(characters, segmenter("compiled"), size)
    listed = list(chain.from_iterable(found.strings()))
    assert found.lengths.tolist() == list(map(len, listed))
    numbers = np.searchsorted(characters.bounds, found.starts, side="right") - 1
    assert numbers.tolist() == np.repeat(np.arange(len(texts)), np.diff(found.bounds)).tolist()
    for word, start in zip(listed, found.starts.tolist(), strict=True):
        there = decode(characters.codepoints[start : start + len(word)])
        assert regex.sub("[\u2019\u02bc]", "'", there) == word


def test_bounds_count_words_for_empty_batches_and_texts() -> None:
    assert split(fold([]), segmenter("compiled"), 2).bounds.tolist() == [0]
    found = split(fold(["", "，", ""]), segmenter("compiled"), 2)
    assert found.bounds.tolist() == [0, 0, 0, 0]
    assert found.strings() == [[], [], []]
    assert np.issubdtype(found.bounds.dtype, np.int64)
