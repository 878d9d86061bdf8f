"""The sketch of hosts against exact counts."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.entry import HostShare
from index.matching.host_sketch import (
    AGEING_DOCUMENTS,
    NAME_CHARACTERS_MAX,
    NO_HOST,
    RECENT_DOCUMENTS,
    UNKNOWN,
    HostLimits,
    HostSketch,
)

LIMITS = HostLimits(share_max=0.8, documents_min=10)

Documents = Sequence[tuple[int, bool]]
"""Host, 0 for none, and whether the document is a near but unequal duplicate."""

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=30),
    max_size=12,
)


def columns(documents: Documents) -> tuple[np.ndarray, list[str | None], np.ndarray]:
    keys = np.array([host for host, _ in documents], np.uint64)
    return keys, [f"host {host}" if host else None for host, _ in documents], np.array([d for _, d in documents], bool)


def after(documents: Documents, sketch: HostSketch = UNKNOWN, hosts_max: int = 1_000) -> HostSketch:
    keys, names, unequal = columns(documents)
    return sketch.with_rows(keys, names, unequal, LIMITS, hosts_max=hosts_max)


def share_of(sketch: HostSketch, host: int) -> HostShare:
    return next(share for share in sketch.worst(1_000) if share.host == f"host {host}")


@given(batches, st.integers(1, 6))
def test_a_full_sketch_holds_every_host_above_its_part_and_never_counts_too_little(
    stream: list[Documents], hosts_max: int
) -> None:
    exact: Counter[int] = Counter()
    sketch = UNKNOWN
    for batch in stream:
        sketch = after(batch, sketch, hosts_max)
        exact.update(host for host, unequal in batch if host and unequal)
        counts = dict(zip(sketch.hosts["key"].tolist(), sketch.hosts["count"].tolist(), strict=True))
        assert len(counts) <= hosts_max
        assert sum(counts.values()) <= exact.total()
        assert all(counts[host] >= exact[host] for host in counts)
        lowest = min(counts.values()) if len(counts) == hosts_max else 0
        assert all(exact[host] <= lowest for host in exact.keys() - counts.keys())
        assert {host for host, count in exact.items() if count > exact.total() / hosts_max} <= counts.keys()


@given(batches)
def test_with_room_for_all_the_numbers_are_exact_from_the_first_unequal_duplicate_on(
    stream: list[Documents],
) -> None:
    sketch = UNKNOWN
    documents: Counter[int] = Counter()
    unequal: Counter[int] = Counter()
    for batch in stream:
        sketch = after(batch, sketch)
        for host, duplicate in batch:
            unequal[host] += bool(host) and duplicate
            documents[host] += unequal[host] > 0
    assert {share.host: share[1:3] for share in sketch.worst(1_000)} == {
        f"host {host}": (documents[host], unequal[host]) for host in documents if documents[host]
    }


@given(batches, st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_whether_a_host_was_beyond_before_a_row_is_what_the_rows_before_it_say(
    stream: list[Documents], batch: Documents
) -> None:
    sketch = UNKNOWN
    for earlier in stream:
        sketch = after([(1 + host % 3 if host else 0, True) for host, _ in earlier], sketch)
    known = {share.host: share for share in sketch.worst(1_000)}
    documents = Counter({host: known[f"host {host}"].documents for host in range(1, 4) if f"host {host}" in known})
    unequal = Counter({host: known[f"host {host}"].unequal for host in documents})
    expected = []
    for host, duplicate in batch:
        was_beyond = f"host {host}" in known and known[f"host {host}"].beyond
        factor = (0.5, 0.9) if was_beyond else (1.0, 1.0)
        enough = documents[host] >= factor[0] * LIMITS.documents_min
        above = unequal[host] >= factor[1] * LIMITS.share_max * documents[host]
        expected.append(bool(host) and enough and above)
        unequal[host] += duplicate
        documents[host] += unequal[host] > 0
    keys, _, duplicates = columns(batch)
    assert sketch.beyond_before(keys, duplicates, LIMITS).tolist() == expected


def test_a_host_is_told_once_when_it_crosses_the_limit_and_once_when_it_comes_back() -> None:
    told = []
    sketch = UNKNOWN
    for unequal in [True] * 30 + [False] * 20:
        before, sketch = sketch, after([(1, unequal)], sketch)
        told += sketch.crossed(before)
    assert told == [HostShare("host 1", 10, 10, True), HostShare("host 1", 42, 30, False)]
    assert sketch.beyond_count() == 0


def test_a_host_that_loses_its_place_is_told_to_be_no_longer_beyond() -> None:
    sketch = after([(1, True)] * 10, hosts_max=1)
    pushed_out = after([(2, True)] * 11, sketch, hosts_max=1)
    assert pushed_out.crossed(sketch) == [HostShare("host 2", 11, 11, True), HostShare("host 1", 10, 10, False)]


def test_a_host_between_the_limits_does_not_flutter() -> None:
    sketch = after([(1, True)] * 80 + [(1, False)] * 20)
    assert share_of(sketch, 1).beyond
    for unequal in (False, True, False, False):
        before, sketch = sketch, after([(1, unequal)], sketch)
        assert sketch.crossed(before) == []


def test_a_busy_host_is_known_by_its_latest_documents() -> None:
    sketch = after([(1, True)] + [(1, False)] * 10 * RECENT_DOCUMENTS)
    for _ in range(8):
        sketch = after([(1, True)] * RECENT_DOCUMENTS, sketch)
    share = share_of(sketch, 1)
    assert share.beyond
    assert RECENT_DOCUMENTS <= share.documents < 2 * RECENT_DOCUMENTS


def test_an_idle_host_fades_until_its_place_is_free() -> None:
    sketch = after([(1, True)] * 500)
    others = np.full(AGEING_DOCUMENTS, 2, np.uint64)
    seen = []
    for _ in range(10):
        before, sketch = sketch, sketch.with_rows(others, ["host 2"] * len(others), others == 0, LIMITS)
        seen += sketch.crossed(before)
    assert [share.beyond for share in seen] == [False]
    assert not len(sketch.hosts)
    assert sketch.names == []


def test_a_host_without_unequal_duplicates_takes_no_place() -> None:
    assert not len(after([(host, False) for host in range(1, 100)]).hosts)


def test_the_worst_are_those_beyond_the_limit_then_those_with_the_largest_share_of_many() -> None:
    few = [(1, True)] * 3
    mixed = [(2, place % 2 == 0) for place in range(400)]
    beyond = [(3, True)] * 12
    sketch = after([*few, *mixed, *beyond])
    assert [share.host for share in sketch.worst(3)] == ["host 3", "host 2", "host 1"]
    assert len(sketch.worst(2)) == 2


def test_names_are_cut_and_hold_no_line_break() -> None:
    keys, unequal = np.array([1, 2], np.uint64), np.array([True, True])
    sketch = UNKNOWN.with_rows(keys, ["a\nb", "x" * 5_000], unequal, LIMITS)
    assert sketch.names == ["a b", "x" * NAME_CHARACTERS_MAX]


def test_rows_without_a_host_change_nothing() -> None:
    assert after([(0, True)] * 40).counted == 0
    assert int(NO_HOST) == 0
