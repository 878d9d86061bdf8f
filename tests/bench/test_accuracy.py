"""The accuracy bench: its scores by hand, its brute force against the real index, and one run over a made-up set."""

import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bench import accuracy, kafka_accuracy, peers
from bench.named_settings import Policy, Setting, parse
from bench.scoring import Pairs, counting, decide, near_pairs, policy_similarities
from index.entry import Kind
from index.matching.minhash import Banding
from streamer.evaluation.scores import Scores, Truth, admit, pairs_flagged
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import Fingerprint, Minhash, Settings, load
from tests.support.examples import examples


def prints_of(numbers: npt.NDArray[np.uint64], kinds: Sequence[int]) -> Fingerprints:
    count = len(numbers)
    return Fingerprints(np.array(kinds, np.uint8), np.zeros(count, np.uint8), numbers, np.full(count, 9, np.int32))


def pairs_of(rows: Sequence[tuple[int, int, float]]) -> Pairs:
    ordered = sorted(rows)
    return Pairs(
        np.array([row[0] for row in ordered], np.int64),
        np.array([row[1] for row in ordered], np.int64),
        np.array([row[2] for row in ordered], np.float64),
    )


LOOKS = ("cosine0.3", "metadata")


# --- names of settings -----------------------------------------------------------------------------------------------


def test_the_default_is_what_the_product_ships() -> None:
    shipped = Settings()
    assert parse("default").parameters.scheme == shipped.fingerprint.scheme == "minhash"
    assert parse("default") == parse("minhash")
    assert parse("default").minhash == shipped.minhash
    assert parse("default").insert == shipped.index.insert
    assert parse("simhash") == parse("simhash-best")


@pytest.mark.parametrize(
    "name",
    [
        "words-tf-64-3",
        "words-logtf-128-0-min4",
        "shingles2-log-tf-64-7-all",
        "default",
        "simhash",
        "simhash-classic",
        "simhash-plain",
        "simhash-best-unique",
        "simhash-improved-1-128-4-all",
        "simhash-improved-2-64-3-min8",
        "shingles3-tf-64-5-idf-topic-length-markers3-title2-posn2vn1.5-simplify-html-jieba-chars3",
        "shingles2-log-tf-64-7-cosine0.85-cells128-unique",
        "words-tf-128-7-cosine1",
        "shingles2-log-tf-64-5-metadata",
        "minhash-256x4-k4/9-0.65",
        "minhash-64x8-k5/8-0.8-min20-all",
        "minhash-128x8-w2-0.7",
    ],
)
def test_a_setting_is_found_again_by_the_name_it_prints(name: str) -> None:
    setting = parse(name)
    assert parse(setting.name) == setting


@pytest.mark.parametrize("preset", [name for name in METHOD_PRESETS if name.startswith("simhash")])
def test_a_preset_is_the_method_as_a_whole(preset: str) -> None:
    settings = load(None, [], {}, preset=preset)
    setting = parse(preset)
    assert setting.fingerprint == settings.fingerprint
    assert (setting.distance_max, setting.second_look) == (settings.index.distance_max, settings.second_look)
    assert parse(f"{preset}-unique") == replace(setting, insert="unique")
    without = settings.fingerprint.model_copy(update={"second_look": "none", "bits": 128})
    assert parse(f"{preset}-128-6") == Setting(without, 6, "unique")


@pytest.mark.parametrize("preset", [name for name in METHOD_PRESETS if not name.startswith("simhash")])
def test_a_minhash_preset_is_found_again_by_the_name_it_prints(preset: str) -> None:
    settings = load(None, [], {}, preset=preset)
    setting = parse(preset)
    assert (setting.minhash, setting.insert) == (settings.minhash, settings.index.insert)
    assert setting.parameters.banding == parameters_for(settings, {}).banding
    assert parse(setting.name) == setting


