import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.errors import IndexDamagedError, IndexFullError, IndexMissingError
from index.index import Index
from index.storage.data_file import DATA_FILE
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.stores import stores


def opened(directory: Path, **options: Any) -> Index:
    return Index.open(directory, Parameters(), **{"map_bytes_max": 2**30, "map_bytes_initial": 2**20, **options})


def rows_of(count: int) -> list[Row]:
    fingerprints = clustered_fingerprints(np.random.default_rng(3), count, 64, centres=count // 2)
    return [Row(offset, fingerprint, id=f"{offset} ".ljust(1_000)) for offset, fingerprint in enumerate(fingerprints)]


def test_a_map_that_fills_up_in_a_batch_grows_and_loses_nothing(tmp_path: Path) -> None:
    rows = rows_of(3_000)
    oracle = BruteForceIndex(3)
    with opened(tmp_path) as index:
        assert index.statistics().map_bytes == 2**20
        assert answers_of(index.admit(entries_of(rows), ends_of(rows))) == oracle.admit(entries_of(rows), {})
        statistics = index.statistics()
        assert statistics.map_bytes >= 2**22
        assert (statistics.entries, statistics.journal_rows) == (len(oracle.known), 3_000)
        assert [d.number for d in index.documents(range(len(oracle.known))) if d] == list(range(len(oracle.known)))
    with opened(tmp_path) as index:
        assert index.admit(entries_of(rows), {}).replayed.all()


def test_an_index_at_its_limit_keeps_all_it_had_and_goes_on_when_the_limit_is_raised(tmp_path: Path) -> None:
    rows = rows_of(3_000)
    with opened(tmp_path, map_bytes_max=2**20) as index:
        first = index.admit(entries_of(rows[:100]), ends_of(rows[:100]))
        before = index.statistics(), index.applied()
        for _ in range(2):
            with pytest.raises(IndexFullError, match=r"index\.map_bytes_max = 1048576"):
                index.admit(entries_of(rows), ends_of(rows))
            assert (index.statistics(), index.applied()) == before
        again = index.admit(entries_of(rows[:100]), {})
        assert again.replayed.all()
        assert answers_of(again) == answers_of(first)
    with opened(tmp_path, map_bytes_max=2**24) as index:
        decisions = index.admit(entries_of(rows), ends_of(rows))
        assert answers_of(decisions) == BruteForceIndex(3).admit(entries_of(rows), {})
        assert decisions.replayed.tolist() == [True] * 100 + [False] * 2_900


@pytest.fixture
def file_bytes_max() -> Iterator[int]:
    """No file may grow beyond this in this process: what a full disk looks like, without filling one."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    yield 2**20
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_in_a_batch_keeps_all_there_was(tmp_path: Path, file_bytes_max: int) -> None:
    rows = rows_of(3_000)
    with opened(tmp_path, map_bytes_initial=2**26) as index:
        index.admit(entries_of(rows[:100]), ends_of(rows[:100]))
        before = index.statistics(), index.applied()
        with pytest.raises(IndexFullError, match="disk that holds the index"):
            index.admit(entries_of(rows), ends_of(rows))
        assert (index.statistics(), index.applied()) == before
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )
        assert answers_of(index.admit(entries_of(rows), {})) == BruteForceIndex(3).admit(entries_of(rows), {})


@pytest.mark.parametrize("deed", ["removed", "moved", "replaced"])
def test_an_index_that_is_no_longer_where_it_was_takes_no_batch_in_silence(tmp_path: Path, deed: str) -> None:
    rows = rows_of(4)
    with opened(tmp_path / "index") as index:
        index.admit(entries_of(rows[:2]), ends_of(rows[:2]))
        (tmp_path / "index").rename(tmp_path / "elsewhere")
        if deed == "removed":
            shutil.rmtree(tmp_path / "elsewhere")
        elif deed == "replaced":
            shutil.copytree(tmp_path / "elsewhere", tmp_path / "index")
        with pytest.raises(
            IndexMissingError, match=r"removed or replaced while it was in use\. Put it back, or start again"
        ):
            index.admit(entries_of(rows[2:]), ends_of(rows))
        with pytest.raises(IndexMissingError, match="removed or replaced"):
            index.statistics()


def test_an_index_is_found_in_place_from_wherever_its_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(2)
    monkeypatch.chdir(tmp_path)
    with opened(Path("index")) as index:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        assert not index.admit(entries_of(rows), ends_of(rows)).replayed.any()


def test_threads_that_share_an_index_take_turns_even_while_the_map_grows(tmp_path: Path) -> None:
    rows = rows_of(3_000)
    seen: list[int] = []
    done = threading.Event()

    def watch(index: Index) -> None:
        while not done.is_set():
            seen.append(index.statistics().journal_rows)

    with opened(tmp_path) as index, ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch, index)
        try:
            for start in range(0, 3_000, 100):
                index.admit(entries_of(rows[start : start + 100]), {})
        finally:
            done.set()
        watching.result(timeout=60)
        assert index.statistics().map_bytes > 2**20
    assert set(seen) <= set(range(0, 3_001, 100))
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def test_a_failed_opening_leaves_the_directory_free_for_the_next(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(ValueError, match="map_bytes_initial"):
        opened(tmp_path, map_bytes_max=100)
    opened(tmp_path).close()


def test_a_table_of_many_values_gives_the_lowest_of_a_key_first(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**20, map_bytes_max=2**20, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda t: t.add(Table.EXACT, [b"aaa", b"ccc", b"aaa"], [b"22345678", b"32345678", b"12345678"]))
    assert store.read(lambda t: t.first_values(Table.EXACT, b"aaa", 9)) == [b"12345678", b"22345678"]
    assert store.read(lambda t: t.first_values(Table.EXACT, b"aaa", 1)) == [b"12345678"]
    assert store.read(lambda t: t.first_values(Table.EXACT, b"bbb", 9)) == []
    asked = [b"ccc", b"bbb", b"aaa"]
    assert store.read(lambda t: t.get_many(Table.EXACT, asked)) == [(b"ccc", b"32345678"), (b"aaa", b"12345678")]
    assert store.read(lambda t: t.count(Table.EXACT)) == 3
    store.close()


def test_what_is_kept_of_views_is_lost_by_whatever_writes(tmp_path: Path) -> None:
    def operation(transaction: Transaction) -> None:
        key, value = b"key".ljust(8), bytes(8)
        for write in (
            lambda: transaction.put(Table.META, key, value),
            lambda: transaction.put_all(Table.META, [key], [value]),
            lambda: transaction.add(Table.EXACT, [key], [value]),
            lambda: transaction.delete(Table.META, key),
        ):
            transaction.kept["some"] = 1
            assert transaction.get(Table.META, b"missing") is None
            assert transaction.kept
            write()
            assert not transaction.kept

    with opened(tmp_path) as index:
        index._opened.store.write(operation)


SIZES = st.dictionaries(st.integers(0, 9), st.sampled_from([0, 5, 900, 3_000, 9_000]), max_size=6)


@examples(30)
@given(st.lists(SIZES, max_size=3))
def test_values_set_together_are_those_that_were_set_last(writes: list[dict[int, int]]) -> None:
    last = {bytes([key]): bytes([turn]) * size for turn, each in enumerate(writes) for key, size in each.items()}
    with stores() as store:

        def put(transaction: Transaction) -> None:
            for turn, each in enumerate(writes):
                keys, values = [bytes([key]) for key in each], [bytes([turn]) * size for size in each.values()]
                transaction.put_all(Table.FRAMES, keys, values)

        store.write(put)
        read = store.read(lambda transaction: dict(transaction.get_many(Table.FRAMES, sorted(last))))
        assert read == last


def test_walking_begins_at_a_key_or_behind_it(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**20, map_bytes_max=2**20, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda t: [t.put(Table.LOG, key, key * 2) for key in (b"b", b"d", b"f")])
    for begin, expected in ((b"", b"bdf"), (b"c", b"df"), (b"d", b"df"), (b"g", b"")):
        walked = store.read(lambda t, b=begin: [(key, bytes(value)) for key, value in t.walk(Table.LOG, b)])  # type: ignore[misc]
        assert walked == [(bytes([key]), bytes([key] * 2)) for key in expected]
    assert store.read(lambda t: t.keys(Table.LOG)) == [b"b", b"d", b"f"]
    assert store.read(lambda t: t.last_keys(Table.LOG, 2)) == [b"d", b"f"]
    assert store.read(lambda t: t.last_keys(Table.LOG, 9)) == [b"b", b"d", b"f"]
    assert store.read(lambda t: t.last_keys(Table.RETIRED, 9)) == []
    store.close()


@pytest.mark.parametrize("keys", [[b"b"], [b"a"], [b"c"], [b"a", b"b", b"c"]])
@pytest.mark.parametrize("value", [b"12345679", b"22345678"])
def test_damage_is_met_by_whoever_reads_many_values_or_finds_keys_missing_beside_it(
    keys: list[bytes], value: bytes, tmp_path: Path
) -> None:
    store = Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda t: t.add(Table.EXACT, [b"b", b"z"], [b"12345678", b"12345678"]))
    assert len(store.read(lambda t: t.get_many(Table.EXACT, keys))) == (b"b" in keys)
    sealed = store.read(lambda t: dict(t.raw(Table.EXACT))[b"b"].tobytes())
    store.write(lambda t: t.delete(Table.EXACT, b"b"))
    put_raw(store, Table.EXACT, b"b", value + sealed[8:])
    with pytest.raises(IndexDamagedError, match="value of 62 in table exact is not what was written"):
        store.read(lambda t: t.get_many(Table.EXACT, keys))
    store.close()


def copied(pair: tuple[bytes, memoryview] | None) -> tuple[bytes, bytes] | None:
    return None if pair is None else (pair[0], bytes(pair[1]))


def test_floor_and_key_above_enclose_a_key(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**20, map_bytes_max=2**20, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    assert store.read(lambda t: (t.floor(Table.JOURNAL, b"m"), t.key_above(Table.JOURNAL, b"m"))) == (None, None)
    store.write(lambda t: [t.put(Table.JOURNAL, b"b", b"2"), t.put(Table.JOURNAL, b"d", b"4")])
    enclosed = {
        key: store.read(lambda t, k=key: (copied(t.floor(Table.JOURNAL, k)), t.key_above(Table.JOURNAL, k)))
        for key in (b"a", b"b", b"c", b"d", b"e")
    }  # type: ignore[misc]
    assert enclosed == {
        b"a": (None, b"b"),
        b"b": ((b"b", b"2"), b"d"),
        b"c": ((b"b", b"2"), b"d"),
        b"d": ((b"d", b"4"), None),
        b"e": ((b"d", b"4"), None),
    }
    store.close()


def put_raw(store: Store, table: Table, key: bytes, value: bytes) -> None:
    """A value without a seal of its own, as damage leaves it."""
    store.write(lambda transaction: transaction._transaction.put(key, value, db=transaction._tables[table]))


@pytest.mark.parametrize(
    "read",
    [
        lambda transaction, key: transaction.get(Table.AGES, key),
        lambda transaction, key: transaction.get_many(Table.AGES, [key]),
        lambda transaction, key: transaction.floor(Table.AGES, key + b"z"),
        lambda transaction, key: transaction.key_above(Table.AGES, b"\1"),
        lambda transaction, _: list(transaction.walk(Table.AGES)),
        lambda transaction, _: transaction.get(Table.AGES, b"missing, before it"),
        lambda transaction, _: transaction.get_many(Table.AGES, [b"o, missing, behind it"]),
    ],
)
@pytest.mark.parametrize("value", [b"", b"short", b"value" + bytes(8)])
def test_a_value_that_was_not_written_so_is_damage_however_it_is_met(
    read: Callable[[Transaction, bytes], object], value: bytes, tmp_path: Path
) -> None:
    store = Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda transaction: transaction.put(Table.AGES, b"n", b"value"))
    store.read(lambda transaction: read(transaction, b"n"))
    put_raw(store, Table.AGES, b"n", value)
    with pytest.raises(IndexDamagedError, match="the value of 6e in table ages is not what was written"):
        store.read(lambda transaction: read(transaction, b"n"))
    store.close()


def test_a_large_value_is_checked_once_and_again_where_that_is_asked(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda transaction: transaction.put(Table.SEGMENTS, b"key", bytes(9_000)))
    sealed = store.read(lambda transaction: dict(transaction.raw(Table.SEGMENTS))[b"key"].tobytes())
    put_raw(store, Table.SEGMENTS, b"key", b"\1" + sealed[1:])
    assert store.read(lambda transaction: transaction.get(Table.SEGMENTS, b"key")) == b"\1" + bytes(8_999)
    with pytest.raises(IndexDamagedError):
        store.read(lambda transaction: transaction.view(Table.SEGMENTS, b"key", recheck=True))
    store.check_again()
    with pytest.raises(IndexDamagedError):
        store.read(lambda transaction: transaction.existing(Table.SEGMENTS, b"key"))
    store.close()


def test_a_file_that_is_cut_while_it_is_open_is_damage_at_the_next_transaction(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda transaction: transaction.put(Table.LOG, b"key", bytes(90_000)))
    store.read(lambda transaction: transaction.count(Table.LOG))
    os.truncate(tmp_path / DATA_FILE, 8_192)
    for begin in (store.read, store.write):
        with pytest.raises(IndexDamagedError, match="while it was open"):
            begin(lambda transaction: transaction.count(Table.LOG))


def test_pages_of_trees_are_looked_at_before_lmdb_walks_through_them(tmp_path: Path) -> None:
    store = Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=False, hooks=CommitHooks())
    store.prepare(Table)
    store.write(lambda transaction: [transaction.put(table, b"key", b"value") for table in Table])
    store.close()
    sound, refused = (tmp_path / DATA_FILE).read_bytes(), 0
    for page in range(2, len(sound) // 4_096):
        damaged = bytearray(sound)
        # The place of the first node.
        damaged[page * 4_096 + 16 : page * 4_096 + 18] = b"\xff\xff"
        (tmp_path / DATA_FILE).write_bytes(damaged)
        try:
            Store(tmp_path, map_bytes_initial=2**22, map_bytes_max=2**22, read_only=True, hooks=CommitHooks()).close()
        except IndexDamagedError:
            refused += 1
    # Every table, and the tree of all tables.
    assert refused >= len(Table) + 1
