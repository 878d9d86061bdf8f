"""What holds for all tests: Ctrl-C in the background too, and no time limit on an example."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

CHILD = """
import signal, subprocess, sys

def test_a_child_can_be_interrupted():
    ask = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "True\\n"
"""

SLOW_EXAMPLE = """
import time
from hypothesis import given, settings, strategies as st

@settings(max_examples=2)
@given(st.just(1))
def test_an_example_may_take_longer_than_hypothesis_likes(one):
    time.sleep(0.25)
"""


def in_the_background(test: Path, *options: str) -> int:
    """Exit code of pytest for one file, started as `command &` does without job control: with Ctrl-C ignored."""
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(test.parent), *options]
    return subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *run, str(test)],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
    ).returncode


@pytest.mark.parametrize(("options", "expected"), [(("-p", "tests.conftest"), 0), ((), 1)])
def test_what_a_test_starts_can_be_interrupted_even_in_the_background(
    tmp_path: Path, options: tuple[str, ...], expected: int
) -> None:
    test = tmp_path / "test_child.py"
    test.write_text(CHILD)
    assert in_the_background(test, *options) == expected


@pytest.mark.parametrize(("options", "expected"), [(("-p", "tests.conftest"), 0), ((), 1)])
def test_an_example_may_take_its_time_on_a_machine_under_load(
    tmp_path: Path, options: tuple[str, ...], expected: int
) -> None:
    test = tmp_path / "test_slow_example.py"
    test.write_text(SLOW_EXAMPLE)
    assert in_the_background(test, *options) == expected
