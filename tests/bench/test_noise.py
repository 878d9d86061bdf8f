"""Noisy copies by a fixed seed, and what the presets find of them that the default does not."""

import random
import re

import numpy as np
import pytest

from bench.named_settings import parse
from bench.noise import Kind, noisy
from streamer.evaluation.scores import admit
from streamer.fingerprint.scheme import scheme_for
from tests.support.news import ARTICLES

TEXTS = list(ARTICLES.values())
ENGLISH = [text for text in TEXTS if text.isascii()]
LINES = sorted({run[:24] for text in TEXTS for run in re.findall("[\u4e00-\u9fff]{24,}", re.sub("[，。：]", "", text))})


def flagged_on_disk(name: str, texts: list[str], copies: list[str]) -> tuple[float, float]:
    """Of texts that an index has seen and then of their copies: the share called duplicates."""
    setting = parse(name)
    prints = scheme_for(setting.settings).fingerprint([*texts, *copies])
    are_duplicates = admit(prints, setting.parameters).originals >= 0
    return float(are_duplicates[: len(texts)].mean()), float(are_duplicates[len(texts) :].mean())


@pytest.mark.parametrize(("kind", "stock"), [("misread", "xyz"), ("words", ["other"]), ("letters", "xyz")])
def test_noise_changes_as_many_letters_or_words_as_it_says_and_repeats_itself(kind: Kind, stock: list[str]) -> None:
    text = " ".join(["bcdfk"] * 4_000)
    copy = noisy(text, kind, 0.1, stock, random.Random(1))
    assert copy == noisy(text, kind, 0.1, stock, random.Random(1))
    share = np.mean([word != "bcdfk" for word in copy.split(" ")])
    assert abs(share - (0.1 if kind == "words" else 1 - 0.9**5)) < 0.03
    assert noisy(text, kind, 0, stock, random.Random(1)) == text


def test_the_preset_ocr_finds_misread_articles_and_the_default_does_not() -> None:
    generator = random.Random(7)
    letters = sorted(set("".join(ENGLISH).lower()) - set(" \n"))
    misread = [noisy(text, "misread", 0.06, letters, generator) for text in ENGLISH]
    unlike, recall = flagged_on_disk("ocr", ENGLISH, misread)
    assert recall > 0.9
    assert unlike < 0.1
    assert flagged_on_disk("default", ENGLISH, misread)[1] < 0.05


def test_the_preset_for_short_texts_finds_lines_with_one_letter_changed_and_the_default_does_not() -> None:
    changed = [f"{line[:12]}鑫{line[13:]}" for line in LINES]
    unlike, recall = flagged_on_disk("short-texts", LINES, changed)
    assert recall > 0.95
    assert unlike < 0.1
    assert flagged_on_disk("default", LINES, changed)[1] < 0.1
