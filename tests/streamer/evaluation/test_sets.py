"""Sets of documents: every form that is read, scored by both schemes, and the errors of malformed ones."""

import gzip
import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from index.session import Longer
from index.storage.parameters import Parameters
from streamer.errors import InputUnreadable
from streamer.evaluation.scores import (
    Scores,
    admit,
    entering_all,
    nearest_distances,
    pair_distances,
    pairs_flagged,
    score,
    truth_of_labels,
)
from streamer.evaluation.sets import EvaluationSet, read_pairs_of_set, read_set
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.scheme import Scheme, parameters_for, scheme_for
from streamer.records.decode import Document
from streamer.settings.settings import load
from tests.support.news import ARTICLES

TEXT = "the lights of the bridge over the river are on tonight and nobody in the old town seems to know for how long"


def write_lines(file: Path, rows: Sequence[dict[str, object]]) -> None:
    file.write_bytes(lzma.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    folder = tmp_path / "stream"
    folder.mkdir()
    texts = [TEXT, "quite another matter " + TEXT[::-1], TEXT.upper()]
    write_lines(folder / "docs.jsonl.xz", [{"id": str(row), "text": text} for row, text in enumerate(texts)])
    lines = "#max_j: largest Jaccard; 0 = below 0.3\nid\tmax_j\tbest\n0\t0.0000\t\n1\t0.0000\t\n2\t1.0000\t0\n"
    (folder / "stream_truth.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


@pytest.fixture(params=["simhash", "minhash"])
def chosen(request: pytest.FixtureRequest) -> tuple[Scheme, Parameters]:
    """A scheme and its parameters; no text is too short for a fingerprint."""
    least = ["fingerprint.features_min=1", "minhash.features_min=1"]
    own = load(None, [f"fingerprint.scheme={request.param}", *least], {})
    return scheme_for(own), entering_all(parameters_for(own, {}))


def judged(found: EvaluationSet, chosen: tuple[Scheme, Parameters]) -> Scores:
    scheme, parameters = chosen
    fingerprints = found.fingerprint(scheme)
    flagged = fingerprints.decided(parameters).originals >= 0
    assert ((fingerprints.distances(parameters) <= parameters.distance_max) == flagged).all()
    return score(flagged, found.truth)


def test_a_stream_is_scored_against_its_truth(stream: Path, chosen: tuple[Scheme, Parameters]) -> None:
    found = read_set(stream)
    assert (found.name, found.others, found.floor) == ("stream", None, 0.3)
    assert judged(found, chosen) == Scores(1, 0, 0, 2)


PAIRS = [{"a": TEXT, "b": TEXT, "label": 3}, {"a": TEXT, "b": TEXT, "label": 0.5}, {"a": TEXT, "b": "x", "label": 2.0}]


def test_labelled_pairs_and_variants_are_scored_against_their_labels(
    tmp_path: Path, chosen: tuple[Scheme, Parameters]
) -> None:
    pairs, variants = tmp_path / "pairs", tmp_path / "variants"
    pairs.mkdir()
    variants.mkdir()
    write_lines(pairs / "pairs.jsonl.xz", PAIRS)
    rows = [("base", "base", TEXT), ("same", "dup", TEXT + "."), ("other", "neg", TEXT[::-1]), ("some", "grey", TEXT)]
    write_lines(
        variants / "docs.jsonl.xz",
        [{"base": 7, "op": op, "label": label, "text": text} for op, label, text in rows],
    )
    assert judged(read_set(pairs), chosen) == Scores(1, 1, 1, 0)
    assert judged(read_set(variants), chosen) == Scores(1, 0, 0, 1)


def test_pairs_may_stand_in_a_file_of_their_own(tmp_path: Path, chosen: tuple[Scheme, Parameters]) -> None:
    file = tmp_path / "pairs.jsonl"
    yes_and_no = [{"a": TEXT, "b": TEXT, "label": True}, {"a": TEXT, "b": "x", "label": False}]
    file.write_bytes(b"\n".join(map(orjson.dumps, [*PAIRS, *yes_and_no])) + b"\n\n")
    assert judged(read_set(file), chosen) == Scores(2, 1, 1, 1)
    for line in (b"no pair", b'{"a": "x", "label": true}', b'{"a": "x", "b": 3, "label": true}', b"7"):
        file.write_bytes(line)
        with pytest.raises(InputUnreadable, match="labelled pairs"):
            read_set(file)


def test_the_error_names_a_folder_that_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(InputUnreadable, match="is not a set"):
        read_set(tmp_path)
    (tmp_path / "pairs.jsonl.xz").write_bytes(lzma.compress(b'{"a": 1}\n'))
    with pytest.raises(InputUnreadable, match=r"is a malformed set .*KeyError"):
        read_set(tmp_path)
    (tmp_path / "pairs.jsonl.xz").write_bytes(b"no archive")
    with pytest.raises(InputUnreadable, match="LZMAError"):
        read_set(tmp_path)


def test_groups_are_a_truth_and_the_original_must_be_of_the_group(tmp_path: Path) -> None:
    rows = [
        {"text": TEXT, "topic": "bridge"},
        {"text": TEXT + " today", "topic": "bridge"},
        {"text": TEXT + " tonight", "topic": "town"},
        {"text": "quite another matter " + TEXT[::-1], "topic": "bridge"},
        {"text": TEXT[::-1] + " and this belongs to no topic at all", "topic": None},
    ]
    file = tmp_path / "topics.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    found = read_set(file, "topic")
    assert found.truth.duplicate.tolist() == [False, True, False, True, False]
    assert (found.truth.different == ~found.truth.duplicate).all()
    own = load(None, ["minhash.features_min=1", "minhash.similarity_min=0.6"], {})
    scheme = scheme_for(own)
    prints = found.fingerprint(scheme)
    assert found.scores(prints, prints.decided(entering_all(parameters_for(own, {})))) == Scores(1, 2, 1, 1)
    with pytest.raises(InputUnreadable, match="'cluster'"):
        read_set(file, "cluster")


@pytest.mark.parametrize(
    ("preset", "expected"), [("simhash-best", [True, True, False]), ("simhash-improved-1", [True, True, True])]
)
def test_a_second_look_decides_over_pairs_as_over_a_stream(preset: str, expected: list[bool]) -> None:
    """The third document has the words of the first, some of them so often that the cosine falls."""
    overrides = ["fingerprint.features_min=1", "fingerprint.stop_words="]
    own = load(None, overrides, {}, preset=preset)
    documents = [Document("", TEXT, metadata=("a", "b")), Document("", TEXT, metadata=("a", "b"))]
    scheme, parameters = scheme_for(own), entering_all(parameters_for(own, {}))
    side = fingerprint_documents(scheme, documents)
    other = fingerprint_documents(scheme, documents[::-1])
    assert pairs_flagged(side, other, parameters).tolist() == expected[:2]
    assert side.looks is not None
    # The same fingerprint with another look.
    looks = side.looks.copy()
    looks[0] = 255 - looks[0]
    unlike = replace(side, looks=looks)
    flagged = pairs_flagged(unlike, other, parameters)
    assert flagged.tolist() == [expected[2], True]
    assert nearest_distances(side, parameters).tolist()[1] == pair_distances(side, other, parameters)[1]
    assert admit(side, parameters).originals.tolist() == [-1, 0]


def test_a_stream_becomes_pairs_of_its_duplicates_and_of_as_many_others(stream: Path) -> None:
    found = read_pairs_of_set(stream)
    assert found.others is not None
    assert [each.text for each in found.documents] == [TEXT.upper(), "quite another matter " + TEXT[::-1]]
    assert [each.text for each in found.others] == [TEXT, TEXT]
    assert found.truth.duplicate.tolist() == [True, False]


WHOLE = "".join(character for character in next(iter(ARTICLES.values())) if character.isalnum())
VERSIONS = {"teaser": WHOLE[: len(WHOLE) * 4 // 5], "whole": WHOLE, "copy": WHOLE}
"""A whole text has a quarter more letters than its teaser."""


def versions(form: str, groups: Sequence[int] | None = None) -> EvaluationSet:
    """The three versions as a stream, or the first two as a pair; the whole text is a duplicate by the truth."""
    documents = [Document(name, text) for name, text in VERSIONS.items()]
    if form == "pairs":
        return EvaluationSet(form, documents[:1], documents[1:2], truth_of_labels(["dup"]))
    truth = truth_of_labels(["neg", "dup", "dup"])
    return EvaluationSet(form, documents, None, truth, groups=None if groups is None else np.array(groups))


def decided(found: EvaluationSet, longer: Longer | None) -> tuple[Scores, list[int], list[int]]:
    """Scores, originals of duplicates, and originals of longer versions."""
    own = load(None, [], {})
    prints = found.fingerprint(scheme_for(own))
    answers = prints.decided(entering_all(parameters_for(own, {})), longer)
    return found.scores(prints, answers), answers.originals.tolist(), answers.extended.tolist()


@pytest.mark.parametrize(
    ("form", "expected"),
    [("stream", (Scores(2, 0, 0, 1), [-1, -1, 1], [-1, 0, -1])), ("pairs", (Scores(1, 0, 0, 0), [-1], [0]))],
)
def test_a_longer_version_answers_a_duplicate_of_the_truth(
    form: str, expected: tuple[Scores, list[int], list[int]]
) -> None:
    assert decided(versions(form), Longer(1_000)) == expected
    # A limit that the text does not exceed, and no limit: it is dropped.
    for longer in (Longer(2_600), None):
        scores, _, extended = decided(versions(form), longer)
        assert (scores, set(extended)) == (expected[0], {-1})


def test_a_version_that_grew_by_less_than_a_tenth_misses_its_duplicate() -> None:
    found = versions("pairs")
    short = replace(found, documents=[Document("", WHOLE[: len(WHOLE) * 10 // 11 + 2])])
    assert decided(short, Longer(500)) == (Scores(0, 0, 1, 0), [-1], [0])
    assert decided(short, Longer(1_000)) == (Scores(1, 0, 0, 0), [0], [-1])


def test_a_longer_version_of_another_group_misses_its_group_and_is_no_false_duplicate() -> None:
    scores, _, extended = decided(versions("stream", [1, 2, 2]), Longer(1_000))
    assert (scores, extended) == (Scores(1, 0, 1, 1), [-1, 0, -1])
    # Without the rule it is dropped for a document of another group.
    assert decided(versions("stream", [1, 2, 2]), None)[0].false_duplicates >= 1
    assert decided(versions("stream", [1, 1, 1]), Longer(1_000))[0] == Scores(2, 0, 0, 1)
