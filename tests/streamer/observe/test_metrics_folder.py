"""Files of metrics come back with their content when something removes them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import NoRoomForMetrics
from streamer.observe.metrics_folder import FILE_BYTES, MetricsFolder


def test_files_that_are_in_place_are_left_alone(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path, ["a.db"])
    before = (tmp_path / "a.db").stat()
    assert not folder.restore()
    assert os.path.samestat((tmp_path / "a.db").stat(), before)
    folder.close()


@pytest.mark.parametrize(
    "remove", [lambda path: (path / "a.db").unlink(), shutil.rmtree, lambda path: (path / "a.db").rename(path / "c.db")]
)
def test_a_removed_file_comes_back_with_what_was_written_after_its_removal(
    tmp_path: Path, remove: Callable[[Path], None]
) -> None:
    directory = tmp_path / "metrics"
    folder = MetricsFolder(directory, ["a.db", "b.db"])
    with (directory / "a.db").open("r+b") as file:
        file.write(b"before")
        remove(directory)
        file.write(b" and after")
        file.seek(2 * FILE_BYTES)
        file.write(b"end")
    assert folder.restore()
    content = (directory / "a.db").read_bytes()
    assert content[:16] == b"before and after"
    assert content[2 * FILE_BYTES :] == b"end"
    assert (directory / "b.db").exists()
    assert not folder.restore()
    folder.close()


def test_a_folder_that_another_user_made_in_between_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "metrics"
    folder = MetricsFolder(directory, ["a.db"])
    shutil.rmtree(directory)
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    with pytest.raises(NoRoomForMetrics, match=f"{tmp_path}.*another user"):
        folder.restore()
    folder.close()
