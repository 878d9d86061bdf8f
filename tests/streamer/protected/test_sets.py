"""Protected sets: what they report equals brute force over their documents, whatever ids, hosts and kinds there are."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Index, Kind, Parameters, Verdict, minhash
from streamer.protected.sets import ProtectedSets
from tests.support.crawls import SCHEMES, crawled, entries
from tests.support.entries import Row, entries_of, fingerprints_of
from tests.support.examples import examples
from tests.support.roots import with_insert

Nearest = tuple[str, int] | None
"""Id of the nearest entry, the earliest on ties, and the distance to it."""


def whole_set(folder: Path, rows: Sequence[Row], parameters: Parameters) -> Index:
    """An index in which every row is, as `streamer protect` makes it."""
    with Index.open(folder, parameters, map_bytes_max=2**26) as index:
        columns = replace(entries([*rows], parameters), hosts=None)
        index.restore(columns, np.full(len(rows), Verdict.UNIQUE, np.uint8), [None] * len(rows))
    return Index.open(folder, parameters, read_only=True)


def by_brute_force(parameters: Parameters, kept: Sequence[Row], row: Row) -> Nearest:
    if row.kind is Kind.EXACT:
        return next(((each.id, 0) for each in kept if each[1:4:2] == row[1:4:2]), None)
    near = [each for each in kept if each.kind is Kind.NEAR and row.kind is Kind.NEAR]
    if not near:
        return None
    prints = fingerprints_of([each.fingerprint for each in near], parameters.bits)
    own = np.repeat(fingerprints_of([row.fingerprint], parameters.bits), len(near), axis=0)
    distances = parameters.distances(own, prints)
    nearest = int(distances.argmin())
    return (near[nearest].id, int(distances[nearest])) if distances[nearest] <= parameters.distance_max else None


def reported(sets: ProtectedSets, rows: Sequence[Row], parameters: Parameters) -> list[Nearest]:
    answers = sets.matches(entries([*rows], parameters)).rows
    found: list[Nearest] = []
    for matches in answers:
        (match,) = matches or (None,)
        distance = None if match is None else match.distance
        if match is not None and match.similarity is not None:
            distance = minhash.distance_of(match.similarity)
        found.append(None if match is None or distance is None else (match.id, distance))
    return found


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_every_document_within_the_radius_is_reported_with_the_nearest_entry(insert: str, seed: int) -> None:
    """Alike documents of the set are all in it, so the nearest is nearest to all of them."""
    parameters = with_insert(SCHEMES["simhash"], "root" if insert == "root" else "unique")
    rows = crawled(np.random.default_rng(seed), 120, parameters)
    kept, asked = rows[:50], rows[50:]
    with tempfile.TemporaryDirectory() as name, whole_set(Path(name), kept, parameters) as index:
        sets = ProtectedSets({"evaluation": index}, {})
        expected = [by_brute_force(parameters, kept, row) for row in asked]
        assert reported(sets, asked, parameters) == expected
        counted = sum(each is not None for each in expected)
        assert sets.matches(entries(asked, parameters)).counts == {"evaluation": counted}
        # The negative control: a set with one document fewer reports less, or another entry.
        gone = [
            by_brute_force(parameters, [row for row in kept if row.id != each[0]], row)
            for row, each in zip(asked, expected, strict=True)
            if each
        ]
        assert not gone or gone != [each for each in expected if each]


@examples(6)
@given(seed=st.integers(0, 2**32))
def test_signatures_that_share_a_band_are_reported_with_their_similarity(seed: int) -> None:
    parameters = with_insert(SCHEMES["minhash"], "root")
    rows = crawled(np.random.default_rng(seed), 120, parameters)
    kept, asked = rows[:50], rows[50:]
    with tempfile.TemporaryDirectory() as name, whole_set(Path(name), kept, parameters) as index:
        answers = reported(ProtectedSets({"evaluation": index}, {}), asked, parameters)
    for row, answer in zip(asked, answers, strict=True):
        expected = by_brute_force(parameters, kept, row)
        # Bands overlook some of what is just near enough, and nothing that is equal.
        if answer is None:
            assert expected is None or expected[1] > 0
        else:
            assert expected is not None
            assert expected[1] <= answer[1] <= parameters.distance_max


def test_hosts_ids_and_times_play_no_role_and_what_has_no_fingerprint_matches_nothing(tmp_path: Path) -> None:
    parameters = with_insert(SCHEMES["simhash"], "root")
    kept = [Row(0, 5, id="q1"), Row(1, 9, kind=Kind.EXACT, id="q2"), Row(2, 5, id="q3")]
    asked = [
        Row(7, 4, id="q1", host="news.example", time_ms=9),
        Row(8, 9, kind=Kind.EXACT, host="news.example"),
        Row(9, 5, kind=Kind.UNDECIDABLE),
        Row(10, 5, kind=Kind.DEAD_LETTER),
        Row(11, 2**63 + 2**40 + 2**20 + 1),
    ]
    with whole_set(tmp_path, kept, parameters) as index:
        sets = ProtectedSets({"evaluation": index}, {})
        assert reported(sets, asked, parameters) == [("q1", 1), ("q2", 0), None, None, None]
        assert sets.matches(entries_of([])).rows == []


def test_several_sets_answer_in_their_order(tmp_path: Path) -> None:
    parameters = SCHEMES["simhash"]
    first = whole_set(tmp_path / "first", [Row(0, 5, id="a")], parameters)
    other = whole_set(tmp_path / "other", [Row(0, 7, id="b"), Row(1, 2**64 - 1, id="c")], parameters)
    with ProtectedSets({"first": first, "other": other}, {}) as sets:
        (matches, only_other) = sets.matches(entries_of([Row(0, 5), Row(1, 2**64 - 1)])).rows
    assert [each.as_json() for each in matches] == [
        {"set": "first", "id": "a", "distance": 0},
        {"set": "other", "id": "b", "distance": 1},
    ]
    assert [each.id for each in only_other] == ["c"]
