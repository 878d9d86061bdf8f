"""Merging into segments of MinHash, against plain sets and plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import hash_segments
from index.storage.segments.hash_codec import Entries, HashKey, pack_hash_segment
from tests.support.examples import examples
from tests.support.plain_hash_segments import plain_segment

KEY = HashKey(3, 1, 0, 0)
Plain = set[tuple[int, int]]


def entries_of(plain: Plain) -> Entries:
    return np.array(sorted(plain), np.uint64).reshape(-1, 2).T.copy()


def plain_of(entries: Entries) -> list[tuple[int, int]]:
    return [(hashed, number) for hashed, number in entries.T.tolist()]


def words_of(plain: Plain) -> np.ndarray:
    return np.frombuffer(pack_hash_segment(KEY, entries_of(plain)) if plain else b"", np.uint64)


def drawn(generator: np.random.Generator, count: int, hash_bits: int, number_bits: int) -> Plain:
    hashes = generator.integers(0, 2**hash_bits, count, dtype=np.uint64) << np.uint64(24)
    numbers = generator.integers(0, 2**number_bits, count, dtype=np.uint64)
    return set(zip(hashes.tolist(), numbers.tolist(), strict=True))


BITS = st.sampled_from([1, 3, 8, 16, 21, 32, 33, 40])


@examples(80)
@given(st.integers(0, 2**32), st.integers(1, 1_500), BITS, BITS)
def test_a_segment_is_byte_for_byte_what_plain_python_packs(
    seed: int, count: int, hash_bits: int, number_bits: int
) -> None:
    entries = sorted(drawn(np.random.default_rng(seed), count, hash_bits, number_bits))
    assert pack_hash_segment(KEY, entries_of(set(entries))) == plain_segment(KEY, entries)


@examples(80)
@given(st.integers(0, 2**32), st.tuples(*[st.integers(0, 400)] * 3), BITS, st.booleans(), st.sampled_from([0, 2**29]))
def test_what_is_merged_is_old_and_new_entries_without_removed_and_low_ones(
    seed: int, counts: tuple[int, int, int], hash_bits: int, bounded: bool, first_number: int
) -> None:
    generator = np.random.default_rng(seed)
    old, new, strange = (drawn(generator, count, hash_bits, 30) for count in counts)
    new -= old
    removed = strange - new | {entry for entry in old if generator.random() < 0.3}
    bound = (int(generator.integers(0, 2**hash_bits)) << 24, 2**29)
    limit = bound if bounded else (2**64, 0)
    old = {entry for entry in old if entry < limit}
    # What stands before these places is of an earlier segment.
    other, gone = (int(generator.integers(0, len(each) + 1)) for each in (new, removed))
    here = {entry for entry in sorted(new)[other:] if entry < limit}
    leaving = {entry for entry in sorted(removed)[gone:] if entry < limit}
    found, left, next_other, next_gone, before = hash_segments.merged_entries(
        words_of(old),
        entries_of(new),
        entries_of(removed),
        other,
        gone,
        np.array(bound if bounded else (), np.uint64),
        first_number,
    )
    kept = {entry for entry in old - leaving if entry[1] >= first_number}
    assert plain_of(found) == sorted(kept | here)
    assert plain_of(left) == sorted(leaving - old)
    assert (next_other - other, next_gone - gone, before) == (len(here), len(leaving), len(old))


@pytest.mark.parametrize("words", [1, 5, 40])
def test_what_is_no_segment_is_told(words: int) -> None:
    whole, nothing = words_of(drawn(np.random.default_rng(1), 500, 40, 27)), np.empty((2, 0), np.uint64)
    found = hash_segments.merged_entries(whole[:words], nothing, nothing, 0, 0, np.empty(0, np.uint64), 0)
    assert (found[0].shape, found[4]) == ((2, 0), -1)


BOUNDS = st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(7 << 16, (7 << 16) + 3))


@examples(40)
@given(
    st.lists(st.lists(BOUNDS, max_size=9), min_size=1, max_size=4), st.lists(BOUNDS, min_size=1, max_size=9), st.data()
)
def test_a_span_holds_every_segment_that_may_hold_what_lies_between_the_bounds(
    bounds_of_tables: list[list[int]], asked: list[int], data: st.DataObject
) -> None:
    tables = [np.array(sorted(of_table), np.uint64) for of_table in bounds_of_tables]
    edges = np.cumsum([0, *map(len, tables)])
    of_columns = np.array(data.draw(st.permutations(range(len(tables)))))
    lowest = np.repeat(np.array(asked, np.uint64)[:, None], len(tables), axis=1)
    highest = lowest + np.uint64(data.draw(st.sampled_from([0, 3, 2**16])))
    # Sorted by all bits, by some, or by none.
    unsorted_bits = np.uint64(data.draw(st.sampled_from([0, 1, 16, 40])))
    order = np.lexsort((lowest.reshape(-1) >> unsorted_bits, np.tile(of_columns, len(asked))))
    begins, ends = np.full(lowest.shape, -1), np.full(lowest.shape, -1)
    hash_segments.fill_spans(of_columns, lowest, highest, order, edges, np.concatenate(tables), begins, ends)
    for row, column in np.ndindex(lowest.shape):
        table = int(of_columns[column])
        first = max(0, int(np.searchsorted(tables[table], lowest[row, column])) - 1)
        end = int(np.searchsorted(tables[table], highest[row, column], side="right"))
        assert begins[row, column] == edges[table] + first
        assert max(begins[row, column], ends[row, column]) == edges[table] + max(first, end)
