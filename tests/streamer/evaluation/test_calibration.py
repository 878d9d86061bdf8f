"""Calibration: edits that do what they say, a choice within its limit, and a fragment that can be pasted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.storage.parameters import Parameters
from streamer.demo.documents import documents
from streamer.evaluation import calibration
from streamer.evaluation.calibration import (
    EDITS,
    SIMILARITIES_TRIED,
    Trial,
    best,
    edited,
    fragment,
    index_bytes_per_document,
    labelled_sample,
    make_sample,
    similarity,
    trials,
)
from streamer.evaluation.dice import Dice
from streamer.evaluation.report import recommendation
from streamer.evaluation.sample import read_documents
from streamer.evaluation.scores import Scores, Truth, admit, pairs_flagged
from streamer.evaluation.sentences import SentencesLost
from streamer.evaluation.sets import EvaluationSet
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Document
from streamer.settings.settings import Settings, load
from streamer.text.characters import normalise
from streamer.text.normalisation import Normaliser

NORMALISER = Normaliser(Settings().fingerprint)
TEXT = (
    "大桥的灯光在2024年亮了。渔民们驾着小船出海捕鱼！The engineers went home at 3 in the morning.\n村口有一棵老槐树。"
)


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    file = tmp_path_factory.mktemp("news") / "news.jsonl"
    file.write_bytes(b"\n".join(documents(150)))
    return [each for batch in read_documents([file], Settings().decode) for each in batch]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_only_what_it_names(edit: str) -> None:
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


def test_similarity_compares_sets_of_character_runs() -> None:
    """`abcdefg` has the runs abcde, bcdef, cdefg; `abcdefx` shares two of them: 2 of 4."""
    assert similarity("abcdefg", "abcdefx") == 0.5
    assert similarity("", "") == 1.0
    assert similarity("a", "") == 0.0


def test_a_sample_is_the_same_every_time_and_has_exact_truth(news: list[Document]) -> None:
    sample, again = make_sample(news, NORMALISER), make_sample(news, NORMALISER)
    assert sample.pairs == again.pairs
    texts, copies = ([each.text for each in side] for side in sample.pairs)
    assert [each.text for each in news] == texts
    expected = [similarity(normalise(text), normalise(copy)) >= 0.8 for text, copy in zip(texts, copies, strict=True)]
    assert sample.truth.duplicate.tolist() == expected
    assert not sample.truth.different.any()
    assert 0.5 < np.mean(expected) < 1.0


def trial(distance_max: int, f1_of: tuple[int, int, int], false_of: int, bits: int = 64) -> Trial:
    true, false, missed = f1_of
    scores = Scores(true, false, missed, false_of - false)
    return Trial("tried", Settings(), Parameters(bits, distance_max), scores, 100.0)


def test_the_best_trial_stays_within_the_limit_first_of_all() -> None:
    loose, strict, poor = trial(7, (99, 1, 1), 1_000), trial(4, (80, 0, 20), 1_000), trial(0, (10, 0, 90), 1_000)
    assert best([loose, strict, poor], 100) is strict
    assert best([loose, strict, poor], 1_000) is loose
    assert best([loose, trial(5, (99, 2, 1), 1_000)], 0) is loose


def test_of_trials_that_are_about_as_good_the_one_that_loses_the_fewest_sentences_is_best() -> None:
    greedy, careful = trial(7, (1_000, 0, 0), 10_000), trial(4, (985, 0, 15), 10_000)
    assert best([greedy, careful], 0) is greedy
    greedy, careful, rash = (
        replace(each, sentences=SentencesLost(10_000, lost))
        for each, lost in ((greedy, 40), (careful, 12), (careful, 80))
    )
    assert best([greedy, careful, rash], 0) is careful
    poor = replace(trial(3, (970, 0, 30), 10_000), sentences=SentencesLost(10_000, 0))
    assert best([greedy, careful, rash, poor], 0) is careful


def test_of_equal_trials_the_cheaper_one_is_best() -> None:
    wide, near, long = trial(5, (9, 0, 1), 10), trial(3, (9, 0, 1), 10), trial(3, (9, 0, 1), 10, bits=128)
    settings = chosen("fingerprint.scheme=minhash")
    signature = Trial("minhash", settings, parameters_for(settings, {}), Scores(9, 0, 1, 10), 100.0)
    assert best([signature, wide, long, near], 0) is near
    assert best([signature, trial(3, (8, 0, 2), 10)], 0) is signature


def test_of_equal_thresholds_the_one_in_the_middle_is_best() -> None:
    thresholds = [trial(distance_max, (9, 0, 1), 10) for distance_max in (7, 2, 3, 5, 4)]
    worse = [trial(distance_max, (8, 0, 2), 10) for distance_max in (0, 1, 6)]
    assert best([*thresholds, *worse], 0) is thresholds[4]
    assert best([*thresholds[:4], *worse], 0) is thresholds[2]


def chosen(*overrides: str) -> Settings:
    preset = overrides[0].removeprefix("preset=") if overrides and overrides[0].startswith("preset=") else None
    return load(None, overrides[preset is not None :], {}, preset=preset)


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_trials_count_real_decisions(scheme: str, news: list[Document]) -> None:
    """The test repeats the decisions of some thresholds: each copy against its original, each document against the stream."""
    sample = make_sample(news, NORMALISER)
    tried = list(trials([("tried", chosen(f"fingerprint.scheme={scheme}"))], sample))
    assert len(tried) == (8 if scheme == "simhash" else len(SIMILARITIES_TRIED))
    for each in tried[::3]:
        own = scheme_for(each.settings)
        left, right = (own.fingerprint([each.text for each in side]) for side in sample.pairs)
        duplicates = int(sample.truth.duplicate.sum())
        hits = int((pairs_flagged(left, right, each.parameters) & sample.truth.duplicate).sum())
        originals = admit(left, each.parameters).originals
        false = [
            similarity(sample.normal_forms[row], sample.normal_forms[original]) < 0.5
            for row, original in enumerate(originals)
            if original >= 0
        ]
        assert (each.scores.true_duplicates, each.scores.missed) == (hits, duplicates - hits)
        assert each.scores.false_duplicates == sum(false)
        assert each.cpu_us_per_document > 0
    assert tried[4].scores.true_duplicates > 0
    rates = [each.scores.recall.value for each in tried]
    widening = rates if scheme == "simhash" else rates[::-1]
    assert widening[-1] >= widening[0]


def test_scopes_change_no_threshold(news: list[Document]) -> None:
    """The sample's copies have no scope, and texts of two tenants are as similar as those of one."""
    tenants = [replace(each, scope=("tenant-a", "tenant-b")[row % 2]) for row, each in enumerate(news)]
    plain, scoped = (
        [each.scores for each in trials([("tried", chosen(*settings))], make_sample(documents, NORMALISER))]
        for documents, settings in ((news, ()), (tenants, ("decode.scope=/tenant",)))
    )
    assert scoped == plain


