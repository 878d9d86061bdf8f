"""What is kept of the segments from one transaction to the next against what the file says."""

import ctypes
import tempfile
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.index import Index
from index.lsm import compaction, segment_directory
from index.lsm.compaction import TreeSizes
from index.lsm.segment_directory import SegmentDirectory, written_between
from index.lsm.shape import Shape
from index.session import Retention
from index.storage import holding
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import CompactionState
from index.storage.store import Transaction
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import Row, entries_of
from tests.support.fingerprints import mixed, random_ones
from tests.support.indexes import changed, inspected

PARAMETERS = Parameters(64, 3, "all")
SHAPE = Shape.of(PARAMETERS)
KEPT = Retention(entries_max=250)


def opened(path: Path, memtable_entries: int = 20, segment_bytes: int = 100, **options: int) -> Index:
    """Segments of a few bytes: LMDB puts many on a page, which moves whenever one of them is written."""
    tiny = TreeSizes(memtable_entries, segment_bytes)
    return Index.open(path, PARAMETERS, **{"map_bytes_max": 2**30, **options}, sizes=tiny, retention=KEPT)  # type: ignore[arg-type]


def segments_of(transaction: Transaction) -> tuple[CompactionState, dict[bytes, bytes]]:
    return compaction.state(transaction), {key: bytes(value) for key, value in transaction.walk(Table.SEGMENTS)}


def states_of(
    seed: int, memtable_entries: int, size: int, batch_rows: int
) -> list[tuple[CompactionState, dict[bytes, bytes]]]:
    """The segments behind each batch of a stream."""
    states = []
    rows = [Row(offset, one) for offset, one in enumerate(mixed(seed, 300, 64))]
    with tempfile.TemporaryDirectory() as path, opened(Path(path), memtable_entries, size) as index:
        for begin in range(0, len(rows), batch_rows):
            index.admit(entries_of(rows[begin : begin + batch_rows]), {})
            states.append(inspected(index, segments_of))
    return states


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([64, 200, 1000]), st.integers(1, 60))
def test_segments_that_were_written_lie_between_the_cursors(
    seed: int, memtable_entries: int, size: int, batch_rows: int
) -> None:
    """Whatever comes in between: entries, removals, whole memtables, nothing."""
    states = states_of(seed, memtable_entries, size, batch_rows)
    for steps in (1, 2, 5, 40):
        for (before, old), (now, new) in zip(states, states[steps:], strict=False):
            written = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
            between = written_between(before, now)
            if between is None:
                assert not written
            else:
                assert all(between[0] <= key and (between[1] is None or key <= between[1]) for key in written)


def test_between_the_cursors_of_one_batch_lie_few_segments() -> None:
    states, between, all_of_them = states_of(1, 60, 64, 2), 0, 0
    for (before, _), (now, new) in pairwise(states):
        written = written_between(before, now)
        keys = sorted(new)
        all_of_them += len(keys)
        if written is not None:
            end = len(keys) if written[1] is None else bisect_right(keys, written[1])
            between += end - bisect_left(keys, written[0])
    assert 0 < between < all_of_them / 4


