"""Short texts: one word of a copy is another, and the shares are those of the pairs at each threshold."""

import re

import numpy as np
import pytest

from index import minhash
from streamer.evaluation import short_texts
from streamer.evaluation.dice import Dice
from streamer.evaluation.short_texts import LENGTHS, Misjudged, misjudged, thresholds_of
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings, load
from streamer.text.characters import fold
from streamer.text.segmentation import segmenter
from streamer.text.words import split, words
from tests.support.news import ARTICLES

TEXTS = list(ARTICLES.values())


def of_preset(name: str) -> Settings:
    return load(None, (), {}, preset=name)


def rows_of(name: str, texts: list[str], seed: int = 1) -> list[Misjudged]:
    scheme = scheme_for(of_preset(name))
    return list(misjudged(texts, scheme, parameters_for(of_preset(name), scheme.stamp()), seed))


@pytest.mark.parametrize(
    "text", ["长江大桥是一个好地方。", "The old ferry left the bay.", "ＦＵＬＬ width, 长江 mixed."]
)
def test_a_copy_differs_in_one_word(text: str) -> None:
    passage = split(fold([text]), segmenter("compiled"), 2)
    own = passage.strings()[0]
    for seed in range(20):
        copy = short_texts._with_another_word(passage, ["zebra", own[0]], Dice(seed))
        changed = words([copy], "compiled", 2)[0]
        assert len(changed) == len(own)
        assert sum(one != other for one, other in zip(own, changed, strict=True)) == 1


@pytest.mark.parametrize(("least", "most"), LENGTHS)
def test_a_passage_is_a_run_of_whole_sentences_of_its_length(least: int, most: int) -> None:
    for text in TEXTS:
        for passage in short_texts._passages(text, least, most):
            assert least <= len(passage) <= most
            assert passage in text
            end = text.index(passage) + len(passage)
            assert re.search(r"[.。！？!?\n]$", passage) or end == len(text.rstrip()) or text[end] == "\n"


@pytest.mark.parametrize("name", ["simhash-plain", "minhash"])
def test_a_wider_threshold_misses_less_and_a_longer_text_is_missed_less(name: str) -> None:
    texts = [f"{word}{number} river{number} bay{number}. " * 12 for number, word in enumerate("abcdefgh" * 9)]
    found = rows_of(name, texts)
    parameters = parameters_for(of_preset(name), scheme_for(of_preset(name)).stamp())
    order = -1 if parameters.by_similarity else 1
    for row in found:
        assert (np.diff(row.missed[::order]) <= 0).all()
        assert (np.diff(row.false[::order]) >= 0).all()
    means = [row.missed.mean() for row in found]
    assert means[-1] < means[0]


def test_the_thresholds_are_bits_or_similarities() -> None:
    for name, expected in (("simhash-plain", {3: 3}), ("minhash", {0.7: minhash.distance_of(0.7)})):
        parameters = parameters_for(of_preset(name), scheme_for(of_preset(name)).stamp())
        assert expected.items() <= thresholds_of(parameters).items()