def test_labelled_pairs_count_by_their_labels(news: list[Document]) -> None:
    """A flagged pair with the label of a different one is a false duplicate."""
    sides = ([news[0], news[1], news[2]], [news[0], news[1], news[3]])
    truth = Truth(np.array([True, False, False]), np.array([False, True, True]))
    sample = labelled_sample(news[:4], EvaluationSet("pairs", *sides, truth), NORMALISER)
    for scheme in ("simhash", "minhash"):
        tried = list(trials([("tried", chosen(f"fingerprint.scheme={scheme}"))], sample))
        assert tried
        for each in tried:
            assert (each.scores.true_duplicates, each.scores.false_duplicates, each.scores.missed) == (1, 1, 0)


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_similarity_ignores_what_the_settings_take_off(scheme: str) -> None:
    """Two articles in the same mark-up differ. One article in both writings of Chinese is the same."""
    one = "许多道路被倒下的树木阻断，居民自发清理，工程师们修了十一个星期，镇上的人说，谁也不知道一共花了多少钱。" * 2
    same = one.translate(str.maketrans("许树断师们个镇说谁钱", "許樹斷師們個鎮說誰錢"))
    other = (
        "大桥的灯光今晚重新亮起，孩子们数着倒影里的灯，渔民驾着小船出海捕鱼，村口有一棵老槐树，树下坐着许多老人。" * 2
    )
    wide = "".join(f"<div class='column number-{number}'>" for number in range(40))
    page = [Document("", f"{wide}<p>{text}</p>") for text in (one, same, other)]
    own = chosen(f"fingerprint.scheme={scheme}", "fingerprint.markup=html", "fingerprint.simplify=true")
    sample = make_sample(page, Normaliser(own.fingerprint))
    assert [each.text.strip() for each in sample.documents] == [one, same, other]
    assert similarity(sample.normal_forms[0], sample.normal_forms[1]) > 0.9
    assert similarity(sample.normal_forms[0], sample.normal_forms[2]) < 0.1
    tried = list(trials([("tried", own)], sample))
    assert {each.scores.false_duplicates for each in tried} == {0}
    assert "markup" in fragment(own)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("preset=simhash-improved-1",),
        ("preset=simhash-improved-2", "fingerprint.title_factor=1", "fingerprint.markup=html"),
        ("preset=simhash-best", "second_look.cosine_min=0.9", "fingerprint.bits=128", "index.distance_max=6"),
        ("fingerprint.scheme=minhash", "minhash.similarity_min=0.85"),
        ("fingerprint.scheme=minhash", "minhash.bins=256", "minhash.bin_bits=4", "fingerprint.simplify=true"),
        ("fingerprint.scheme=minhash", "minhash.features_min=3"),
    ],
)
def test_a_pasted_fragment_gives_the_same_fingerprints_and_thresholds(
    overrides: tuple[str, ...], tmp_path: Path
) -> None:
    recommended = chosen(*overrides)
    file = tmp_path / "streamer.toml"
    file.write_text(fragment(recommended), encoding="utf-8")
    pasted = load(file, (), {})
    assert scheme_for(pasted).stamp() == scheme_for(recommended).stamp()
    assert parameters_for(pasted, {}) == parameters_for(recommended, {})


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_the_size_of_an_index_is_measured(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "INDEX_DOCUMENTS", 2_000)
    parameters = parameters_for(chosen(f"fingerprint.scheme={scheme}"), {})
    assert parameters.bits / 8 < index_bytes_per_document(parameters) < 10_000


def test_the_recommendation_names_its_sample_and_its_cost(
    news: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "INDEX_DOCUMENTS", 2_000)
    tried = list(
        trials(
            [("bare", chosen("fingerprint.scheme=simhash")), ("minhash", chosen("fingerprint.scheme=minhash"))],
            make_sample(news[:60], NORMALISER),
        )
    )
    for number, taken in enumerate((tried[0], tried[-1])):
        advice = "\n".join(recommendation(tried, taken, 60, None, 100.0))
        assert "without labels" in advice
        assert ["bare, 64 bits", "minhash, 128 bins of 8 bits"][number] in advice.split("The best of")[0]
        assert advice.count("bytes per document") == advice.count("microseconds") == 2
        assert "Nothing tried" not in advice
    labelled = "\n".join(recommendation(tried, tried[0], 60, Path("pairs.jsonl"), 100.0))
    assert "labelled pairs of pairs.jsonl" in labelled
    assert "nobody" not in labelled
    loose = trial(7, (9, 1, 0), 10)
    assert "this has 100,000, the fewest" in "\n".join(recommendation([loose], loose, 60, None, 100.0))