def read_at(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def require_kept(transaction: Transaction, kept: SegmentDirectory, wanted: np.ndarray) -> int:
    """What is kept is what the file says, and where it says; how many of the addresses were not asked for anew."""
    now, values = segments_of(transaction)
    kept.follow(transaction, now)
    fresh = SegmentDirectory(SHAPE)
    fresh.follow(transaction, now)
    assert kept.keys == list(values)
    for name in ("edges", "bounds", "firsts", "widths"):
        assert getattr(kept, name).tolist() == getattr(fresh, name).tolist()
    asked = 0
    addresses_of = Transaction.addresses

    def counting(own: Transaction, table: Table, keys: list[bytes]) -> list[int]:
        nonlocal asked
        asked += len(keys)
        return addresses_of(own, table, keys)

    places = np.flatnonzero(np.resize(wanted, len(kept)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "addresses", counting)
        addresses = kept.addresses(transaction, np.resize(wanted, len(kept)))
    for place in places.tolist():
        value = values[kept.keys[place]]
        assert read_at(int(addresses[place]), len(value)) == value
    return len(places) - asked


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_kept_is_what_every_transaction_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However seldom it follows, in transactions that write and that do not, as segments are written all the while."""
    # Tables as small as these would be let go with every batch.
    monkeypatch.setattr(segment_directory, "WRITTEN_PART", 1)
    generator = np.random.default_rng(seed)
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(generator, 600, 64))]
    kept, spared = SegmentDirectory(SHAPE), 0
    with opened(tmp_path, 60, map_bytes_initial=2**20) as index:
        for begin in range(0, len(rows), 3):
            index.admit(entries_of(rows[begin : begin + 3]), {})
            if generator.random() < 0.5:
                continue
            within = inspected if generator.random() < 0.2 else changed
            wanted = generator.random(7) < generator.choice([0.2, 1.0])
            spared += within(index, lambda transaction, wanted=wanted: require_kept(transaction, kept, wanted))
        assert len(kept) > 30
    assert spared > 0


def test_one_that_misses_what_was_written_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The test of the test above."""
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(np.random.default_rng(1), 300, 64))]
    kept = SegmentDirectory(SHAPE)
    with opened(tmp_path) as index:
        index.admit(entries_of(rows[:200]), {})
        changed(index, lambda transaction: require_kept(transaction, kept, np.ones(1, np.bool_)))
        index.admit(entries_of(rows[200:]), {})
        monkeypatch.setattr(segment_directory, "written_between", lambda before, now: None)
        with pytest.raises(AssertionError):
            changed(index, lambda transaction: require_kept(transaction, kept, np.ones(1, np.bool_)))


def test_verdicts_are_those_of_brute_force_while_the_map_grows_under_what_is_kept(tmp_path: Path) -> None:
    rows = [Row(offset, one, id=f"{offset} " * 100) for offset, one in enumerate(mixed(5, 1_500, 64))]
    oracle, sizes = BruteForceIndex(PARAMETERS.distance_max, "all"), set()
    with Index.open(
        tmp_path, PARAMETERS, map_bytes_max=2**30, map_bytes_initial=2**20, sizes=TreeSizes(40, 300)
    ) as index:
        for begin in range(0, len(rows), 30):
            batch = entries_of(rows[begin : begin + 30])
            assert answers_of(index.admit(batch, {})) == oracle.admit(batch, {})
            sizes.add(index.statistics().map_bytes)
    assert len(sizes) > 1


def admitted(path: Path, rows: list[Row]) -> int:
    """The size of the file in the end."""
    with Index.open(path, PARAMETERS, map_bytes_max=2**30, sizes=TreeSizes(2_000, 2**14)) as index:
        for begin in range(0, len(rows), 20):
            index.admit(entries_of(rows[begin : begin + 20]), {})
        return index.statistics().used_bytes


def test_what_is_held_on_to_makes_the_file_little_larger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the midst of compactions, where whole segments are written again and again: by a part of them, and of some batches."""
    rows = [Row(offset, one) for offset, one in enumerate(random_ones(np.random.default_rng(2), 8_000, 64))]
    held = admitted(tmp_path / "held", rows)
    monkeypatch.setattr(holding, "HELD_WRITES", 0)
    let_go = admitted(tmp_path / "let go at once", rows)
    monkeypatch.setattr(holding, "HELD_WRITES", 2**30)
    monkeypatch.setattr(holding, "HELD_SECONDS", 2.0**30)
    monkeypatch.setattr(segment_directory, "WRITTEN_PART", 0)
    never = admitted(tmp_path / "never let go", rows)
    assert held <= 1.125 * let_go + 2**21 < never
