"""Sentences in a file: what both choices of kept documents lose of the counted ones."""

from pathlib import Path

import numpy as np

from streamer.settings.settings import Fingerprint
from streamer.text.normalisation import Normaliser
from streamer.what_if.sentence_file import SentenceFile


def test_batches_are_counted_together_and_rows_that_are_not_compared_do_not_count(tmp_path: Path) -> None:
    file = SentenceFile(tmp_path / "sentences", Normaliser(Fingerprint()))
    every = np.ones(4, np.bool_)
    file.add(["One. Two.", ""])
    file.add(["Two. Three.", "Four."])
    one, other = file.lost((np.array([True, False, True, False]), every, np.array([True, True, False, True])))
    assert (one.distinct, one.lost) == (3, 0)
    assert (other.distinct, other.lost) == (3, 1)


def test_a_file_without_sentences_loses_none(tmp_path: Path) -> None:
    file = SentenceFile(tmp_path / "sentences", Normaliser(Fingerprint()))
    nothing = np.zeros(0, np.bool_)
    assert file.lost((nothing, nothing, nothing))[0].per_10_000 == 0
