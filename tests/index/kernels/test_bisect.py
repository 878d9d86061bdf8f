"""Looking for keys in segments against the same thing said in numpy or plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.kernels import bisect
from index.kernels.scan import Spans
from index.storage.parameters import Parameters
from tests.support.entries import clustered_fingerprints, fingerprints_of
from tests.support.packed import columns_of
from tests.support.segments import keys_in, segment_of, spans_of

EVERYTHING = 2**30
LAST = 2**32 - 1
KEYS = st.one_of(st.integers(0, LAST), st.integers(0, 9), st.integers(7 << 16, (7 << 16) + 3), st.just(LAST))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(KEYS, max_size=9), min_size=1, max_size=4), st.lists(KEYS, min_size=1, max_size=9), st.data())
def test_a_span_holds_every_segment_that_may_hold_what_lies_between_the_bounds(
    bounds_of_tables: list[list[int]], asked: list[int], data: st.DataObject
) -> None:
    tables = [np.array(sorted(of_table), np.uint64) for of_table in bounds_of_tables]
    edges = np.cumsum([0, *map(len, tables)])
    of_columns = np.array(data.draw(st.permutations(range(len(tables)))))
    lowest = np.repeat(np.array(asked, np.uint64)[:, None], len(tables), axis=1)
    highest = lowest + np.uint64(data.draw(st.sampled_from([0, 3, 2**16])))
    order = np.lexsort((lowest.reshape(-1), np.tile(of_columns, len(asked))))
    begins, ends = np.full(lowest.shape, -1), np.full(lowest.shape, -1)
    bisect.fill_spans(of_columns, lowest, highest, order, edges, np.concatenate(tables), begins, ends)
    for row, column in np.ndindex(lowest.shape):
        table = int(of_columns[column])
        first = max(0, int(np.searchsorted(tables[table], lowest[row, column])) - 1)
        end = int(np.searchsorted(tables[table], highest[row, column], side="right"))
        assert begins[row, column] == edges[table] + first
        assert max(begins[row, column], ends[row, column]) == edges[table] + max(first, end)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(KEYS, min_size=1, max_size=300),
    st.integers(1, 5),
    st.integers(1, 400),
    st.lists(KEYS, max_size=70),
    st.sampled_from([1, 2**16]),
)
def test_a_key_is_found_however_keys_are_spread_and_wherever_segments_end(
    held: list[int], repeats: int, segment_entries: int, more: list[int], breadth: int
) -> None:
    held = sorted(held * repeats)
    segments = [
        segment_of([(key >> 16, key & 0xFFFF) for key in held[begin : begin + segment_entries]])
        for begin in range(0, len(held), segment_entries)
    ]
    asked = np.array(sorted([*more, *held[::7]]), np.uint32)[:, None] // np.uint32(breadth) * np.uint32(breadth)
    expected = spans_of([segments], np.zeros(asked.shape, np.int64), asked.astype(np.int64), breadth)
    bounds = np.array([0, *(keys_in(segment)[0] for segment in segments[1:])], np.int64)
    lowest, order = asked.astype(np.uint64) << np.uint64(32), np.arange(len(asked))
    highest = lowest + np.uint64((breadth << 32) - 1)
    found = Spans(*(np.zeros(asked.shape, np.int64) for _ in range(3)), expected.addresses)
    edges, of_bounds = np.array([0, len(segments)]), bounds.astype(np.uint64) << np.uint64(32)
    bisect.fill_spans(np.zeros(1, np.int64), lowest, highest, order, edges, of_bounds, found.begins, found.ends)
    widths = np.maximum(np.append(bounds[1:], 2**32) - bounds, 1)
    bisect.fill_places(asked, breadth, order, bounds, widths, found)
    there = expected.begins < expected.ends
    assert (found.begins < found.ends).tolist() == there.tolist()
    for name in ("begins", "places"):
        assert getattr(found, name)[there].tolist() == getattr(expected, name)[there].tolist()
    assert (found.ends >= expected.ends)[there].all()


@pytest.mark.parametrize("bits", [64, 128])
def test_places_in_segments_are_those_of_the_equal_entries(bits: int) -> None:
    some = clustered_fingerprints(np.random.default_rng(4), 90, bits, centres=1)
    words = {*map(tuple, fingerprints_of(some, bits).tolist())}
    entries = sorted(columns_of(Parameters(bits), 0, 0, each) for each in words)
    asked = np.array([*entries, *((*entry[:-1], entry[-1] ^ 0x100) for entry in entries[:5])], np.uint16)
    segments = [segment_of(entries[:30]), segment_of(entries[30:])]
    keys = (asked[:, 0].astype(np.int64) << 16 | asked[:, 1])[:, None]
    spans = spans_of([segments], np.zeros(keys.shape, np.int64), keys, 1)
    of_segments, places = bisect.places_in_segments(asked, spans)
    expected = [entries.index(tuple(one)) if tuple(one) in entries else -1 for one in asked.tolist()]
    assert np.where(of_segments < 0, -1, places + 30 * of_segments).tolist() == expected
    assert -1 in expected
