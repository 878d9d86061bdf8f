"""What happens before a command begins: a foreign `index` in place of our own, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.errors import EXIT_INTERRUPTED
from tests.support.paths import ROOT

COMMANDS = {
    "module": [sys.executable, "-m", "streamer"],
    "script": [str(Path(sys.executable).with_name("streamer"))],
}


def run(command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("STREAMER_", "PYTHONPATH"))}
    return subprocess.run(
        [*COMMANDS[command], "config", "show"],
        cwd=cwd,
        env=clean | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_another_system_is_refused_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.platform = 'darwin'\n")
    done = run("module", ROOT, PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "")
    (line,) = done.stderr.splitlines()
    assert line == "streamer: runs on Linux alone; elsewhere use its container image (deploy/Dockerfile)"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("foreign", ["index.py", "index/__init__.py"])
def test_a_foreign_index_is_named_in_one_line_with_what_to_do(tmp_path: Path, command: str, foreign: str) -> None:
    theirs = tmp_path / foreign
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("raise SystemExit('their code ran')\n")
    done = run(command, tmp_path, PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("streamer: ")
    assert str(theirs.resolve()) in line
    assert "PYTHONPATH" in line


def test_a_foreign_index_in_the_current_folder_counts_only_where_python_looks_there(tmp_path: Path) -> None:
    (tmp_path / "index.py").write_text("")

    assert run("module", tmp_path).returncode == os.EX_CONFIG
    assert run("script", tmp_path).returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_of_data_called_index_is_in_nobodys_way(tmp_path: Path, command: str) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "data.mdb").write_bytes(b"")
    done = run(command, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_tests_that_run_in_the_background_can_interrupt_what_they_start() -> None:
    """A shell without job control lets what it starts in the background ignore Ctrl-C, and so do its children."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k", "ctrl_c_while_starting"]
    shell = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("moment", ["while modules are imported", "while settings are read"])
def test_ctrl_c_while_starting_is_one_line(tmp_path: Path, moment: str) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "click.py").write_text(f"open({str(gate)!r}).read()\n")
    path = os.pathsep.join([*([str(tmp_path)] if "modules" in moment else []), str(ROOT)])
    command = [sys.executable, "-m", "streamer", "config", "show", "--config", str(gate)]
    variables = {**os.environ, "PYTHONPATH": path}
    starting = subprocess.Popen(command, env=variables, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    # The gate opens as soon as the command waits for what is written into it.
    with starting, gate.open("w"):
        starting.send_signal(signal.SIGINT)
        _, told = starting.communicate(timeout=60)
    assert (starting.returncode, told) == (EXIT_INTERRUPTED, "streamer: interrupted\n")
