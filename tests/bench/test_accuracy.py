"""The accuracy bench: its names, its truth by hand, and runs over made-up sets."""

import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from bench import accuracy, kafka_accuracy, peers
from bench.accuracy import policy_similarities
from bench.named_settings import parse
from index.matching.minhash import Banding
from streamer.errors import SettingsError
from streamer.evaluation.join import SimilarPairs
from streamer.evaluation.scores import Scores, Truth, entering_all, score
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import Settings, load


def pairs_of(rows: Sequence[tuple[int, int, float]]) -> SimilarPairs:
    ordered = sorted(rows)
    return SimilarPairs(
        np.array([row[0] for row in ordered], np.int64),
        np.array([row[1] for row in ordered], np.int64),
        np.array([row[2] for row in ordered], np.float64),
    )


# --- names of settings -----------------------------------------------------------------------------------------------


def test_the_default_is_what_the_product_ships() -> None:
    shipped = Settings()
    assert parse("default").settings == shipped
    assert parse("default").parameters.banding == parse("minhash").parameters.banding
    assert parse("default").insert == shipped.index.insert
    assert parse("simhash-best").settings == parse("fingerprint.scheme=simhash").settings


@pytest.mark.parametrize("preset", METHOD_PRESETS)
def test_a_preset_is_the_method_as_a_whole_and_what_follows_differs_from_it(preset: str) -> None:
    settings = load(None, [], {}, preset=preset)
    setting = parse(preset)
    assert (setting.settings, setting.insert) == (settings, settings.index.insert)
    other = parse(f"{preset}  index.insert=root index.longer=duplicate")
    assert other.settings == settings.replaced(index={"insert": "root", "longer": "duplicate"})
    assert parse(f"{preset} fingerprint.simplify=true").settings.fingerprint.simplify


def test_a_policy_is_one_of_the_index_or_lets_all_documents_enter() -> None:
    setting = parse("minhash")
    assert setting.entering("unique").parameters.root is None
    assert setting.entering("unique").settings.index.insert == "unique"
    everything = setting.entering("all")
    assert everything.parameters == entering_all(parameters_for(setting.settings, {"bench": everything.name}))
    assert (everything.name, everything.insert) == ("minhash, all", "all")
    assert replace(setting, bands=7).parameters.banding == Banding(128, 8, 7, 5)


@pytest.mark.parametrize("name", ["", "words", "simhash-best-64", "words minhash.bins=64"])
def test_a_name_of_no_setting_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"names no setting\. Begin with default or one of keep-text"):
        parse(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("minhash minhash.bins=100", "minhash.bins"),
        ("simhash-plain minhash.bins=64", "has no effect"),
        ("default x", "x"),
    ],
)
def test_a_name_with_a_setting_that_cannot_be_says_which(name: str, why: str, small_set: Path) -> None:
    done = CliRunner().invoke(accuracy.main, [str(small_set), "--setting", name])
    assert done.exit_code == 2
    assert why in done.stderr


# --- truth and scores ------------------------------------------------------------------------------------------------


def test_the_truth_of_a_policy_knows_only_what_it_would_have_kept() -> None:
    """2 is like 1, which is like 0 and therefore not kept by `unique`."""
    pairs = pairs_of([(1, 0, 0.9), (2, 1, 0.85), (2, 0, 0.6), (4, 3, 0.55)])
    assert policy_similarities(pairs, 5, "all").tolist() == [0, 0.9, 0.85, 0, 0.55]
    assert policy_similarities(pairs, 5, "unique").tolist() == [0, 0.9, 0.6, 0, 0.55]


def test_flagged_rows_in_the_grey_count_neither_way() -> None:
    kept = np.array([0.0, 0.9, 0.8, 0.6, 0.49, 0.0, 0.3])
    earlier = np.array([0.0, 0.9, 0.8, 0.6, 0.49, 0.7, 0.3])
    flagged = np.array([False, True, False, True, True, True, False])
    truth = Truth(kept >= 0.8, earlier < 0.5)
    scores = score(flagged, truth)
    assert scores == Scores(true_duplicates=1, false_duplicates=1, missed=1, true_uniques=2)
    assert accuracy.figures(scores) == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "false_per_million": pytest.approx(1e6 / 3),
    }


# --- a whole run -----------------------------------------------------------------------------------------------------


