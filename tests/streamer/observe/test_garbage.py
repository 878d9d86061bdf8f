"""Searches for garbage: seldom, in a command's process and in those that it spawns, and often enough."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.observe.garbage import OBJECTS_BEFORE, OBJECTS_BETWEEN, searched_seldom

SPAWNING = """
import atexit, gc, multiprocessing, sys
# Python calls these in reverse order, so this one sees what the others leave.
if __name__ == "__main__":
    atexit.register(lambda: print(bool(gc.get_freeze_count())))
from streamer.__main__ import main
if __name__ == "__main__":
    print(multiprocessing.get_context("spawn").Pool(1).apply(gc.get_threshold)[0], gc.get_threshold()[0])
"""


@pytest.fixture(autouse=True)
def before() -> Iterator[tuple[int, int, int]]:
    thresholds = gc.get_threshold()
    yield thresholds
    gc.set_threshold(*thresholds)


class Held:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_searched_for_seldom_inside_and_as_before_afterwards(before: tuple[int, ...]) -> None:
    with searched_seldom():
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN > before[0]
        assert gc.get_freeze_count()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_objects_that_hold_each_other_still_go_by_themselves() -> None:
    with searched_seldom():
        gone = weakref.ref(Held())
        assert gone() is not None
        others = [[number] for number in range(2 * OBJECTS_BETWEEN)]
        assert gone() is None
        assert len(others) == 2 * OBJECTS_BETWEEN


def test_a_command_and_the_processes_that_it_spawns_search_neither_as_they_start_nor_at_the_end(
    tmp_path: Path, before: tuple[int, ...]
) -> None:
    script = tmp_path / "streamer"
    script.write_text(SPAWNING)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)

    assert before[0] < OBJECTS_BEFORE
    assert done.stdout.split() == [str(OBJECTS_BEFORE), str(OBJECTS_BEFORE), "True"]
