"""Which segments are read for a look-up, and which are not."""

import numpy as np
import pytest

from index.lsm.segment_places import SegmentPlaces
from index.lsm.shape import shape_of
from index.storage.codec import pack_segment
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import unpack_compaction
from index.storage.store import Transaction
from tests.support.packed import columns_of
from tests.support.stores import stores

PARAMETERS = Parameters(64)
SHAPE = shape_of(PARAMETERS)


def write_segments(transaction: Transaction, words: list[int], segment_entries: int) -> None:
    """All tables of these fingerprints; the number of each is its place."""
    for table in range(4):
        numbered = sorted((columns_of(PARAMETERS, table, number, [word]), number) for number, word in enumerate(words))
        for begin in range(0, len(numbered), segment_entries):
            part = numbered[begin : begin + segment_entries]
            bound = (0,) * 4 if begin == 0 else part[0][0]
            key = bytes([table]) + np.array(bound, ">u2").tobytes()
            numbers = np.array([number for _, number in part] if table == 0 else [], np.uint64)
            columns = np.array([entry for entry, _ in part], np.uint16).T
            transaction.put(Table.SEGMENTS, key, pack_segment(columns, numbers))


def found_in(transaction: Transaction, asked: np.ndarray, distance_max: int) -> set[tuple[int, int, int]]:
    segments = SHAPE.open_segments()
    segments.follow(transaction, unpack_compaction(None))
    return {
        hit
        for found, _ in SHAPE.lookup(asked, distance_max).matches(transaction, [], segments, None)
        for hit in zip(found.rows.tolist(), found.distances.tolist(), found.numbers.tolist(), strict=True)
    }


@pytest.mark.parametrize("segment_entries", [1, 2, 7, 1000])
@pytest.mark.parametrize("distance_max", [0, 3, 4, 7])
def test_entries_are_found_wherever_the_bounds_of_segments_fall(segment_entries: int, distance_max: int) -> None:
    """Buckets that begin a segment, end one, span many; bounds that are equal in all but the last column."""
    generator = np.random.default_rng(segment_entries)
    blocks = generator.choice([0, 1, 3, 0x8000, 0xFFFF], (120, 4)).astype(">u2")
    words = sorted(set(blocks.view(">u8")[:, 0].tolist()))
    asked = np.array(words[::3] + [word ^ 0b101 for word in words[::5]], np.uint64)[:, None]
    expected = {
        (row, (word ^ other).bit_count(), number)
        for row, word in enumerate(asked[:, 0].tolist())
        for number, other in enumerate(words)
        if (word ^ other).bit_count() <= distance_max
    }
    with stores() as store:
        store.write(lambda transaction: write_segments(transaction, words, segment_entries))
        assert store.read(lambda transaction: found_in(transaction, asked, distance_max)) == expected
    assert len(expected) >= len(words) // 3


def test_only_segments_that_may_hold_what_is_asked_for_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    words = sorted(set(generator.integers(0, 2**63, 2_000).tolist()))
    asked = np.array(words[:1], np.uint64)[:, None]
    checked: list[int] = []
    check = SegmentPlaces._check

    def noting(places: SegmentPlaces, transaction: Transaction, wanted: np.ndarray, addresses: np.ndarray) -> None:
        checked.extend(np.flatnonzero(wanted).tolist())
        check(places, transaction, wanted, addresses)

    monkeypatch.setattr(SegmentPlaces, "_check", noting)
    with stores() as store:
        store.write(lambda transaction: write_segments(transaction, words, 50))
        assert store.read(lambda transaction: found_in(transaction, asked, 3)) == {(0, 0, 0)}
        assert store.read(lambda transaction: transaction.count(Table.SEGMENTS)) > 100
    # One of each table or two, and the one after them.
    assert 4 <= len(checked) <= 12
    assert len(checked) == len(set(checked))


def test_an_index_without_segments_has_no_hits() -> None:
    with stores() as store:
        assert store.read(lambda transaction: found_in(transaction, np.zeros((3, 1), np.uint64), 3)) == set()


def test_what_table_0_does_not_hold_is_no_hit() -> None:
    def write(transaction: Transaction) -> None:
        write_segments(transaction, [5, 2**40], 10)
        transaction.delete(Table.SEGMENTS, bytes(9))

    with stores() as store:
        store.write(write)
        assert store.read(lambda transaction: found_in(transaction, np.array([[5]], np.uint64), 3)) == set()
