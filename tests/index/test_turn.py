"""One process at most has the turn at bringing an index up to date, and it ends with that process."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from index import Index, Parameters, Source
from index.errors import IndexMissingError
from index.turn import Turn

SOURCE = Source("stream", 0)

HOLDER = """
import sys, time
from pathlib import Path
from index.turn import Turn
assert Turn(Path(sys.argv[1])).take()
print("taken", flush=True)
time.sleep(60)
"""


def opened(directory: Path) -> Index:
    return Index.open(directory, Parameters(bits=64, distance_max=3), map_bytes_max=2**30)


def test_only_one_has_the_turn_until_it_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.touch()
    one, other = Turn(file), Turn(file)
    assert one.take()
    assert one.take(), "who has the turn keeps it"
    assert not other.take()
    other.give_back()
    assert not other.take(), "who has it not cannot give it back"
    one.give_back()
    assert other.take()


def test_a_turn_ends_when_its_process_is_killed(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "data.mdb")], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        assert not index.take_turn()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        assert index.take_turn()


def test_a_turn_ends_when_the_index_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.take_turn()
    assert Turn(tmp_path / "data.mdb").take()


def test_an_index_can_be_written_and_opened_while_another_has_the_turn(tmp_path: Path) -> None:
    other = Turn(tmp_path / "data.mdb")
    with opened(tmp_path) as index:
        assert other.take()
        index.set_applied(SOURCE, 7)
    with opened(tmp_path) as again:
        assert again.applied()[SOURCE].offset == 7
    other.give_back()


def test_a_file_that_is_gone_has_no_turn(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        (tmp_path / "data.mdb").unlink()
        with pytest.raises(IndexMissingError, match="was removed while it was in use"):
            index.take_turn()


def test_the_turn_to_write_stories_out_is_another_and_its_file_is_made(tmp_path: Path) -> None:
    with opened(tmp_path) as index:
        assert index.take_turn()
        assert index.take_stories_turn()
        assert index.take_stories_turn()
        assert not Turn(tmp_path / "stories.turn").take()
