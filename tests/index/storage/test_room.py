"""The room of an index: its disk, or the limit that its owner sets."""

import shutil
from pathlib import Path

import pytest

from index import Index, Parameters, room_of


def test_without_a_limit_the_disk_is_one(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index", Parameters()) as index:
        # A map reserves addresses, and grows when it is full.
        assert index.statistics().map_bytes == 2**26
    file_bytes = (tmp_path / "index" / "data.mdb").stat().st_size
    room = room_of(tmp_path / "index", map_bytes_max=None)
    assert room.file_bytes == file_bytes > 0
    assert room.bytes_max == file_bytes + room.free_bytes


@pytest.mark.parametrize(("free", "limit", "reach"), [(500, 400, 400), (500, 600, 500), (500, None, 500)])
def test_the_nearer_end_counts_and_a_folder_that_is_not_there_yet_stands_on_its_parent_s_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, limit: int | None, reach: int
) -> None:
    disks: dict[Path, int] = {tmp_path: free}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Disk", (), {"free": disks[path]}))
    assert room_of(tmp_path / "not" / "yet", limit) == (0, free, reach)
