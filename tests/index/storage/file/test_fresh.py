import fcntl
import os
import stat
from pathlib import Path

import pytest

from index.storage.file.fresh import UNFINISHED, fresh_file, keep_mode


def test_links_and_files_of_others_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    planted = [tmp_path / f"table{UNFINISHED}", tmp_path / f"table.{'0' * 16}{UNFINISHED}"]
    for link in planted:
        link.symlink_to(victim)
    others = [tmp_path / f"table.{'0' * 15}{UNFINISHED}", tmp_path / f"tables.{'0' * 16}{UNFINISHED}"]
    for other in others:
        other.write_bytes(b"mine")
    with fresh_file(tmp_path / "table", 0o600) as (name, descriptor):
        os.write(descriptor, b"words")
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
        name.replace(tmp_path / "table")
    assert (tmp_path / "table").read_bytes() == b"words"
    assert victim.read_bytes() == b"mine"
    assert all(link.is_symlink() for link in planted)
    assert all(other.read_bytes() == b"mine" for other in others)


def test_what_a_killed_process_left_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    left, busy = (tmp_path / f"table.{digit * 16}{UNFINISHED}" for digit in "ab")
    left.write_bytes(b"half")
    with busy.open("wb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        with fresh_file(tmp_path / "table", 0o600):
            assert (left.exists(), busy.exists()) == (False, True)
    assert [path.name for path in tmp_path.iterdir()] == [busy.name]


def test_every_name_is_another(tmp_path: Path) -> None:
    names = set()
    for _number in range(20):
        with fresh_file(tmp_path / "table", 0o600) as (name, _descriptor):
            names.add(name.name)
    assert len(names) == 20


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_mode_is_kept_and_an_absent_file_has_none(tmp_path: Path, mode: int) -> None:
    (former := tmp_path / "table").touch(mode)
    former.chmod(mode)
    with fresh_file(former, 0o666) as (name, descriptor):
        keep_mode(descriptor, tmp_path / "absent")
        assert stat.S_IMODE(name.stat().st_mode) == 0o666 & ~_umask()
        keep_mode(descriptor, former)
        assert stat.S_IMODE(name.stat().st_mode) == mode


def _umask() -> int:
    os.umask(umask := os.umask(0))
    return umask
