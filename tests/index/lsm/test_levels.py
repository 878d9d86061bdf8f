"""Levels of the segments of MinHash against plain sets of entries."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.lsm import levels
from index.lsm.levels import Levels
from index.storage.layout import Table
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, Level, unpack_compaction
from index.storage.segments.hash_codec import Entries, HashKey, unpack_hash_segment
from index.storage.store import Transaction
from tests.support.examples import examples
from tests.support.plain_hash_segments import plain_segment
from tests.support.stores import stores

Plain = set[tuple[int, int]]
TABLES = 2


def entries_of(plain: Plain) -> Entries:
    return np.array(sorted(plain), np.uint64).reshape(-1, 2).T.copy()


def held(transaction: Transaction, capacity: int) -> dict[tuple[int, Level], Plain]:
    """What stands in each table and level; fails unless segments ascend, begin at their bounds, and are small enough.

    And unless each is byte for byte what plain Python packs.
    """
    found: dict[tuple[int, Level], list[tuple[int, int]]] = {(t, level): [] for t in range(TABLES) for level in Level}
    for key, value in transaction.walk(Table.SEGMENTS):
        own = HashKey(*HASH_KEY.unpack(key))
        entries = [(hashed, number) for hashed, number in unpack_hash_segment(value).T.tolist()]
        assert bytes(value) == plain_segment(own, entries)
        before = found[own.band, Level(own.level)]
        assert (own.hashed, own.number) <= entries[0]
        assert not before or before[-1] < (own.hashed, own.number)
        assert own.level == Level.REMOVED or len(entries) <= capacity
        before += entries
    for entries in found.values():
        assert all(one < other for one, other in pairwise(entries))
    return {where: set(entries) for where, entries in found.items()}


@examples(40)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 60), st.sampled_from([4, 40]))
def test_what_moves_in_and_settles_is_all_that_came_and_did_not_leave(
    seed: int, capacity: int, first_max: int, hash_bits: int
) -> None:
    generator = np.random.default_rng(seed)
    there: list[Plain] = [set() for _ in range(TABLES)]
    now, number = unpack_compaction(None), 0

    def step(transaction: Transaction, table: int) -> CompactionState:
        nonlocal number
        added = set()
        for _ in range(int(generator.integers(0, 30))):
            added.add((int(generator.integers(2**hash_bits)) << 24, number))
            number += 1
        old = sorted(there[table])
        chosen = generator.permutation(len(old))[: int(generator.integers(0, 8))]
        removed = {old[place] for place in chosen.tolist()}
        there[table] = there[table] - removed | added
        target = Levels(transaction, Table.SEGMENTS, capacity)
        state = target.move_in(now._replace(table=table), entries_of(added), entries_of(removed))
        return target.settle(state, TABLES, first_max, 2**30)

    with stores() as store:
        for _ in range(25):
            now = store.write(partial(step, table=int(generator.integers(TABLES))))
            found = store.read(partial(held, capacity=capacity))
            for table, plain in enumerate(there):
                first, last, removed = (found[table, level] for level in Level)
                assert not first & last
                assert not first & removed
                assert removed <= last
                assert (first | last) - removed == plain
            counts = [sum(len(found[table, level]) for table in range(TABLES)) for level in Level]
            assert counts[:2] == [now.first_entries, now.last_entries]
            assert now.first_entries <= first_max
        # A whole turn of the cursor carries out all that was removed, and leaves the first level empty.
        for _ in range(2 * len(there) + now.first_entries + 2):
            now = store.write(partial(_settled_once, now=now, capacity=capacity))
        found = store.read(partial(held, capacity=capacity))
    assert [found[table, Level.LAST] for table in range(TABLES)] == there
    assert not any(found[table, level] for table in range(TABLES) for level in (Level.FIRST, Level.REMOVED))


def _settled_once(transaction: Transaction, now: CompactionState, capacity: int) -> CompactionState:
    return Levels(transaction, Table.SEGMENTS, capacity)._slice(now, TABLES)


def test_a_turn_of_the_cursor_writes_hardly_any_segment_of_the_last_level_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the bounds of both levels lie to each other."""
    generator, capacity, written = np.random.default_rng(5), 100, []
    hashes = np.unique(generator.integers(0, 2**40, 6_000, dtype=np.uint64) << np.uint64(24))
    last, first = (np.stack([some, np.arange(len(some), dtype=np.uint64)]) for some in (hashes[::3], hashes[1::3]))

    def filled(transaction: Transaction) -> int:
        target = Levels(transaction, Table.SEGMENTS, capacity)
        target.merge_in(0, Level.LAST, last, levels.NO_ENTRIES, capacity)
        target.merge_in(0, Level.FIRST, first[:, ::2], levels.NO_ENTRIES, levels.first_capacity(capacity))
        return len(transaction.keys(Table.SEGMENTS, bytes([0, Level.LAST]), bytes([0, Level.REMOVED])))

    def put(target: Levels, key: HashKey, exists: bool, entries: Entries, capacity: int) -> None:
        written.append(key)
        plainly(target, key, exists, entries, capacity)

    def settle(transaction: Transaction) -> None:
        Levels(transaction, Table.SEGMENTS, capacity).settle(state, tables=1, first_max=0, entries_max=2**30)

    with stores() as store:
        segments = store.write(filled)
        plainly = Levels._put
        monkeypatch.setattr(Levels, "_put", put)
        state = unpack_compaction(None)._replace(first_entries=first[:, ::2].shape[1], last_entries=last.shape[1])
        store.write(settle)
    assert segments > 15
    assert len(written) <= segments + 2


@pytest.mark.parametrize("bound", [b"\0" * 16, HashKey(0, 0, 5 << 24, 7).packed()[2:], b"\xff" * 16, None])
def test_entries_are_divided_at_a_bound(bound: bytes | None) -> None:
    plain = {(hashed << 24, number) for hashed in (0, 4, 5, 6) for number in (0, 6, 7, 8)}
    limit = (2**64, 0) if bound is None else tuple(np.frombuffer(bound, ">u8").tolist())
    before, behind = levels.divided(entries_of(plain), bound)
    assert [tuple(entry) for entry in before.T.tolist()] == sorted(one for one in plain if one < limit)
    assert [tuple(entry) for entry in behind.T.tolist()] == sorted(one for one in plain if one >= limit)


def test_what_is_written_a_document_grows_with_the_root_of_the_index() -> None:
    """Rewritten a document: the first level for each memtable, and the last for each turn through the first."""

    def rewritten(documents: int, memtable: int) -> float:
        first = levels.first_entries_max(1, memtable, documents)
        return first / memtable + documents / (2 * first)

    assert rewritten(10**8, 650_000) / rewritten(10**7, 312_500) < 2.3
    assert rewritten(10**8, 650_000) < 18
    assert levels.first_entries_max(17, 100, 0) == 17 * levels.FIRST_MEMTABLES * 100
