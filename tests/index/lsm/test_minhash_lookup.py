"""MinHash in the index, against brute force over all documents that share a band."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide import prepare
from index.entry import Kind, Verdict
from index.index import SIZES, Index
from index.lsm import lookup, memtable
from index.lsm.compaction import TreeSizes
from index.matching.minhash import Banding, banding_for, distance_of, pack_bins
from index.matching.root import RootRule
from index.storage.parameters import Parameters
from tests.support.answers import answers_of
from tests.support.brute_force_index import Answer
from tests.support.brute_force_signatures import BruteForceSignatures, as_number, clustered_bins
from tests.support.entries import ONE, TWO, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.packed import packed, require_packed

MAP_BYTES_MAX = 2**30
BANDINGS = [Banding(64, 8, 12, 5), Banding(128, 8, 32, 4), Banding(128, 4, 21, 6), Banding(256, 8, 1, 40)]


def parameters_of(
    banding: Banding, insert: Any = "unique", similarity_min: float = 0.7, root: RootRule | None = None
) -> Parameters:
    return Parameters(banding.bits, distance_of(similarity_min), insert, banding=banding, root=root)


@contextmanager
def fresh(parameters: Parameters, sizes: TreeSizes = SIZES) -> Iterator[Index]:
    with (
        tempfile.TemporaryDirectory() as directory,
        Index.open(Path(directory), parameters, map_bytes_max=MAP_BYTES_MAX, sizes=sizes) as index,
    ):
        yield index


def admitted(index: Index, rows: list[Row]) -> list[Answer]:
    return answers_of(index.admit(entries_of(rows, index.parameters.bits), ends_of(rows)))


def rows_of(seed: int, count: int, banding: Banding, *, centres: int = 3) -> list[Row]:
    """Rows of two sources and of all kinds, many of them similar; copies and exact ones among them."""
    generator = np.random.default_rng(seed)
    numbers = [as_number(row, banding.bin_bits) for row in clustered_bins(generator, count, banding, centres=centres)]
    rows: list[Row] = []
    for offset, number in enumerate(numbers):
        kind = Kind(int(generator.choice(4, p=[0.8, 0.1, 0.05, 0.05])))
        if kind is Kind.EXACT:
            number = int(generator.integers(1, 4))
        elif offset and generator.random() < 0.1:
            number = rows[int(generator.integers(offset))].fingerprint
        source = (ONE, TWO)[int(generator.integers(2))]
        rows.append(Row(offset, number, source, kind, int(generator.integers(32)), offset, f"文档-{offset}"))
    return rows


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("banding", BANDINGS)
@examples(6)
@given(st.data())
def test_admit_decides_as_brute_force_does_however_the_rows_are_batched(
    insert: Any, banding: Banding, data: st.DataObject
) -> None:
    similarity_min = data.draw(st.sampled_from([0.3, 0.6, 0.7, 0.9, 1.0]))
    rows = rows_of(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 40)), banding)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    apart = data.draw(st.sampled_from([0, 500, 1500]))
    root = RootRule(distance_of(similarity_min * data.draw(st.sampled_from([0.5, 0.8, 1.0]))), apart)
    root_rule = root if insert == "root" else None
    oracle = BruteForceSignatures(distance_of(similarity_min), banding=banding, root=root_rule)
    sizes = TreeSizes(data.draw(st.integers(1, 30)), data.draw(st.sampled_from([64, 200, 1000])))
    with fresh(parameters_of(banding, insert, similarity_min, root_rule), sizes) as index:
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            part = rows[begin:end]
            assert admitted(index, part) == oracle.admit(entries_of(part, banding.bits), ends_of(part))
        assert admitted(index, rows) == oracle.admit(entries_of(rows, banding.bits), ends_of(rows))
        near = [known for known in oracle.known if known.kind is Kind.NEAR]
        assert index.statistics().entries == len(near)
        require_packed(index, near)


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(6)
@given(st.data())
def test_an_index_decides_by_a_stricter_similarity_as_one_that_was_made_with_it_and_has_the_same_bands(
    insert: Any, data: st.DataObject
) -> None:
    similarity_min, banding = data.draw(st.sampled_from([0.6, 0.7, 0.9, 1.0])), banding_for(64, 8, 0.5)
    rows = rows_of(data.draw(st.integers(0, 2**32)), data.draw(st.integers(2, 40)), banding)
    half = len(rows) // 2
    root = RootRule(distance_of(similarity_min / 2), 500) if insert == "root" else None
    stored = parameters_of(banding, insert, 0.5, root and RootRule(distance_of(0.1), 500))
    asked = parameters_of(
        banding_for(64, 8, similarity_min), insert, similarity_min, root and replace(root, member_distance_min=100)
    )
    oracle = BruteForceSignatures(distance_of(similarity_min), banding=banding, root=root)
    with tempfile.TemporaryDirectory() as directory:
        Index.open(Path(directory), stored, map_bytes_max=MAP_BYTES_MAX).close()
        for part in (rows[:half], rows[half:]):
            with Index.open(Path(directory), asked, map_bytes_max=MAP_BYTES_MAX) as index:
                assert admitted(index, part) == oracle.admit(entries_of(part, banding.bits), ends_of(part))


def test_the_oracle_sees_duplicates_uniques_and_pairs_that_share_no_band() -> None:
    """Else the property above would compare nothing."""
    banding = Banding(64, 8, 12, 5)
    rows = [row for row in rows_of(1, 120, banding) if row.kind is Kind.NEAR]
    oracle = BruteForceSignatures(distance_of(0.3), banding=banding)
    verdicts = [answer.verdict for answer in oracle.admit(entries_of(rows, banding.bits), {})]
    assert min(verdicts.count(Verdict.UNIQUE), verdicts.count(Verdict.DUPLICATE)) > 10
    apart = [oracle.distance(one.fingerprint, other.fingerprint) for one in rows[:40] for other in rows[:40]]
    assert 10_001 in apart
    assert any(0 < distance <= distance_of(0.3) for distance in apart)


def test_small_slices_and_pieces_change_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    banding = Banding(64, 8, 16, 4)
    rows = rows_of(7, 90, banding, centres=1)
    monkeypatch.setattr(lookup, "FINGERPRINTS_MAX", 4)
    monkeypatch.setattr(memtable, "HITS_MAX", 3)
    monkeypatch.setattr(prepare, "ROWS_AT_ONCE", 17)
    for root in (None, RootRule(5_000)):
        oracle = BruteForceSignatures(distance_of(0.6), banding=banding, root=root)
        with fresh(
            parameters_of(banding, "unique" if root is None else "root", 0.6, root), TreeSizes(20, 200)
        ) as index:
            for part in (rows[:40], rows[40:60], rows[60:]):
                assert admitted(index, part) == oracle.admit(entries_of(part, banding.bits), ends_of(part))


@pytest.mark.parametrize("in_segments", [False, True])
def test_a_bucket_that_holds_everybody_is_read_whole_and_compared_in_bounded_slices(
    tmp_path: Path, in_segments: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One band agrees in all documents and nothing else does: the worst that a template can do."""
    banding = Banding(64, 8, 16, 4)
    generator = np.random.default_rng(5)
    values = generator.integers(1, 256, (1_200, 64)).astype(np.uint8)
    values[:, :4] = 7
    values[-1] = values[11]
    rows = [Row(offset, as_number(row, 8)) for offset, row in enumerate(values)]
    monkeypatch.setattr(memtable, "HITS_MAX", 100)
    sizes = TreeSizes(200, 2**14) if in_segments else SIZES
    with Index.open(tmp_path, parameters_of(banding), map_bytes_max=MAP_BYTES_MAX, sizes=sizes) as index:
        first = index.admit(entries_of(rows[:600], banding.bits), {})
        if in_segments:
            # What comes next moves the first ones on.
            strangers = generator.integers(1, 256, (200, 64)).astype(np.uint8)
            nobody = [Row(2_000 + offset, as_number(row, 8)) for offset, row in enumerate(strangers)]
            index.admit(entries_of(nobody, banding.bits), {})
            assert packed(index).compaction.merged_to == 600
        second = index.admit(entries_of(rows[600:], banding.bits), {})
    assert (first.verdicts == Verdict.UNIQUE).all()
    # Everybody before it, in the index and in the batch, was compared with each.
    assert second.candidates[:-1].tolist() == list(range(600, 1_199))
    # The last one shares further bands with its twin, which may come in different portions.
    assert second.candidates[-1] in (1_199, 1_200)
    assert second.verdicts.tolist() == [Verdict.UNIQUE] * 599 + [Verdict.DUPLICATE]
    assert (int(second.originals[-1]), int(second.distances[-1])) == (11, 0)


