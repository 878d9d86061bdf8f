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
