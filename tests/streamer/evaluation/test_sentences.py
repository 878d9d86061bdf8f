"""Sentences lost, held against sets of strings; and that memory is bounded."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.evaluation import sentences as module
from streamer.evaluation.sentences import Sentences, sentences_lost, sentences_of
from streamer.settings.settings import Fingerprint
from streamer.text.characters import normalise
from streamer.text.normalisation import Normaliser
from tests.support.examples import examples

NORMALISER = Normaliser(Fingerprint())
TEXTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["One. ", "Two!", "三。", "Ｔｗｏ\n", "a.b ", "... ", "…", "é", " ", ". "])),
        st.booleans(),
    )
)


def plain(text: str) -> set[str]:
    """Sentences of a text, by letters."""
    pieces = re.split(r"[\n。！？!?…]|\.(?=\s|$)", text)
    return {letters for piece in pieces if (letters := "".join(filter(str.isalnum, normalise(piece))))}


@examples(60)
@given(TEXTS)
def test_lost_sentences_are_those_of_the_definition(documents: list[tuple[list[str], bool]]) -> None:
    texts, kept = ["".join(parts) for parts, _ in documents], [kept for _, kept in documents]
    every = set[str]().union(*map(plain, texts))
    held = set[str]().union(*(plain(text) for text, is_kept in zip(texts, kept, strict=True) if is_kept))
    found = sentences_lost(texts, np.array(kept, np.bool_), NORMALISER)
    assert found == (len(every), len(every - held), 1)
    assert found.per_10_000 == pytest.approx(1e4 * len(every - held) / max(len(every), 1))


def test_mark_up_is_no_sentence_and_a_full_stop_in_a_word_ends_none() -> None:
    html = Normaliser(Fingerprint(markup="html"))
    hashes, bounds = sentences_of(
        ["<p>Version 3.5 of app.exe is out.<p>Go on!<script>x</script>", "", "x < y. Go on"], html
    )
    assert np.diff(bounds).tolist() == [2, 0, 2]
    assert hashes[1] == hashes[3]


def test_many_sentences_are_sampled_by_hash_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING_MAX", 500)
    draw = np.random.default_rng(3)
    whole = draw.integers(0, 2**64, 40_000, np.uint64)
    seen = Sentences(sentences_max=4_000)
    for part in np.split(whole, 400):
        # One sentence in ten is in a dropped document alone.
        seen.add(part, np.arange(len(part)) % 10 > 0)
        seen.add(part[:5], np.zeros(5, np.bool_))
        assert len(seen._seen) <= 4_000
    found = seen.lost()
    assert found.one_in == 16
    assert found.distinct * found.one_in == pytest.approx(40_000, rel=0.1)
    assert found.per_10_000 == pytest.approx(1_000, rel=0.15)
