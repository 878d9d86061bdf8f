"""A data file that is cut, emptied or full of nonsense is called damaged before LMDB maps it; no process dies of one."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from index.errors import IndexDamagedError, IndexFullError
from index.index import Index
from index.storage import data_file
from index.storage.data_file import DATA_FILE, require_whole
from index.storage.parameters import Parameters
from index.tools import backup
from tests.support.examples import examples
from tests.support.indexes import filled, looked_at, mixed_rows, opened
from tests.support.paths import ROOT
from tests.support.tiers import first_of

PROBE = """
import sys
from pathlib import Path
from index.errors import FormatUnknownError, IndexDamagedError
from tests.support.indexes import everything, looked_at, opened
for line in sys.stdin:
    path = Path(line.strip())
    for opening in (looked_at, opened):
        try:
            with opening(path) as index:
                everything(index)
        except (FormatUnknownError, IndexDamagedError):
            pass
    print("alive", flush=True)
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("sound")
    filled(directory, mixed_rows(3, 300))
    return (directory / DATA_FILE).read_bytes()


@pytest.fixture
def probe() -> "subprocess.Popen[str]":
    """A process that opens one folder after the other and reads all: a signal kills it and not the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    yield process  # type: ignore[misc]
    process.kill()
    process.communicate()


def survives(process: "subprocess.Popen[str]", directory: Path) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{directory}\n")
    process.stdin.flush()
    return process.stdout.readline() == "alive\n"


calm = examples(60, HealthCheck.function_scoped_fixture)


@calm
@given(data=st.data())
def test_a_file_cut_anywhere_kills_nobody(
    data: st.DataObject, sound: bytes, tmp_path: Path, probe: "subprocess.Popen[str]"
) -> None:
    (tmp_path / DATA_FILE).write_bytes(sound[: data.draw(st.integers(0, len(sound) - 1))])
    assert survives(probe, tmp_path)


@pytest.mark.parametrize("length", [0, 1, 100, 4096, 5000, 8192, 12288, 65_536])
def test_a_file_that_lacks_used_pages_is_damaged(sound: bytes, tmp_path: Path, length: int) -> None:
    (tmp_path / DATA_FILE).write_bytes(sound[:length])
    for opening in (looked_at, opened):
        with pytest.raises(IndexDamagedError, match=r"empty|has [0-9]+ bytes.*index restore"):
            opening(tmp_path)
    assert (tmp_path / DATA_FILE).stat().st_size == length


@pytest.mark.rest
@calm
@given(data=st.data())
def test_bytes_changed_in_the_first_two_pages_kill_nobody(
    data: st.DataObject, sound: bytes, tmp_path: Path, probe: "subprocess.Popen[str]"
) -> None:
    # All that LMDB reads of a page stands in its first bytes.
    places = st.integers(0, 159) | st.integers(4096, 4096 + 159) | st.integers(0, 8191)
    changed = bytearray(sound)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        changed[place] = value
    (tmp_path / DATA_FILE).write_bytes(changed)
    assert survives(probe, tmp_path)


def test_the_message_names_file_and_sizes(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(sound[: len(sound) // 2])
    with pytest.raises(
        IndexDamagedError, match=rf"{tmp_path}/data.mdb .* {len(sound) // 2} bytes, .* ends at {len(sound)}"
    ):
        opened(tmp_path)


def test_a_whole_file_and_a_new_one_are_sound(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(sound)
    require_whole(tmp_path / DATA_FILE)
    (tmp_path / "new").mkdir()
    data_file.create(tmp_path / "new")
    require_whole(tmp_path / "new" / DATA_FILE)


def test_copies_of_a_cut_index_are_refused_and_leave_nothing(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "old" / DATA_FILE).write_bytes(sound[: len(sound) // 2])
    (tmp_path / "own" / DATA_FILE).write_bytes(sound)
    with pytest.raises(IndexDamagedError):
        backup.replace(tmp_path / "own", tmp_path / "old", keep_former=True)
    assert (tmp_path / "own" / DATA_FILE).read_bytes() == sound


def test_an_index_cut_while_it_is_open_gives_no_backup(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / DATA_FILE).write_bytes(sound)
    with looked_at(tmp_path / "index") as index:
        os.truncate(tmp_path / "index" / DATA_FILE, len(sound) // 2)
        with pytest.raises(IndexDamagedError):
            backup.copy(index, tmp_path / "copy", compact=False)
    assert not (tmp_path / "copy").exists()


CREATE = """
import os, signal, sys
from pathlib import Path
import lmdb
from index.storage.parameters import Parameters
from index.index import Index
steps = 0
def trace(frame, event, arg):
    global steps
    steps += 1
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(trace)
Index.open(Path(sys.argv[1]), Parameters(), map_bytes_max=2**24)
"""


@pytest.mark.parametrize("step", first_of(240, 1, 20, 60, 90, 120, 150, 180, 210, 280, 320, 360, 400, 460, 520, 600))
def test_a_creation_killed_anywhere_is_taken_up_by_the_next_opening(tmp_path: Path, step: int) -> None:
    done = subprocess.run([sys.executable, "-c", CREATE, str(tmp_path), str(step)], cwd=ROOT, check=False)
    assert done.returncode in (-signal.SIGKILL, 0)
    with Index.open(tmp_path, Parameters(), map_bytes_max=2**24) as index:
        assert index.statistics().entries == 0


# --- a full disk ------------------------------------------------------------------------------------------------------

FILLED_UP = """
import sys
from pathlib import Path
from index.errors import IndexFullError
from tests.support.indexes import opened
small = Path("/mnt")
for free_kib in range(0, 64, 4):
    (small / "filling").write_bytes(bytes(1024 * (64 - free_kib)))
    try:
        with opened(small / "index"):
            print("opened", flush=True)
    except IndexFullError as problem:
        print("full", str(small) in str(problem), flush=True)
    (small / "filling").unlink()
"""


def on_a_small_disk(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that sees a disk of 64 KiB at /mnt, which nobody else sees."""
    mounted = f'mount -t tmpfs -o size=64k tmpfs /mnt && exec {sys.executable} -c "$0"'
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", mounted, program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def can_mount() -> bool:
    try:
        return on_a_small_disk("pass").returncode == 0
    except FileNotFoundError:
        return False


# Where this user may not mount, the faults injected below stand in for a disk that is really full.
if can_mount():

    def test_an_index_that_finds_no_room_to_begin_says_so_whatever_is_left_and_begins_when_there_is_some() -> None:
        outcome = on_a_small_disk(FILLED_UP)
        assert outcome.returncode == 0, outcome.stderr
        told = outcome.stdout.splitlines()
        assert told[0] == "full True"
        assert set(told) == {"full True", "opened"}
        assert told[-1] == "opened"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_lock_file_without_room_is_a_full_disk_and_not_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(IndexFullError, match=str(tmp_path)):
        opened(tmp_path)
    monkeypatch.undo()
    with opened(tmp_path):
        pass
