"""Scores against worked examples, intervals against simulation, distances against brute force, sets, table and page."""

import gzip
import lzma
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.entry import Kind
from streamer.config import Fingerprint
from streamer.errors import InputUnreadable
from streamer.evaluation import (
    Scores,
    Truth,
    bootstrap_f1,
    nearest_earlier,
    pair_distances,
    score,
    truth_of_labels,
    truth_of_similarities,
    unreachable,
    wilson,
)
from streamer.evaluation_report import Evaluation, page
from streamer.evaluation_sets import read_set
from streamer.fingerprint import Fingerprinter, Fingerprints

TEXT = "the lights of the bridge over the river are on tonight and nobody in the old town seems to know for how long"


def prints_of(numbers: npt.NDArray[np.uint64], kinds: Sequence[int]) -> Fingerprints:
    count = len(numbers)
    return Fingerprints(np.array(kinds, np.uint8), np.zeros(count, np.uint8), numbers, np.full(count, 9, np.int32))


# --- scores and intervals --------------------------------------------------------------------------------------------


def test_scores_are_counts_of_what_is_within_the_distance() -> None:
    truth = Truth(np.array([1, 1, 0, 0, 0], np.bool_), np.array([0, 0, 1, 1, 0], np.bool_))
    scores = score(np.array([3, 4, 2, 65, 0]), truth, 3)
    assert scores == Scores(true_duplicates=1, false_duplicates=1, missed=1, true_uniques=1)
    assert (scores.precision.value, scores.recall.value, scores.f1.value) == (0.5, 0.5, 0.5)
    assert scores.false_per_million == 500_000


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_intervals_of_shares_are_those_of_newcombe(hits: int, count: int, low: float, high: float) -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (score, without continuity correction)."""
    found = wilson(hits, count)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))
    mirrored = wilson(count - hits, count)
    assert (mirrored.low, mirrored.high) == (pytest.approx(1 - found.high), pytest.approx(1 - found.low))


@given(st.integers(0, 500), st.integers(0, 500))
def test_a_share_lies_in_its_interval(hits: int, more: int) -> None:
    found = wilson(hits, hits + more)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.high - found.low < 4.0 / max(hits + more, 1) ** 0.5


def test_the_bootstrap_covers_what_is_true_about_as_often_as_it_says() -> None:
    """Samples of a population whose F1 is known: 19 of 20 intervals hold it."""
    shares = np.array([0.30, 0.03, 0.06, 0.61])
    truth = 2 * shares[0] / (2 * shares[0] + shares[1] + shares[2])
    samples = np.random.default_rng(7).multinomial(400, shares, 1_000)
    held = [bootstrap_f1(Scores(*map(int, sample))) for sample in samples]
    assert 0.93 < np.mean([each.low <= truth <= each.high for each in held]) < 0.97


def test_nothing_to_score_says_so_by_its_interval() -> None:
    assert [getattr(wilson(0, 0), name) for name in ("value", "low", "high")] == [1.0, 0.0, 1.0]
    assert [getattr(bootstrap_f1(Scores(0, 0, 0, 0)), name) for name in ("value", "low", "high")] == [1.0, 0.0, 1.0]
    assert bootstrap_f1(Scores(0, 0, 0, 9)).value == 1.0
    assert bootstrap_f1(Scores(0, 0, 1, 9)).value == 0.0


# --- distances -------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 600), st.integers(1, 2), st.integers(0, 2**32))
def test_the_nearest_earlier_document_is_that_of_brute_force(count: int, lanes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, 4, (count, lanes), dtype=np.uint64)
    numbers[generator.random(count) < 0.1] = 2**64 - 1
    kinds = generator.choice([Kind.NEAR, Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE, Kind.DEAD_LETTER], count)
    prints = prints_of(numbers, kinds.tolist())
    distances, rows = nearest_earlier(prints)
    for row in range(0, count, 7):
        options = []
        for earlier in range(row):
            apart = sum(int(bits).bit_count() for bits in numbers[row] ^ numbers[earlier])
            if kinds[row] == kinds[earlier] and (kinds[row] == Kind.NEAR or (kinds[row] == Kind.EXACT and apart == 0)):
                options.append((apart, earlier))
        expected = min(options, default=(unreachable(prints), -1))
        assert (distances[row], rows[row]) == expected


def test_pairs_of_different_kinds_are_out_of_reach() -> None:
    numbers = np.array([[5], [5], [5], [5], [5]], np.uint64)
    left = prints_of(numbers, [Kind.NEAR, Kind.NEAR, Kind.EXACT, Kind.EXACT, Kind.UNDECIDABLE])
    others = np.array([[6], [5], [5], [4], [5]], np.uint64)
    right = prints_of(others, [Kind.NEAR, Kind.EXACT, Kind.EXACT, Kind.EXACT, Kind.UNDECIDABLE])
    assert pair_distances(left, right).tolist() == [2, 65, 0, 65, 65]


# --- truth and sets --------------------------------------------------------------------------------------------------


def test_the_grey_is_neither() -> None:
    truth = truth_of_similarities(np.array([0.9, 0.8, 0.79, 0.5, 0.49, 0.0]), 0.3)
    assert truth.duplicate.tolist() == [True, True, False, False, False, False]
    assert truth.different.tolist() == [False, False, False, False, True, True]
    assert truth_of_similarities(np.array([0.85, 0.6, 0.0]), 0.8).different.tolist() == [False, True, True]
    labelled = truth_of_labels(["dup", "2", "3", "1", "unknown", "0.5", "neg"])
    assert labelled.duplicate.tolist() == [True] * 3 + [False] * 4
    assert labelled.different.tolist() == [False] * 5 + [True] * 2


def write_lines(file: Path, rows: Sequence[dict[str, object]]) -> None:
    file.write_bytes(lzma.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    folder = tmp_path / "stream"
    folder.mkdir()
    texts = [TEXT, "quite another matter " + TEXT[::-1], TEXT.upper()]
    write_lines(folder / "docs.jsonl.xz", [{"id": str(row), "text": text} for row, text in enumerate(texts)])
    told = "#max_j: largest Jaccard; 0 = below 0.3\nid\tmax_j\tbest\n0\t0.0000\t\n1\t0.0000\t\n2\t1.0000\t0\n"
    (folder / "stream_truth.tsv.gz").write_bytes(gzip.compress(told.encode()))
    return folder


@pytest.fixture
def fingerprinter() -> Fingerprinter:
    return Fingerprinter(Fingerprint(features_min=1))


def test_a_stream_is_held_against_its_truth(stream: Path, fingerprinter: Fingerprinter) -> None:
    found = read_set(stream)
    assert (found.name, found.others, found.floor) == ("stream", None, 0.3)
    assert score(found.distances(fingerprinter), found.truth, 3) == Scores(1, 0, 0, 2)


def test_labelled_pairs_and_variants_are_held_against_their_labels(
    tmp_path: Path, fingerprinter: Fingerprinter
) -> None:
    pairs, variants = tmp_path / "pairs", tmp_path / "variants"
    pairs.mkdir()
    variants.mkdir()
    write_lines(
        pairs / "pairs.jsonl.xz",
        [{"a": TEXT, "b": TEXT, "label": 3}, {"a": TEXT, "b": TEXT, "label": 0.5}, {"a": TEXT, "b": "x", "label": 2.0}],
    )
    rows = [("base", "base", TEXT), ("same", "dup", TEXT + "."), ("other", "neg", TEXT[::-1]), ("some", "grey", TEXT)]
    write_lines(
        variants / "docs.jsonl.xz",
        [{"base": 7, "op": op, "label": label, "text": text} for op, label, text in rows],
    )
    judged = [read_set(folder) for folder in (pairs, variants)]
    assert [score(each.distances(fingerprinter), each.truth, 3) for each in judged] == [
        Scores(1, 1, 1, 0),
        Scores(1, 0, 0, 1),
    ]


def test_a_folder_that_is_no_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputUnreadable, match="holds no set"):
        read_set(tmp_path)
    (tmp_path / "pairs.jsonl.xz").write_bytes(lzma.compress(b'{"a": 1}\n'))
    with pytest.raises(InputUnreadable, match="is not of the form of a set: KeyError"):
        read_set(tmp_path)
    (tmp_path / "pairs.jsonl.xz").write_bytes(b"no archive")
    with pytest.raises(InputUnreadable, match="LZMAError"):
        read_set(tmp_path)


# --- the page --------------------------------------------------------------------------------------------------------


class Bars(HTMLParser):
    """The titles of the bars, and whether every element that was opened is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "path"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title" and "rect" in self.open:
            self.titles.append(data)


def test_the_page_has_a_bar_for_every_distance_that_occurs() -> None:
    truth = Truth(np.array([1, 1, 1, 0, 0, 0], np.bool_), np.array([0, 0, 0, 1, 1, 0], np.bool_))
    distances = np.array([0, 0, 7, 31, 65, 9])
    evaluation = Evaluation("a <set>", "in & force", 64, 3, distances, truth, score(distances, truth, 3), 9.0, False)
    drawn = page([evaluation])
    assert "a &lt;set&gt;: in &amp; force" in drawn
    bars = Bars()
    bars.feed(drawn)
    assert bars.open == ["html"]
    assert bars.titles == [
        "duplicates, 0 bits: 0.6667",
        "duplicates, 7 bits: 0.3333",
        "different, 31 bits: 0.5000",
    ]
