import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import lmdb
import psutil
import pytest
from lmdb import verify as lmdb_verify

from index.entry import Verdict
from index.errors import (
    AlreadyOpenError,
    FormatUnknownError,
    IndexExistsError,
    IndexFullError,
    IndexInUseError,
    IndexMissingError,
)
from index.index import Index
from index.storage.data_file import DATA_FILE
from index.storage.file import fresh
from index.tools import FORMER_FILE, copy, readers, replace
from index.tools.backup import structure_problems
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import Row, ends_of, entries_of
from tests.support.index_process import BATCH_ROWS, MAP_BYTES_MAX, PARAMETERS, rows_of, source_of
from tests.support.indexes import everything, filled, looked_at, make_older, mixed_rows, opened, wrong
from tests.support.paths import ROOT
from tests.support.tiers import first_of

WAIT_SECONDS = 60


def process(module: str, *arguments: object, errors: int | None = None) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", f"tests.support.{module}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)


def contents_of(directory: Path) -> tuple[object, ...]:
    with looked_at(directory) as index:
        return everything(index)


@pytest.mark.parametrize("compact", first_of(False, True))
def test_a_copy_made_while_another_process_admits_is_a_whole_number_of_batches(tmp_path: Path, compact: bool) -> None:
    running = tmp_path / "running"
    Index.open(running, PARAMETERS, map_bytes_max=MAP_BYTES_MAX).close()
    rows = rows_of(0)
    copied: list[int] = []
    with process("index_process", running, 0, 1_000) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        writer.stdin.write("\n")
        writer.stdin.flush()
        with looked_at(running) as index:
            for number in range(4):
                acknowledged = int(writer.stdout.readline())
                size = copy(index, tmp_path / str(number), compact=compact)
                assert size == (tmp_path / str(number) / DATA_FILE).stat().st_size
                copied.append(acknowledged)
    for number, acknowledged in enumerate(copied):
        directory = tmp_path / str(number)
        assert structure_problems(directory) == []
        assert wrong(directory) == {}
        with Index.open(directory, PARAMETERS, map_bytes_max=MAP_BYTES_MAX) as index:
            applied = index.applied()[source_of(0)].offset
            assert applied >= acknowledged
            assert applied % BATCH_ROWS == 0
            oracle = BruteForceIndex(PARAMETERS.distance_max)
            assert answers_of(index.admit(entries_of(rows), {})) == oracle.admit(entries_of(rows), {})
    assert wrong(running) == {}


def test_a_copy_overwrites_nothing_and_writes_over_what_a_killed_copy_left(tmp_path: Path) -> None:
    filled(tmp_path / "index", mixed_rows(1, 100))
    foreign = [tmp_path / name for name in ("copy.unfinished", ".copy.unfinished", f".copy.{'0' * 16}.unfinished")]
    for folder in foreign:
        folder.mkdir()
        (folder / "diary").write_bytes(b"mine")
    killed = tmp_path / f".copy.{'1' * 16}.unfinished"
    (killed / "copy").mkdir(parents=True)
    (killed / "copy" / DATA_FILE).write_bytes(b"half")
    with looked_at(tmp_path / "index") as index:
        copy(index, tmp_path / "copy", compact=True)
        with pytest.raises(IndexExistsError, match="is not empty"):
            copy(index, tmp_path / "copy", compact=True)
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(IndexExistsError):
            copy(index, tmp_path / "file", compact=True)
        (tmp_path / "empty").mkdir()
        copy(index, tmp_path / "empty", compact=False)
        expected = everything(index)
    assert contents_of(tmp_path / "copy") == contents_of(tmp_path / "empty") == expected
    assert not killed.exists()
    assert [(folder / "diary").read_bytes() for folder in foreign] == [b"mine"] * 3
    assert {path.name for path in tmp_path.iterdir()} == {
        "index",
        "copy",
        "file",
        "empty",
        *(one.name for one in foreign),
    }


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_new_index_is_its_users_alone_and_copies_and_replacements_keep_the_mode(tmp_path: Path, mode: int) -> None:
    def mode_of(name: str) -> int:
        return stat.S_IMODE((tmp_path / name / DATA_FILE).stat().st_mode)

    for name in ("index", "other"):
        filled(tmp_path / name, mixed_rows(2, 50))
        assert mode_of(name) == 0o600
    (tmp_path / "index" / DATA_FILE).chmod(mode)
    (tmp_path / "other" / DATA_FILE).chmod(0o644)
    with looked_at(tmp_path / "index") as index:
        copy(index, tmp_path / "copy", compact=False)
        copy(index, tmp_path / "compact", compact=True)
    replace(tmp_path / "index", tmp_path / "index", keep_former=False)
    assert [mode_of(name) for name in ("copy", "compact", "index")] == [mode] * 3
    replace(tmp_path / "index", tmp_path / "other", keep_former=True)
    assert mode_of("index") == mode


