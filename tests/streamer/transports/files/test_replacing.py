import os
from pathlib import Path

import pytest

from streamer.transports.files.replacing import replacing


def test_the_former_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"former")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"former"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_former_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"former")
    with pytest.raises(TypeError, match="bytes-like"), replacing(path) as file:
        file.writelines([b"new", "no bytes"])  # type: ignore[list-item]
    assert path.read_bytes() == b"former"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_on_disk_before_it_gets_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "table", []

    def noted(descriptor: int) -> None:
        seen.append((os.fstat(descriptor).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    with replacing(path) as file:
        file.write(b"new")
    assert seen == [(3, False)]


def test_a_planted_link_is_not_followed_and_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path, victim = tmp_path / "table", tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "table.unfinished").symlink_to(victim)
    path.write_bytes(b"former")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), victim.read_bytes()) == (b"new", b"mine")
    assert path.stat().st_mode & 0o777 == 0o640
