"""Look-up of hashes in segments of both levels, against plain comparison; and what a look-up reads of them."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.errors import IndexDamagedError
from index.lsm import memtable
from index.lsm.levels import Levels
from index.lsm.segments import Segments
from index.lsm.shape import shape_of
from index.matching.minhash import Banding
from index.storage.file.tree_place import value_places
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import Level, unpack_compaction
from index.storage.segments.hash_codec import HashKey, pack_hash_segment
from index.storage.store import Transaction
from tests.support.examples import examples
from tests.support.stores import stores

BANDING = Banding(64, 8, 3, 4)
SHAPE = shape_of(Parameters(512, banding=BANDING))
NOTHING = np.empty((2, 0), np.uint64)


def entered(transaction: Transaction, known: np.ndarray, begin: int, end: int, capacity: int) -> None:
    """Write entries of known hashes uint64 [n, 3] into the segments; every third number into the last level."""
    for band in range(SHAPE.tables):
        for level in (Level.FIRST, Level.LAST):
            numbers = [n for n in range(begin, end) if (n % 3 == 0) == (level is Level.LAST)]
            plain = sorted((int(known[number, band]), number) for number in numbers)
            added = np.array(plain, np.uint64).reshape(-1, 2).T.copy()
            Levels(transaction, Table.SEGMENTS, capacity).merge_in(band, level, added, NOTHING, capacity)


def opened() -> Segments:
    return Segments(SHAPE.table, SHAPE.tables)


def found_in(transaction: Transaction, segments: Segments, asked: np.ndarray, version: int) -> list[tuple[int, int]]:
    segments.follow(transaction, unpack_compaction(None)._replace(version=version))
    found: list[tuple[int, int]] = []
    for rows, numbers in segments.candidates(transaction, asked, SHAPE.probes(0)):
        portion = list(zip(rows.tolist(), numbers.tolist(), strict=True))
        assert len(portion) <= memtable.HITS_MAX
        assert portion == sorted(set(portion))
        found += portion
    return found


@pytest.mark.parametrize("hits_max", [3, 2**20])
@examples(15)
@given(st.integers(0, 2**32), st.integers(1, 50), st.sampled_from([3, 40]))
def test_every_entry_with_a_hash_in_common_is_found_while_segments_come_and_go(
    hits_max: int, seed: int, capacity: int, hash_bits: int
) -> None:
    generator = np.random.default_rng(seed)
    known = generator.integers(0, 2**hash_bits, (240, 3), dtype=np.uint64) << np.uint64(24)
    segments = opened()
    with stores() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(memtable, "HITS_MAX", hits_max)
        for version, begin in enumerate(range(0, 240, 30)):
            store.write(partial(entered, known=known, begin=begin, end=begin + 30, capacity=capacity))
            asked = np.concatenate([known[generator.integers(0, 240, 20)], generator.permutation(known)[:5][:, ::-1]])
            look = partial(found_in, segments=segments, asked=asked, version=version)
            expected = {(row, number) for row, number in np.argwhere((asked[:, None] == known[None]).any(axis=2))}
            for within in (store.read, store.write):
                found = within(look)
                assert set(found) == {(row, number) for row, number in expected if number < begin + 30}
                assert len(segments) == store.read(lambda transaction: transaction.count(Table.SEGMENTS))


def test_a_segment_that_was_changed_or_shifted_is_damage_and_no_answer(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    known = np.sort(generator.integers(0, 2**40, (900, 3), dtype=np.uint64) << np.uint64(24), axis=0)
    with stores() as store:
        store.write(partial(entered, known=known, begin=0, end=900, capacity=100))

        def shifted(transaction: Transaction) -> None:
            # The second segment of a level, under a higher bound: its first entries would be looked for in the one before.
            keys = [key for key in transaction.keys(Table.SEGMENTS) if key[:2] == bytes([0, Level.FIRST])]
            value = transaction.get(Table.SEGMENTS, keys[1])
            assert value is not None
            transaction.delete(Table.SEGMENTS, keys[1])
            transaction.put(Table.SEGMENTS, keys[1][:-1] + b"\xff", value)

        look = partial(found_in, asked=known[100:102], version=0)
        assert store.read(lambda transaction: look(transaction, segments=opened()))
        store.write(shifted)
        with pytest.raises(IndexDamagedError, match="is not what was written"):
            store.read(lambda transaction: look(transaction, segments=opened()))


def test_what_was_checked_is_not_checked_again_while_other_segments_change() -> None:
    known = np.random.default_rng(3).integers(0, 2**40, (600, 3), dtype=np.uint64) << np.uint64(24)
    segments, checks = opened(), []
    with stores() as store:
        store.write(partial(entered, known=known, begin=0, end=500, capacity=20))
        for version, number in enumerate(range(500, 505)):
            # The look-up of everything, with the checks that were known before it.
            store.read(partial(found_in, segments=segments, asked=known, version=version))
            before = set(segments._known.tolist())
            assert 0 not in before
            store.write(partial(entered, known=known, begin=number, end=number + 1, capacity=20))
            with store._environment.begin(buffers=True) as reading:
                own = Transaction(store._environment, reading, store._tables, store._checksums)
                segments.follow(own, unpack_compaction(None)._replace(version=version + 1))
                segments.take_over(own)
            checks.append(np.count_nonzero(segments._known == 0))
            assert set(segments._known.tolist()) - {0} <= before
    # An entry is in one segment of each table.
    assert all(0 < count <= 3 * 2 for count in checks)
    assert len(segments) > 60


def test_a_value_that_is_no_segment_is_damage() -> None:
    with stores() as store:
        store.write(partial(Transaction.put, table=Table.SEGMENTS, key=b"\0" * 18, value=b"small"))
        with pytest.raises(IndexDamagedError, match="a value that is not a segment"):
            store.read(lambda transaction: found_in(transaction, opened(), np.ones((1, 3), np.uint64), 0))


def resident_pages(address: int, size: int) -> int:
    """Pages of memory from an address on that this process has mapped."""
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        first = address // 4096
        pagemap.seek(first * 8)
        entries = np.frombuffer(pagemap.read(((address + size) // 4096 - first + 1) * 8), np.uint64)
    return int(np.count_nonzero(entries >> np.uint64(63)))


def test_a_look_up_of_what_is_not_there_touches_no_numbers() -> None:
    """Of a large segment it reads what it searches alone."""
    generator = np.random.default_rng(2)
    hashes = np.sort(generator.integers(0, 2**40, 100_000, dtype=np.uint64)) << np.uint64(24)
    entries = np.stack([hashes, generator.permutation(100_000).astype(np.uint64) + np.uint64(2**33)])
    key = HashKey(0, Level.LAST)
    value = pack_hash_segment(key, entries)
    with stores() as store:
        store.write(partial(Transaction.put, table=Table.SEGMENTS, key=key.packed(), value=value))

        def looked(transaction: Transaction) -> tuple[int, int]:
            tree = transaction.tree_of(Table.SEGMENTS)
            places = value_places(tree, len(key.packed()))
            assert places is not None
            [address], [size] = places.addresses(tree).tolist(), places.sizes.tolist()
            before = resident_pages(address, size)
            assert found_in(transaction, opened(), np.full((50, 3), 1 << 24, np.uint64), 0) == []
            return before, resident_pages(address, size)

        before, after = store.read(looked)
    # The system maps a run of pages where one is read.
    assert before <= 32 < after < 0.75 * len(value) / 4096