def test_a_full_minhash_name_says_everything() -> None:
    setting = parse("minhash-256x4-k4/9-0.65-min20-all")
    assert setting.minhash == Minhash(
        bins=256,
        bin_bits=4,
        shingle_characters_wide=4,
        shingle_characters_narrow=9,
        similarity_min=0.65,
        features_min=20,
    )
    assert (setting.distance_max, setting.insert) == (3_500, "all")
    assert parse("minhash").minhash == Minhash()
    assert parse("minhash-256x4-k4/9-0.65-b7").parameters.banding == Banding(256, 4, 7, 6)
    of_words = parse("minhash-64x8-w2-0.8").minhash
    assert of_words == Minhash(bins=64, shingles="words", shingle_words=2, similarity_min=0.8)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "minhash-128",
        "minhash-128x7-k5/8-0.7",
        "minhash-128x8-k5/8-0.7-jieba",
        "minhash-128x8-k5/8-w3-0.7",
        "words",
        "words-tf-65-3",
        "bigrams-tf-64-3",
        "words-tf-64-3-maybe",
        "words-tf-64-3-cosine2",
        "words-tf-64-3-metadata-all",
    ],
)
def test_a_name_of_no_setting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names no setting"):
        parse(name)


# --- decisions -------------------------------------------------------------------------------------------------------


@st.composite
def clustered(draw: st.DrawFn, lanes: int) -> Fingerprints:
    """Fingerprints around a few centres, so that chains, ties and exact rows are common."""
    count = draw(st.integers(1, 30))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    numbers = generator.integers(0, 2**64, (3, lanes), dtype=np.uint64)[generator.integers(0, 3, count)]
    for _ in range(3):
        numbers ^= np.uint64(1) << generator.integers(0, 64, (count, lanes), dtype=np.uint64)
    kinds = generator.choice([Kind.NEAR, Kind.NEAR, Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE], count)
    return prints_of(numbers, kinds.tolist())


