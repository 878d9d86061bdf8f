"""A newcomer types a page's commands in a fresh copy of the repository.

What the test replaces, and why:

- `.venv` is the environment of this test run, linked into the copy: making one takes minutes. `make setup` sees that
  it is made.
- `make test` would run the test itself. Its recipe is printed, not run.
- Ports 9092 and 9464 may be taken on the machine of the test. Variables that the project documents name free ones; only
  in the line that asks for metrics the port is replaced.
- `make kafka` and `streamer run` end by Ctrl-C. They run in the background, as in a terminal of their own.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from deploy.local_kafka import free_port

WAIT_SECONDS = 120
METRICS_PORT = "9464"
METRICS = f"curl --silent http://127.0.0.1:{METRICS_PORT}/metrics"
PRINTED_ONLY = {"make test": "make --dry-run test"}
READY = {"make kafka": "broker ready", " run": "running"}
"""Ends of commands that run until Ctrl-C, and what they say when they are ready."""


def blocks(page: str, language: str) -> list[list[str]]:
    """Lines of each block of code in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def command_of(line: str) -> str:
    """A line without its comment."""
    return line.split("  #")[0].strip()


def delivered(metrics: str) -> Counter[str]:
    """Records by verdict."""
    counts: Counter[str] = Counter()
    for verdict, count in re.findall(r'verdict="([a-z-]+)".*} (\S+)$', metrics, re.MULTILINE):
        counts[verdict] += int(float(count))
    return counts


class Newcomer:
    """Types commands in a fresh copy; remembers what each printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kafka_port, metrics_port = free_port(), free_port()
        link_environment(folder)
        self.printed: dict[str, str] = {}
        self._metrics_port = str(metrics_port)
        self._in_background = ExitStack()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("STREAMER_", "MAKE"))}
        self._environment = {
            **inherited,
            "KAFKA_PORT": str(kafka_port),
            "STREAMER_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{kafka_port}",
            "STREAMER_OBSERVE__PORT": self._metrics_port,
        }

    def types(self, command: str) -> None:
        """Run a command, or start one that runs until Ctrl-C. Remembers what it printed."""
        ready = next((words for end, words in READY.items() if command.endswith(end)), None)
        if ready is not None:
            self._starts(command, ready)
        elif METRICS_PORT in command:
            documents = len((self.folder / "examples" / "documents.jsonl").read_bytes().splitlines())
            self.waits_for(documents, command)
        else:
            done = self._runs(PRINTED_ONLY.get(command, command))
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            self.printed[command] = done.stdout

    def presses_control_c(self) -> None:
        """End what runs in the background, the last one first."""
        self._in_background.close()

    def _runs(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )

    def waits_for(self, documents: int, command: str = METRICS) -> None:
        """Ask for metrics until so many documents are delivered."""
        deadline = time.monotonic() + WAIT_SECONDS
        metrics = ""
        while sum(delivered(metrics).values()) != documents:
            assert time.monotonic() < deadline, metrics
            time.sleep(0.2)
            metrics = self._runs(command.replace(METRICS_PORT, self._metrics_port)).stdout
        self.printed[command] = metrics

    def _starts(self, command: str, ready: str) -> None:
        path = self.folder.parent / f"{command.split()[-1]}.log"
        log = self._in_background.enter_context(path.open("wb"))
        process = self._in_background.enter_context(
            subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        )
        self._in_background.callback(self._ends, command, process)
        deadline = time.monotonic() + WAIT_SECONDS
        while ready not in path.read_text():
            assert process.poll() is None, path.read_text()
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.1)

    def _ends(self, command: str, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(WAIT_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.printed[command] = str(process.returncode)


def git(folder: Path, *arguments: str) -> str:
    """Output of git in a folder, without the settings of this machine."""
    settings = ("user.name=test", "user.email=test@localhost", "core.hooksPath=/dev/null", "commit.gpgSign=false")
    command = ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]
    # A hook of git names the project's own repository in these variables.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def link_environment(folder: Path) -> None:
    """Link the environment of this test run into a copy."""
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "lib64", "include", "pyvenv.cfg"):
        if (Path(sys.prefix) / name).exists():
            (folder / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    for stamp in ("installed", "installed-dev", "installed-kafka"):
        (folder / ".venv" / stamp).touch()
