"""Compaction as the whole index has it: no state of it shows in what it answers."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Insert, Verdict
from index.index import Index
from index.lsm import compaction
from index.lsm.compaction import TreeSizes
from index.lsm.shape import shape_of
from index.matching.minhash import Banding
from index.storage.file.commit_hooks import CommitHooks
from index.storage.parameters import Parameters
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import Row, ends_of, entries_of, fingerprints_of
from tests.support.examples import examples
from tests.support.fingerprints import mixed, one_bucket, random_ones
from tests.support.packed import packed, require_packed
from tests.support.roots import NEAR_ROOT, with_insert

TINY = TreeSizes(memtable_entries=12, segment_bytes=64)


def opened(directory: Path, parameters: Parameters | None = None, **options: Any) -> Index:
    return Index.open(directory, parameters or Parameters(), **{"map_bytes_max": 2**30, "sizes": TINY, **options})


@contextmanager
def fresh(parameters: Parameters, **options: Any) -> Iterator[Index]:
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory), parameters, **options) as index:
        yield index


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("bits", [64, 128])
@examples(8)
@given(st.data())
def test_no_state_of_a_compaction_changes_a_verdict_or_a_query(insert: Any, bits: int, data: st.DataObject) -> None:
    distance_max = data.draw(st.integers(0, 7))
    seed = data.draw(st.integers(0, 2**32))
    batch_rows = data.draw(st.integers(1, 9))
    tiny = TreeSizes(data.draw(st.integers(1, 30)), data.draw(st.sampled_from([64, 200, 1000])))
    rows = [Row(offset, fingerprint) for offset, fingerprint in enumerate(mixed(seed, 90, bits))]
    asked = [row.fingerprint for row in rows[:5]] + mixed(seed + 1, 3, bits)
    parameters = with_insert(Parameters(bits, distance_max), insert)
    oracle = BruteForceIndex(distance_max, root=parameters.root)
    with fresh(parameters, sizes=tiny) as index:
        for begin in range(0, len(rows), batch_rows):
            part = rows[begin : begin + batch_rows]
            assert answers_of(index.admit(entries_of(part, bits), {})) == oracle.admit(entries_of(part, bits), {})
            radius = (begin // batch_rows) % 8
            for fingerprint, matches in zip(asked, index.query(fingerprints_of(asked, bits), radius, 4), strict=True):
                distances = [((fingerprint ^ known.fingerprint).bit_count(), known.number) for known in oracle.known]
                expected = sorted(pair for pair in distances if pair[0] <= radius)[:4]
                assert [(match.distance, match.document.number) for match in matches] == expected
        assert index.statistics().entries == len(oracle.known)
        require_packed(index, oracle.known)


def test_the_merges_of_these_tests_come_to_an_end_and_begin_again(tmp_path: Path) -> None:
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(np.random.default_rng(1), 300, 64))]
    states = []
    with opened(tmp_path) as index:
        for begin in range(0, 300, 3):
            index.admit(entries_of(rows[begin : begin + 3]), {})
            states.append(packed(index).compaction)
        final = packed(index)
    assert len({state.merged_to for state in states}) > 10
    assert {state.table for state in states if state.frozen_to > state.merged_to} == {0, 1, 2, 3}
    assert sum(state.bound.strip(b"\0") != b"" for state in states) > 10
    # No batch waits for a whole memtable.
    assert max(after.version - before.version for before, after in pairwise(states)) <= 64
    assert max(final.segment_sizes) <= 64 // 8
    assert len(final.segment_sizes) > 100


def test_a_bucket_that_holds_everything_is_cut_into_segments_and_changes_no_verdict(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    fingerprints = one_bucket(generator, 400, 64)
    rows = [Row(offset, one) for offset, one in enumerate(fingerprints + [one ^ 0b11 for one in fingerprints[:200]])]
    oracle = BruteForceIndex(3)
    with opened(tmp_path, sizes=TreeSizes(50, 256)) as index:
        for begin in range(0, 600, 20):
            part = rows[begin : begin + 20]
            assert answers_of(index.admit(entries_of(part), {})) == oracle.admit(entries_of(part), {})
        state = packed(index)
        require_packed(index, oracle.known)
    assert max(state.segment_sizes) <= 256 // 8
    assert len(state.tables[0]) >= 300


def test_reopening_in_any_state_of_a_compaction_changes_nothing(tmp_path: Path) -> None:
    rows = [Row(offset, one) for offset, one in enumerate(mixed(3, 150, 64))]
    oracle = BruteForceIndex(3)
    seen = set()
    for begin in range(0, 150, 5):
        # Each time with other ideas of how large a memtable and a segment are.
        with opened(tmp_path, sizes=TreeSizes(5 + begin % 13, 64 + begin)) as index:
            part = rows[begin : begin + 5]
            assert answers_of(index.admit(entries_of(part), {})) == oracle.admit(entries_of(part), {})
            now = packed(index).compaction
            seen.add(now.frozen_to > now.merged_to)
            require_packed(index, oracle.known)
    assert seen == {True, False}
    with opened(tmp_path, read_only=True) as index:
        found = index.query(fingerprints_of([known.fingerprint for known in oracle.known], 64), 0, 1)
    assert [match.document.number for [match] in found] == [known.number for known in oracle.known]


def test_a_batch_that_fails_in_the_midst_of_a_merge_leaves_nothing_behind(tmp_path: Path) -> None:
    class Crash(Exception):
        pass

    moments = iter(np.random.default_rng(8).integers(0, 3, 10_000).tolist())

    def crash() -> None:
        if next(moments) == 0:
            raise Crash

    rows = [Row(offset, one) for offset, one in enumerate(mixed(4, 160, 64))]
    oracle = BruteForceIndex(3)
    with opened(tmp_path):
        pass
    crashes = 0
    with opened(tmp_path, hooks=CommitHooks(before_commit=crash, after_commit=crash)) as index:
        for begin in range(0, 160, 4):
            part = rows[begin : begin + 4]
            expected = oracle.admit(entries_of(part), {})
            while True:
                try:
                    assert answers_of(index.admit(entries_of(part), ends_of(part))) == expected
                    break
                except Crash:
                    crashes += 1
                    require_packed(index, oracle.known)
    assert crashes > 20


def test_restored_documents_merge_as_admitted_ones_do(tmp_path: Path) -> None:
    fingerprints = [*random_ones(np.random.default_rng(2), 120, 64), *[9] * 60]
    for root in (None, NEAR_ROOT):
        insert: Insert = "unique" if root is None else "root"
        rows = [Row(offset, one) for offset, one in enumerate(fingerprints)]
        oracle = BruteForceIndex(3, root=root)
        with opened(tmp_path / insert, Parameters(insert=insert, root=root)) as index:
            for begin in range(0, 180, 6):
                entries = entries_of(rows[begin : begin + 6])
                answers = oracle.admit(entries, {})
                verdicts = np.array([answer.verdict for answer in answers], np.uint8)
                index.restore(entries, verdicts, [answer.original_position for answer in answers])
            require_packed(index, oracle.known)
            assert packed(index).compaction.merged_to >= 60
            decisions = index.admit(entries_of([Row(1_000, 9), Row(1_001, fingerprints[0] ^ 1)]), {})
        assert decisions.verdicts.tolist() == [Verdict.DUPLICATE] * 2
        assert decisions.originals.tolist() == [120, 0]


def test_the_memtables_grow_with_what_the_index_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "GROWTH", 2)
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(np.random.default_rng(9), 400, 64))]
    sizes = set()
    with opened(tmp_path) as index:
        for begin in range(0, 400, 4):
            index.admit(entries_of(rows[begin : begin + 4]), {})
            now = packed(index).compaction
            sizes.add(now.frozen_to - now.merged_to)
    assert len(sizes) > 4
    assert max(sizes) > 100


@pytest.mark.parametrize("parameters", [Parameters(), Parameters(1024, 3_000, banding=Banding(128, 8, 25, 5))])
def test_a_run_takes_a_share_of_the_index_but_never_all_memory(parameters: Parameters) -> None:
    shape = shape_of(parameters)
    entries = [compaction._memtable_entries(TreeSizes(), shape, 10**power * shape.tables) for power in range(12)]
    assert entries == sorted(entries)
    assert entries[0] == compaction.MEMTABLE_BYTES // shape.memtable_bytes
    assert entries[-1] == compaction.MEMTABLE_BYTES_MAX // shape.memtable_bytes
    assert compaction._memtable_entries(TreeSizes(10), shape, 64_000 * shape.tables) == 64_000 // compaction.GROWTH


@pytest.mark.parametrize(("memtable_entries", "segment_bytes"), [(0, 64), (1, 63)])
def test_sizes_that_make_no_sense_are_refused(memtable_entries: int, segment_bytes: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        TreeSizes(memtable_entries, segment_bytes)
