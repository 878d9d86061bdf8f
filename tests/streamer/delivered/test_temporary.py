"""Temporary files of SQLite: empty at their begin, gone at their end, and errors say what could not be written."""

import sqlite3
from pathlib import Path

import pytest

from streamer.delivered.temporary import temporary
from streamer.errors import OutputUnwritable


def filled(path: Path, *statements: str) -> None:
    with temporary(path, "the numbers", cache_kib=64) as connection:
        for statement in ("CREATE TABLE numbers (number BLOB)", *statements):
            connection.execute(statement)
        assert path.exists()


def test_a_file_that_a_killed_command_left_begins_empty_and_none_stays(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"rubbish of an earlier command")
    filled(path, "INSERT INTO numbers VALUES (zeroblob(8))")
    assert not path.exists()
    filled(path)
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_named_with_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(OutputUnwritable, match="none: the numbers cannot be written"):
        filled(tmp_path / "none" / "table")
    with pytest.raises(OutputUnwritable, match=r"the numbers cannot be written: .*full"):
        filled(tmp_path / "table", "PRAGMA max_page_count = 4", "INSERT INTO numbers VALUES (zeroblob(100000))")
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_sql_is_no_matter_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        filled(tmp_path / "table", "SELECT other FROM numbers")
    assert list(tmp_path.iterdir()) == []
