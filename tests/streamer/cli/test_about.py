"""What a bug report needs, and what a shell needs."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from index.tools import FORMAT_VERSION
from tests.support.command_line import run


def test_a_bug_report_has_versions_formats_and_the_machine_and_nothing_secret() -> None:
    done = run("version", "--json")
    told = json.loads(done.out)

    assert done.code == 0
    assert told["version"] == version("neardup-streamer")
    assert told["index_format"] == FORMAT_VERSION
    assert platform.python_version() in told["python"]
    assert told["cores"] == len(os.sched_getaffinity(0))
    assert told["packages"]["kafka-python"] == version("kafka-python")
    assert told["packages"]["lmdb"] == version("lmdb")
    assert told["packages"].keys().isdisjoint({"neardup-streamer", "pytest", "mypy"})
    assert str(Path.cwd()) not in done.out


def test_a_person_reads_the_same_as_a_table() -> None:
    shown = run("version").out

    assert f"index format  {FORMAT_VERSION}" in shown
    assert f"numpy {version('numpy')}" in shown
    assert all(len(line) <= 120 for line in shown.splitlines())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    done = run("completion", shell)

    assert done.code == 0
    assert "_STREAMER_COMPLETE=" in done.out


def test_an_unknown_shell_is_refused_with_those_that_are_known() -> None:
    done = run("completion", "tcsh")

    assert done.code == 2
    assert "'bash', 'zsh', 'fish'" in done.err


def test_the_tab_key_completes_a_command() -> None:
    """As the printed script asks for it."""
    asked = os.environ | {"_STREAMER_COMPLETE": "bash_complete", "COMP_WORDS": "streamer dead", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "streamer"], env=asked, capture_output=True, text=True, timeout=60)

    assert done.stdout == "plain,dead-letters\n"
