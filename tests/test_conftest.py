"""Tests that a shell starts in the background: they and their children can be interrupted all the same."""

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