def test_a_planted_link_is_not_followed_by_a_replacement(tmp_path: Path) -> None:
    filled(tmp_path / "index", mixed_rows(2, 50))
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    for name in ("data.mdb.unfinished", f"data.mdb.{'0' * 16}.unfinished"):
        (tmp_path / "index" / name).symlink_to(victim)
    replace(tmp_path / "index", tmp_path / "index", keep_former=False)
    assert victim.read_bytes() == b"mine"


@pytest.mark.parametrize("place", ["copyfd", "fsync"])
def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    filled(tmp_path, mixed_rows(2, 50))
    before = (tmp_path / DATA_FILE).read_bytes()
    if place == "copyfd":
        # As `lmdb` reports what `write` reports.
        def created(path: Path, _mode: int) -> tuple[Path, int]:
            return path.with_name("full"), os.open("/dev/full", os.O_RDWR)

        monkeypatch.setattr(fresh, "_created", created)
    else:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(full))
    with pytest.raises(IndexFullError):
        replace(tmp_path, tmp_path, keep_former=False)
    assert (tmp_path / DATA_FILE).read_bytes() == before


def test_compacting_in_place_gives_free_pages_back_and_keeps_all(tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(2, 400), batch_rows=5)
    expected = contents_of(tmp_path)
    before, after = replace(tmp_path, tmp_path, keep_former=False)
    assert after < before
    assert after == (tmp_path / DATA_FILE).stat().st_size
    assert contents_of(tmp_path) == expected
    assert structure_problems(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [DATA_FILE, "lock.mdb"]


def test_an_index_is_replaced_by_another_and_the_former_kept(tmp_path: Path) -> None:
    filled(tmp_path / "old", mixed_rows(3, 50))
    filled(tmp_path / "new", mixed_rows(4, 60))
    old, new = contents_of(tmp_path / "old"), contents_of(tmp_path / "new")
    replace(tmp_path / "old", tmp_path / "new", keep_former=True)
    assert contents_of(tmp_path / "old") == contents_of(tmp_path / "new") == new
    (tmp_path / "back").mkdir()
    (tmp_path / "old" / FORMER_FILE).rename(tmp_path / "back" / DATA_FILE)
    assert contents_of(tmp_path / "back") == old


def test_an_index_that_somebody_has_open_is_not_replaced(tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(5, 50), PARAMETERS)
    before = (tmp_path / DATA_FILE).read_bytes()
    with process("index_process", tmp_path, 9, 0) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        with pytest.raises(IndexInUseError, match="open in another process"):
            replace(tmp_path, tmp_path, keep_former=False)
        assert (tmp_path / DATA_FILE).read_bytes() == before
        reader.communicate("\n")
    with opened(tmp_path), pytest.raises(AlreadyOpenError):
        replace(tmp_path, tmp_path, keep_former=False)
    with pytest.raises(IndexMissingError):
        replace(tmp_path / "none", tmp_path, keep_former=False)
    with pytest.raises(IndexMissingError):
        replace(tmp_path, tmp_path / "none", keep_former=False)
    replace(tmp_path, tmp_path, keep_former=False)


def test_an_index_of_an_older_format_is_neither_compacted_nor_put_in_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for directory in (old, new):
        filled(directory, mixed_rows(5, 50))
    make_older(old)
    before = [(each / DATA_FILE).read_bytes() for each in (old, new)]
    for directory in (old, new):
        with pytest.raises(FormatUnknownError, match="format version 1"):
            replace(directory, old, keep_former=False)
    assert [(each / DATA_FILE).read_bytes() for each in (old, new)] == before
    replace(old, new, keep_former=True)
    assert contents_of(old) == contents_of(new)


@pytest.mark.parametrize("place", ["copyfd", "fsync", "ftruncate", "replace", "open"])
def test_a_replacement_killed_at_any_point_leaves_one_of_both_and_can_be_made_again(tmp_path: Path, place: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    filled(old, mixed_rows(6, 100), PARAMETERS, batch_rows=10)
    filled(new, mixed_rows(7, 100), PARAMETERS)
    expected = contents_of(new if place == "open" else old)
    with process("index_switcher", old, new, place) as switcher:
        switcher.communicate("\n", timeout=WAIT_SECONDS)
    assert switcher.returncode == -signal.SIGKILL
    assert contents_of(old) == expected
    assert structure_problems(old) == []
    assert wrong(old) == {}
    replace(old, new, keep_former=True)
    assert contents_of(old) == contents_of(new)


@pytest.mark.parametrize("place", first_of("open", "never"))
def test_a_process_that_waits_for_a_replaced_index_never_believes_the_former_lock_file(
    tmp_path: Path, place: str
) -> None:
    """It opens the new file and goes on, or, where the replacing process died, fails without a change and tries again."""
    old, new = tmp_path / "old", tmp_path / "new"
    # Many more transactions than the new file will have: the lock file remembers their number.
    filled(old, mixed_rows(8, 200), PARAMETERS, batch_rows=2)
    filled(new, mixed_rows(9, 20), PARAMETERS)
    slow = (
        "import sys, time; from index.tools import backup; from tests.support import index_switcher\n"
        "real = backup._copy_compacted\n"
        "def slowly(*arguments, **options):\n"
        "    print('held', flush=True); sys.stdin.readline(); time.sleep(1.5); real(*arguments, **options)\n"
        "backup._copy_compacted = slowly\n"
        "index_switcher.main(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", slow, str(old), str(new), place]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as switcher:
        assert switcher.stdin is not None
        assert switcher.stdout is not None
        assert switcher.stdout.readline() == "ready\n"
        switcher.stdin.write("\n")
        switcher.stdin.flush()
        assert switcher.stdout.readline() == "held\n"
        with process("index_process", old, 1, 3, errors=subprocess.PIPE) as waiter:
            # A busy machine may take its time to start a process: it is at the door once it has a file of the index open.
            while not any(Path(file.path).parent == old for file in psutil.Process(waiter.pid).open_files()):
                assert waiter.poll() is None
                time.sleep(0.01)
            begin = time.monotonic()
            switcher.stdin.write("\n")
            switcher.stdin.flush()
            output, complaint = waiter.communicate("\n", timeout=WAIT_SECONDS)
        assert time.monotonic() - begin > 0.5
    assert waiter.returncode == (0 if place == "never" else 1), complaint
    if waiter.returncode:
        assert "IndexInUseError" in complaint
        with process("index_process", old, 1, 3) as waiter:
            output, _ = waiter.communicate("\n", timeout=WAIT_SECONDS)
    assert output.split() == ["open", *(str(BATCH_ROWS * (batch + 1)) for batch in range(3))]
    assert structure_problems(old) == []
    assert wrong(old) == {}
    rows = mixed_rows(9, 20)
    with Index.open(old, PARAMETERS, map_bytes_max=MAP_BYTES_MAX) as index:
        assert index.admit(entries_of(rows), {}).replayed.all()
        assert index.applied()[source_of(1)].offset == 3 * BATCH_ROWS


READS_UNTIL_STDIN_ENDS = """
import sys, lmdb
with lmdb.open(sys.argv[1], readonly=True) as environment, environment.begin():
    print(flush=True)
    sys.stdin.read()
"""


def test_who_reads_an_index_is_told(tmp_path: Path) -> None:
    filled(tmp_path, mixed_rows(10, 50))
    command = [sys.executable, "-c", READS_UNTIL_STDIN_ENDS, str(tmp_path)]
    with opened(tmp_path) as index, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        assert [process for process, transaction in readers(index) if transaction is not None] == [reader.pid]
        row = Row(0, 1, source_of(3))
        assert index.admit(entries_of([row]), ends_of([row])).verdicts.tolist() == [Verdict.UNIQUE]
        reader.communicate()


def test_a_large_value_made_shorter_in_its_transaction_is_sound(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"key", bytes(20_000))
        transaction.put(b"key", bytes(4_080))
    assert lmdb_verify.verify(str(tmp_path / DATA_FILE), subdir=False) != []
    assert structure_problems(tmp_path) == []


SPARE = "main/chunks DB: overflow page 9 header mp_pages 3 != OVPAGES(4080)=1"


@pytest.mark.parametrize(
    "problem",
    [
        "main/chunks DB: overflow page 9 header mp_pages 1 != OVPAGES(9000)=3",
        "main/chunks DB: walked 4 overflow pages, record says 7",
        "main/log DB: walked 4 overflow pages, record says 6",
        "3 page(s) are neither reachable nor in the freeDB -- a leak (first: page 10)",
        "2 page(s) are both reachable and in the freeDB (first: page 10)",
    ],
)
def test_what_pages_to_spare_do_not_account_for_stays_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    monkeypatch.setattr(lmdb_verify, "verify", lambda *_, **__: [SPARE, problem])
    assert problem in structure_problems(tmp_path)
