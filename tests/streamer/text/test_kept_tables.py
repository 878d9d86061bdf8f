"""Tables that the next process reads: those of the same sources alone, whatever happened to their file."""

from pathlib import Path

import numpy as np
import pytest

from streamer.text.kept_tables import Arrays, kept_tables


class Maker:
    """Makes tables, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Arrays:
        self.count += 1
        return {"letters": np.arange(5, dtype=np.uint32), "bits": np.ones(3, np.uint8)}


def is_made(tables: Arrays) -> bool:
    return {name: (table.dtype.name, table.tolist()) for name, table in tables.items()} == {
        "letters": ("uint32", [0, 1, 2, 3, 4]),
        "bits": ("uint8", [1, 1, 1]),
    }


def test_tables_are_made_once_for_the_same_sources_and_versions(tmp_path: Path) -> None:
    make, source = Maker(), tmp_path / "source.py"
    for content, version, made in (("a", "1", 1), ("a", "1", 1), ("b", "1", 2), ("b", "2", 3), ("b", "2", 3)):
        source.write_text(content)
        assert is_made(kept_tables(tmp_path / "cache", "letters", (version, source), make))
        assert make.count == made
    # Those of earlier sources are gone, and nothing unfinished is left.
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".tables"]


@pytest.mark.parametrize("damage", ["cut", "empty", "a value", "a shape", "no tables", "a folder"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str) -> None:
    make = Maker()
    kept_tables(tmp_path, "letters", ("1",), make)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        values = whole.index(np.arange(5, dtype=np.uint32).tobytes())
        shape = whole.index(b"[5]")
        damaged = {
            "cut": whole[:-40],
            "empty": b"",
            "a value": whole[: values + 4] + b"\x07" + whole[values + 5 :],
            "a shape": whole[: shape + 1] + b"4" + whole[shape + 2 :],
            "no tables": b"no tables",
        }
        path.write_bytes(damaged[damage])
    assert is_made(kept_tables(tmp_path, "letters", ("1",), make))
    assert make.count == 2


def test_a_folder_that_cannot_be_written_costs_time_alone(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert is_made(kept_tables(tmp_path / "cache", "letters", ("1",), Maker()))