def test_a_run_over_a_set_reports_what_can_be_counted_by_hand(small_set: Path) -> None:
    near, exact = (
        "simhash-best fingerprint.second_look=none index.distance_max=7",
        "simhash-plain fingerprint.weight=log-tf fingerprint.bits=128 index.distance_max=0",
    )
    arguments = [str(small_set), "--insert", "both", "--json", "--setting", near, "--setting", exact]
    done = CliRunner().invoke(accuracy.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    results = orjson.loads(done.stdout)["results"]
    by_name = {result["setting"]: result for result in results}
    assert len(by_name) == 4
    for insert in ("unique", "all"):
        found = by_name[f"{near}, {insert}"]
        assert (found["true_duplicates"], found["missed"], found["false_duplicates"]) == (2, 0, 0)
        assert (found["documents"], found["undecidable"], found["true_uniques"]) == (6, 1, 4)
        found = by_name[f"{exact}, {insert}"]
        assert (found["true_duplicates"], found["missed"], found["recall"]) == (1, 1, 0.5)


def test_both_schemes_run_over_a_set_in_one_go(small_set: Path) -> None:
    arguments = [str(small_set), "--json", "--setting", "default", "--setting", "simhash-best", "--insert", "both"]
    done = CliRunner().invoke(accuracy.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    results = orjson.loads(done.stdout)["results"]
    assert [each["setting"] for each in results] == [
        f"{name}, {policy}" for name in ("default", "simhash-best") for policy in ("unique", "all")
    ]
    assert {(each["true_duplicates"], each["missed"], each["false_duplicates"]) for each in results} == {(2, 0, 0)}


def test_articles_are_compared_each_with_each(tmp_path: Path) -> None:
    texts = [" ".join(f"{word}{number}" for number in range(60)) for word in ("word", "other", "word", "third")]
    rows = [{"id": f"t{row}", "text": text} for row, text in enumerate(texts)]
    (tmp_path / "articles_4.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(orjson.dumps, rows))))
    (tmp_path / "articles_4.truth.tsv").write_text("t0 t2\nt1 t3\n")
    done = CliRunner().invoke(accuracy.main, [str(tmp_path), "--json"], catch_exceptions=False)
    (found,) = orjson.loads(done.stdout)["results"]
    counts = ("true_duplicates", "false_duplicates", "missed", "true_uniques", "documents")
    assert [found[name] for name in counts] == [1, 0, 1, 4, 4]


def test_pairs_have_a_recall_for_every_label_and_none_that_nobody_judged(tmp_path: Path) -> None:
    long, other = (" ".join(f"{word}{number}" for number in range(60)) for word in ("word", "other"))
    rows = [(long, long, 3), (long, other, 2), (long, long, 2), (long, other, 0.5), (long, other, "unknown")]
    lines = [orjson.dumps({"a": one, "b": two, "label": label}) for one, two, label in rows]
    (tmp_path / "pairs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(lines)))
    done = CliRunner().invoke(accuracy.main, [str(tmp_path), "--json"], catch_exceptions=False)
    (found,) = orjson.loads(done.stdout)["results"]
    assert found["operators"] == {"2": 0.5, "3": 1.0}
    assert (found["documents"], found["true_duplicates"], found["missed"], found["true_uniques"]) == (4, 2, 1, 1)


@pytest.mark.parametrize(
    "name",
    [
        "default",
        "minhash minhash.bins=64 minhash.shingles=words minhash.similarity_min=0.8 index.insert=unique",
        "simhash-best",
        "simhash-improved-2 fingerprint.bits=128",
        "simhash-plain fingerprint.idf=jieba index.distance_max=7",
    ],
)
def test_a_setting_is_run_by_the_service_as_it_is_by_the_bench(name: str) -> None:
    setting = parse(name)
    loaded = load(None, kafka_accuracy.overrides(setting), {})
    assert loaded.fingerprint == setting.settings.fingerprint
    assert loaded.minhash == setting.settings.minhash
    assert parameters_for(loaded, {"bench": setting.name}) == setting.parameters


def peers_over(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(peers.main, [str(folder), "--rounds", "1", "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return orjson.loads(done.stdout)["results"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("scheme", "programs"), [("minhash", ["filter", "rensa"]), ("simhash", ["filter", "simhash", "rensa"])]
)
def test_peers_are_measured_over_the_same_set_and_score(small_set: Path, scheme: str, programs: list[str]) -> None:
    results = peers_over(small_set, "--scheme", scheme, "--set", "index.distance_max=7")
    assert [result["program"] for result in results] == programs
    assert [(result["precision"], result["recall"], result["same_verdict"]) for result in results] == [
        (1.0, 1.0, 1.0)
    ] * len(programs)
    assert results[0]["filter_is_faster_by"] == results[0]["without_start"] == 1.0
    assert all(result["one_document_cpu_ms"] > 0 for result in results)
    assert results[0]["bytes_per_document"] > 0


def test_a_set_without_truth_gets_no_score_but_says_how_far_verdicts_agree(small_set: Path) -> None:
    (small_set / "pairs.tsv.gz").unlink()
    # With so many features required, the filter matches equal texts only, and one of two duplicates is not equal.
    few = ("--set", "fingerprint.features_min=100000")
    filtered, near = peers_over(small_set, "--scheme", "simhash", "--peer", "rensa", *few)
    assert (filtered["precision"], near["recall"], filtered["same_verdict"]) == (None, None, 1.0)
    assert near["same_verdict"] == 5 / 6


@pytest.mark.parametrize("peer", [peers.by_rensa, peers.by_simhash])
def test_a_peer_names_the_earlier_of_two_equal_texts_and_keeps_nothing_of_an_empty_one(peer: peers.Peer) -> None:
    texts = ["the quick brown fox jumps over the lazy dog", "，", "a text of its own", "a text of its own", "，"]
    found = peer(texts, peers.Asked(True, 8, 0.7, 3))[0].tolist()
    assert [found[0], found[2], found[3]] == [-1, -1, 2]
    assert peer is peers.by_rensa or [found[1], found[4]] == [-1, -1]


def test_links_are_the_metadata_of_documents_that_bring_none(small_set: Path) -> None:
    rows = [
        {"id": "d0", "text": "See [one](https://a.example/x) and <http://b.example>."},
        {"id": "d1", "text": "https://a.example/x", "metadata": ["own"]},
        {"id": "d2", "text": "no link"},
    ]
    rows += [{"id": f"d{row}", "text": ""} for row in range(3, 6)]
    (small_set / "docs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(orjson.dumps, rows))))
    found = accuracy.Stream(small_set, links=True).whole.documents
    assert [each.metadata for each in found[:3]] == [("https://a.example/x", "http://b.example"), ("own",), ()]
    assert [each.metadata for each in accuracy.Stream(small_set).whole.documents[:3]] == [(), ("own",), ()]