@examples(25)
@given(st.data(), st.sampled_from([64, 128]), st.integers(0, 7), st.sampled_from(["unique", "all"]))
def test_brute_force_decides_as_the_index_on_disk_does(
    data: st.DataObject, bits: int, distance_max: int, insert: Policy
) -> None:
    prints = data.draw(clustered(bits // 64))
    setting = Setting(Fingerprint.model_validate({"scheme": "simhash", "bits": bits}), distance_max, insert)
    by_force = decide(near_pairs(prints, 7), len(prints), distance_max, insert)
    assert by_force.tolist() == admit(prints, setting.parameters).originals.tolist()


@pytest.mark.parametrize("kind", LOOKS)
@examples(10)
@given(st.data())
def test_brute_force_with_a_second_look_decides_as_the_index_on_disk_does(kind: str, data: st.DataObject) -> None:
    plain, setting = data.draw(clustered(1)), parse(f"shingles2-log-tf-64-5-{kind}-unique")
    assert setting.look is not None
    generator = np.random.default_rng(len(plain))
    few = generator.integers(0, 256, (3, setting.look.bytes), np.uint8)
    prints = replace(plain, looks=few[generator.integers(0, 3, len(plain))])
    near = counting(near_pairs(prints, 7), prints, setting.distance_max, setting.look)
    by_force = decide(near, len(prints), 10_000, "unique")
    assert by_force.tolist() == admit(prints, setting.parameters).originals.tolist()
    last, first = (
        Fingerprints(
            prints.kinds[rows], prints.reasons[rows], prints.fingerprints[rows], prints.feature_counts[rows], looks
        )
        for rows in ([len(prints) - 1], [0])
        for looks in [prints.looks[rows] if prints.looks is not None else None]
    )
    pair = (near.later == len(prints) - 1) & (near.earlier == 0)
    assert len(prints) == 1 or pairs_flagged(first, last, setting.parameters).any() == pair.any()


@pytest.mark.parametrize("insert", ["unique", "all"])
def test_brute_force_over_signatures_finds_what_the_index_finds_and_what_no_band_shows(insert: Policy) -> None:
    generator = np.random.default_rng(3)
    base = ["".join(generator.choice(list("长河落日圆清晨的雾气还没有散去"), 120)) for _ in range(20)]
    texts = [text[: 60 - cut] + text[60:] for text in base for cut in range(0, 30, 6)]
    setting = replace(parse("minhash-128x8-k5/8-0.7"), insert=insert)
    prints = MinHasher(Minhash()).fingerprint(texts)
    assert setting.parameters.banding is not None
    near = near_pairs(prints, setting.distance_max, setting.parameters.banding)
    assert len(near.later) > 50
    by_force = decide(near, len(prints), setting.distance_max, insert)
    on_disk = admit(prints, setting.parameters).originals
    # Near the threshold, a pair shares no band, and is missed, with a probability below 2 %; above it, hardly ever.
    assert (by_force != on_disk).mean() < 0.05
    flagged = pairs_flagged(prints, prints, setting.parameters)
    assert flagged.all()
    apart = MinHasher(Minhash()).fingerprint(texts[5:] + texts[:5])
    assert not pairs_flagged(prints, apart, setting.parameters).any()


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
    made = accuracy.result("set", parse("default"), flagged, truth, None, 1.0)
    assert made.scores == Scores(true_duplicates=1, false_duplicates=1, missed=1, true_uniques=2)
    assert made.flagged_grey == 2
    assert accuracy.figures(made.scores) == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "false_per_million": pytest.approx(1e6 / 3),
    }


# --- a whole run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_run_over_a_set_reports_what_can_be_counted_by_hand(small_set: Path, place: str) -> None:
    arguments = [str(small_set), "--index", place, "--insert", "both", "--json"]
    arguments += ["--setting", "shingles2-log-tf-64-7-min20", "--setting", "words-log-tf-128-0-min1"]
    done = CliRunner().invoke(accuracy.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    results = orjson.loads(done.stdout)["results"]
    by_name = {result["setting"]: result for result in results}
    assert len(by_name) == 4
    for insert in ("unique", "all"):
        near = by_name[f"shingles2-log-tf-64-7-min20-chars2-compiled-{insert}"]
        assert (near["true_duplicates"], near["missed"], near["false_duplicates"]) == (2, 0, 0)
        assert (near["documents"], near["undecidable"], near["true_uniques"]) == (6, 1, 4)
        exact = by_name[f"words-log-tf-128-0-min1-chars2-compiled-{insert}"]
        assert (exact["true_duplicates"], exact["missed"], exact["recall"]) == (1, 1, 0.5)


def test_both_schemes_run_over_a_set_in_one_go(small_set: Path) -> None:
    for place, policy in (("disk", "root"), ("memory", "unique")):
        chosen = [] if place == "disk" else ["--insert", policy]
        arguments = [str(small_set), "--index", place, "--json", "--setting", "minhash", *chosen]
        done = CliRunner().invoke(accuracy.main, [*arguments, "--setting", "simhash"], catch_exceptions=False)
        assert done.exit_code == 0
        by_minhash, by_simhash = sorted(orjson.loads(done.stdout)["results"], key=lambda result: result["setting"])
        assert by_minhash["setting"] == f"minhash-128x8-k5/12-0.7-min8-{policy}"
        assert (by_minhash["true_duplicates"], by_minhash["missed"], by_minhash["false_duplicates"]) == (2, 0, 0)
        assert by_simhash["setting"] == "shingles2-log-tf-64-7-min20-chars2-compiled-cosine0.85-cells128-unique"


@pytest.mark.parametrize(
    "name",
    ["default", "minhash-64x4-w2-0.8-min20-unique", "simhash", "simhash-improved-2-128-3-unique", "words-tf-64-7-idf"],
)
def test_a_setting_is_run_by_the_service_as_it_is_by_the_bench(name: str) -> None:
    setting = parse(name)
    loaded = load(None, kafka_accuracy.overrides(setting), {})
    assert loaded.fingerprint == setting.fingerprint
    assert loaded.minhash == (setting.minhash or Minhash())
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
    found = accuracy.Stream(small_set, links=True).documents.documents
    assert [each.metadata for each in found[:3]] == [("https://a.example/x", "http://b.example"), ("own",), ()]
    assert [each.metadata for each in accuracy.Stream(small_set).documents.documents[:3]] == [(), ("own",), ()]
