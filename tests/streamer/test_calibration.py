"""Calibration: edits that are what they say, a choice that keeps its limit, and a fragment that can be pasted."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from streamer.calibration import (
    EDITS,
    Trial,
    best,
    edited,
    fragment,
    index_bytes_per_document,
    make_sample,
    similarity,
    trials,
)
from streamer.config import Settings
from streamer.demo_documents import Dice, documents
from streamer.evaluation import Scores
from streamer.fingerprint import Fingerprinter
from streamer.sample import read_documents

TEXT = (
    "大桥的灯光在2024年亮了。渔民们驾着小船出海捕鱼！The engineers went home at 3 in the morning.\n村口有一棵老槐树。"
)


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    file = tmp_path_factory.mktemp("news") / "news.jsonl"
    file.write_bytes(b"\n".join(documents(150)))
    return [(each.title, each.text) for batch in read_documents([file], Settings().decode) for each in batch]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_a_little_and_only_that(edit: str) -> None:
    for seed in range(20):
        copy = edited(TEXT, edit, "另一篇文章的句子。还有一句。", Dice(seed))
        assert copy != TEXT or edit == "moved"
        if edit in ("figure", "typo"):
            assert sum(one != other for one, other in zip(TEXT, copy, strict=True)) == {"figure": 1, "typo": 2}[edit]
        if edit in ("typo", "moved"):
            assert sorted(copy) == sorted(TEXT)
        if edit == "dropped":
            assert 0 < len(copy) < len(TEXT)
        if edit == "framed":
            assert copy.startswith(TEXT + "\n")


@given(st.text("ab1。\n .", max_size=12), st.sampled_from(EDITS), st.text("ab。", max_size=4), st.integers(0, 99))
def test_any_text_can_be_edited(text: str, edit: str, other: str, seed: int) -> None:
    copy = edited(text, edit, other, Dice(seed))
    if edit in ("typo", "moved"):
        assert sorted(copy) == sorted(text)


def test_similarity_is_that_of_sets_of_character_runs() -> None:
    """`abcdefg` has the runs abcde, bcdef, cdefg; `abcdefx` shares two of them: 2 of 4."""
    assert similarity("abcdefg", "ABCDEFX") == 0.5
    assert similarity("", "") == 1.0
    assert similarity("a", "") == 0.0


def test_a_sample_is_the_same_every_time_and_judges_its_copies_exactly(news: list[tuple[str, str]]) -> None:
    sample, again = make_sample(news), make_sample(news)
    assert sample.copies == again.copies
    expected = [similarity(text, copy) >= 0.8 for (_, text), copy in zip(news, sample.copies, strict=True)]
    assert sample.copy_is_duplicate.tolist() == expected
    assert np.mean(expected) > 0.5


def trial(distance_max: int, f1_of: tuple[int, int, int], false_of: int, bits: int = 64) -> Trial:
    true, false, missed = f1_of
    return Trial("default", bits, distance_max, Scores(true, false, missed, false_of - false), 100.0)


def test_the_best_keeps_the_limit_before_all_else() -> None:
    loose, strict, poor = trial(7, (99, 1, 1), 1_000), trial(4, (80, 0, 20), 1_000), trial(0, (10, 0, 90), 1_000)
    assert best([loose, strict, poor], 100) is strict
    assert best([loose, strict, poor], 1_000) is loose
    assert best([loose, trial(5, (99, 2, 1), 1_000)], 0) is loose


def test_of_equal_trials_the_cheaper_one_is_best() -> None:
    wide, near, long = trial(5, (9, 0, 1), 10), trial(3, (9, 0, 1), 10), trial(3, (9, 0, 1), 10, bits=128)
    assert best([wide, long, near], 0) is near


def test_trials_count_real_decisions(news: list[tuple[str, str]]) -> None:
    """The hits of one distance are reckoned anew, copy by copy."""
    sample = make_sample(news)
    tried = list(trials([Settings()], sample))
    assert [each.distance_max for each in tried] == list(range(8))
    texts = [text for _, text in news]
    numbers = Fingerprinter(Settings().fingerprint).fingerprint([*texts, *sample.copies])
    near = [int(bits) for bits in numbers.fingerprints[:, 0]]
    kinds, count = numbers.kinds.tolist(), len(texts)

    def within(one: int, other: int) -> bool:
        apart = (near[one] ^ near[other]).bit_count()
        limits = {Kind.NEAR: 4, Kind.EXACT: 0}
        return kinds[one] == kinds[other] and apart <= limits.get(kinds[one], -1)

    hits = sum(within(row, row + count) for row in range(count) if sample.copy_is_duplicate[row])
    assert tried[4].scores.true_duplicates == hits > 0
    assert tried[4].scores.true_duplicates + tried[4].scores.missed == int(sample.copy_is_duplicate.sum())
    assert tried[7].scores.recall.value >= tried[0].scores.recall.value
    assert tried[4].scores.false_duplicates == 0


def test_the_fragment_is_the_trial_as_settings() -> None:
    chosen = tomllib.loads(fragment(Trial("improved-1", 128, 6, Scores(1, 0, 0, 1), 9.0)))
    assert chosen == {"fingerprint": {"recipe": "improved-1", "bits": 128}, "index": {"distance_max": 6}}
    assert Settings.model_validate(chosen).fingerprint.topic_length


def test_the_size_of_an_index_is_measured(news: list[tuple[str, str]]) -> None:
    prints = Fingerprinter(Settings().fingerprint).fingerprint([text for _, text in news])
    assert 8 < index_bytes_per_document(prints, 64, 3) < 100_000
