import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.kernels.ids import NO_HASH
from index.lsm import id_memtable
from index.lsm.id_memtable import IdMemtable
from index.storage.layout import ID_HASHES

HASHES = st.one_of(st.integers(0, ID_HASHES - 1), st.sampled_from([0, 1, ID_HASHES - 1, int(NO_HASH)]))


@pytest.fixture(autouse=True)
def _small_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_memtable, "_ROWS_IN_STRIPE", 8)


def memtable_of(hashes: list[int], begin: int) -> IdMemtable:
    memtable = IdMemtable(begin)
    memtable.add(begin, np.array(hashes, np.uint64))
    return memtable


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(HASHES, max_size=400),
    st.integers(0, 2**39),
    st.tuples(st.integers(0, ID_HASHES - 1), st.integers(1, ID_HASHES)),
    st.integers(1, 50),
)
def test_rows_move_out_in_the_order_of_their_hashes_each_once(
    hashes: list[int], first: int, bounds: tuple[int, int], count_max: int
) -> None:
    memtable, (begin, end) = memtable_of(hashes, first), (min(bounds), max(bounds))
    if begin == end:
        return
    found, cursor, portions = [], begin, 0
    while cursor < end:
        own, rows, on = memtable.between(cursor, end, count_max)
        assert cursor < on <= end
        assert all(cursor <= each < on for each in own.tolist())
        assert on == end or len(rows) >= count_max or len(rows) == 0
        found += zip(own.tolist(), rows.tolist(), strict=True)
        cursor, portions = on, portions + 1
    assert found == sorted((each, first + at) for at, each in enumerate(hashes) if begin <= each < end)
    assert count_max < len(hashes) or portions == 1


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 40))
def test_what_is_cut_is_not_found_and_rows_that_left_the_log_are_no_rows(
    hashes: list[int], kept: int, gap: int
) -> None:
    memtable, kept = memtable_of(hashes, 100), min(kept, len(hashes))
    asked = np.arange(6, dtype=np.uint64)

    def found() -> list[tuple[int, int]]:
        hits = memtable.hits(asked, 1_000)
        return sorted(zip(hits.asked.tolist(), hits.rows.tolist(), strict=True))

    whole = sorted((each, 100 + at) for at, each in enumerate(hashes))
    assert found() == whole
    memtable.cut(kept)
    assert len(memtable) == kept
    left = [each for each in whole if each[1] < 100 + kept]
    assert found() == left
    memtable.add(100 + kept + gap, np.array([3, int(NO_HASH)], np.uint64))
    assert len(memtable) == kept + gap + 2
    assert found() == sorted([*left, (3, 100 + kept + gap)])
    _, rows, _ = memtable.between(3, 4, 99)
    assert rows.tolist() == [row for each, row in found() if each == 3]
