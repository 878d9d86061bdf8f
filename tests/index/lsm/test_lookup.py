"""Lookups of SimHash against brute force, in memory and in segments of which most are not read."""

import numpy as np
import pytest

from index.lsm.levels import Levels
from index.lsm.lookup import first_of_equals, lookup_of
from index.lsm.segments import Segments
from index.storage.codec import LOG_ORIGINAL, LOG_ROW, LOG_SOURCE, pack_batch
from index.storage.layout import Filing, Table
from index.storage.log import key_of
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import Level, unpack_compaction
from index.storage.segments.hash_codec import NO_ENTRIES
from index.storage.store import Transaction
from tests.support.entries import fingerprints_of
from tests.support.packed import columns_of
from tests.support.stores import stores

PARAMETERS = Parameters(64)


def write_segments(transaction: Transaction, words: list[int], segment_entries: int) -> None:
    """All tables of these fingerprints, every third in the first level, with a log; the number of each is its place."""
    target = Levels(transaction, Table.SEGMENTS, segment_entries)
    for table in range(4):
        entries = [columns_of(PARAMETERS, table, number, [word]) for number, word in enumerate(words)]
        for level, some in ((Level.FIRST, entries[::3]), (Level.LAST, entries[1::3] + entries[2::3])):
            columns = np.array(sorted(some), np.uint64).reshape(-1, 2).T
            target.merge_in(table, level, columns, NO_ENTRIES, segment_entries)
    rows = np.zeros(len(words), LOG_ROW)
    rows["filing"] = Filing.BLOCKS
    nothing, fingerprints = np.zeros(0, LOG_ORIGINAL), np.array(words, np.uint64)[:, None]
    batch = pack_batch(np.zeros(1, LOG_SOURCE), rows, fingerprints, [""] * len(words), nothing, [])
    transaction.put(Table.LOG, key_of(0, 0), batch)


def found_in(transaction: Transaction, asked: np.ndarray, distance_max: int) -> set[tuple[int, int, int]]:
    segments = Segments(Table.SEGMENTS, 4)
    segments.follow(transaction, unpack_compaction(None))
    return {
        hit
        for found, _ in lookup_of(asked, PARAMETERS, distance_max).matches(transaction, [], segments)
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
    check = Segments._check

    def noting(places: Segments, transaction: Transaction, wanted: np.ndarray, addresses: np.ndarray) -> None:
        checked.extend(np.flatnonzero(wanted).tolist())
        check(places, transaction, wanted, addresses)

    monkeypatch.setattr(Segments, "_check", noting)
    with stores() as store:
        store.write(lambda transaction: write_segments(transaction, words, 50))
        assert store.read(lambda transaction: found_in(transaction, asked, 3)) == {(0, 0, 0)}
        assert store.read(lambda transaction: transaction.count(Table.SEGMENTS)) > 100
    # One of each table and level or two, and the one after them.
    assert 8 <= len(checked) <= 24
    assert len(checked) == len(set(checked))


def test_an_index_without_segments_has_no_hits() -> None:
    with stores() as store:
        assert store.read(lambda transaction: found_in(transaction, np.zeros((3, 1), np.uint64), 3)) == set()


@pytest.mark.parametrize("bits", [64, 128])
def test_the_first_of_equals_is_the_earliest_row(bits: int) -> None:
    batch = [9, 2**bits - 1, 9, 1, 2**bits - 1, 9]
    assert first_of_equals(fingerprints_of(batch, bits)).tolist() == [0, 1, 0, 3, 1, 0]