def test_a_query_gives_those_that_share_a_band_nearest_first(tmp_path: Path) -> None:
    banding = banding_for(128, 8, 0.7)
    rows = [row for row in rows_of(3, 60, banding, centres=2) if row.kind is Kind.NEAR]
    # A copy of an entry does not enter.
    rows = sorted({row.fingerprint: row for row in reversed(rows)}.values(), key=lambda row: row.offset)
    oracle = BruteForceSignatures(0, banding=banding)
    with Index.open(
        tmp_path, parameters_of(banding, "root", 1.0, RootRule(10_000)), map_bytes_max=MAP_BYTES_MAX
    ) as index:
        admitted(index, rows)
        answers = index.query(entries_of(rows, banding.bits).fingerprints, 5_000, limit=100)
        with pytest.raises(ValueError, match="0 to 10000"):
            index.query(entries_of(rows, banding.bits).fingerprints, 10_001)
    for row, matches in zip(rows, answers, strict=True):
        apart = [(oracle.distance(row.fingerprint, other.fingerprint), at) for at, other in enumerate(rows)]
        assert [(m.distance, m.document.number) for m in matches] == sorted(one for one in apart if one[0] <= 5_000)


def test_signatures_of_nothing_are_admitted(tmp_path: Path) -> None:
    banding = Banding(64, 8, 16, 4)
    with Index.open(tmp_path, parameters_of(banding), map_bytes_max=MAP_BYTES_MAX) as index:
        assert len(index.admit(entries_of([], banding.bits), {})) == 0
        assert index.query(pack_bins(np.ones((1, 64), np.uint8), 8)) == [[]]
