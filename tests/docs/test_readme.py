"""The README's commands, run word for word in a fresh copy of the files that git tracks.

What is stood in for, and why:

- `.venv` is the environment of this test run, linked into the copy: making one takes minutes. `make setup` is run and finds
  it made. The program is the one installed there, so what a command needs from the copy is files: examples, Makefile, deploy.
- `make test` would run this very test. Its recipe is printed, not run.
- Ports 9092 and 9464 may be taken on the machine of the test. Variables that the project documents name free ones; only
  in the line that asks for metrics the port is replaced.
- `make kafka` and `streamer run` end by Ctrl-C. They run in the background, as in a terminal of their own.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from deploy.local_kafka import free_port
from deploy.made_up_site import LANGUAGES, Language, Reprints, reprints, site
from deploy.reprint_runs import by_filter, copies_kept

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()

LINES_MAX = 120
WAIT_SECONDS = 120
METRICS_PORT = "9464"
PRINTED_ONLY = {"make test": "make --dry-run test"}
READY = {"make kafka": "broker ready", ".venv/bin/streamer run": "running"}
"""Commands that run until Ctrl-C, and what they say when they are ready."""


def blocks(language: str) -> list[list[str]]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def command_of(line: str) -> str:
    return line.split("  #")[0].strip()


COMMANDS = [command_of(line) for block in blocks("sh") for line in block]


def delivered(metrics: str) -> Counter[str]:
    """Records by verdict."""
    counts: Counter[str] = Counter()
    for verdict, count in re.findall(r'verdict="([a-z-]+)".*} (\S+)$', metrics, re.MULTILINE):
        counts[verdict] += int(float(count))
    return counts


class Newcomer:
    """Types commands in a fresh copy; remembers what each printed."""

    def __init__(self, folder: Path, kafka_port: int, metrics_port: int) -> None:
        self.folder = folder
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
        if command in READY:
            self._starts(command)
        elif METRICS_PORT in command:
            self._asks_until_all_is_delivered(command)
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

    def _asks_until_all_is_delivered(self, command: str) -> None:
        documents = len((self.folder / "examples" / "documents.jsonl").read_bytes().splitlines())
        deadline = time.monotonic() + WAIT_SECONDS
        metrics = ""
        while sum(delivered(metrics).values()) != documents:
            assert time.monotonic() < deadline, metrics
            time.sleep(0.2)
            metrics = self._runs(command.replace(METRICS_PORT, self._metrics_port)).stdout
        self.printed[command] = metrics

    def _starts(self, command: str) -> None:
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
        while READY[command] not in path.read_text():
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
    settings = ("user.name=test", "user.email=test@localhost", "core.hooksPath=/dev/null", "commit.gpgSign=false")
    command = ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]
    # A hook of git names the project's own repository in these variables.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def link_environment(folder: Path) -> None:
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "lib64", "include", "pyvenv.cfg"):
        if (Path(sys.prefix) / name).exists():
            (folder / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    for stamp in ("installed", "installed-dev"):
        (folder / ".venv" / stamp).touch()


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, copy_tracked_files: Callable[[Path], None]) -> Newcomer:
    """Who has typed every command of the README, in order."""
    folder = tmp_path_factory.mktemp("readme") / "clone"
    copy_tracked_files(folder)
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "a fresh copy")):
        git(folder, *arguments)
    link_environment(folder)
    person = Newcomer(folder, free_port(), free_port())
    try:
        for command in COMMANDS:
            person.types(command)
    finally:
        person.presses_control_c()
    return person


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_every_command_with_a_stand_in_is_in_the_readme() -> None:
    assert {*PRINTED_ONLY, *READY} <= set(COMMANDS)
    assert sum(METRICS_PORT in command for command in COMMANDS) == 1


@pytest.mark.kafka
def test_every_command_works_as_printed(newcomer: Newcomer) -> None:
    assert len(COMMANDS) > 10
    assert set(newcomer.printed) == set(COMMANDS)
    assert newcomer.printed[".venv/bin/streamer run"] == "0"
    assert "pytest" in newcomer.printed["make test"]


def test_the_verdict_line_is_the_one_that_the_readme_shows(newcomer: Newcomer) -> None:
    ((document, verdict),) = blocks("json")
    beginning, rest = document.split(" ...")
    assert newcomer.printed["sed -n 4p examples/documents.jsonl"].startswith(beginning)
    assert rest == '"}'
    shown, printed = (orjson.loads(line) for line in (verdict, newcomer.printed["sed -n 4p filtered/verdicts.jsonl"]))
    # It is an estimate of 128 bins, by a key that each index makes for itself.
    assert printed.pop("similarity") == pytest.approx(shown.pop("similarity"), abs=0.12)
    assert printed.pop("new") == pytest.approx(shown.pop("new"), abs=0.08)
    assert printed == shown


def test_the_service_delivers_every_example_by_its_verdict(newcomer: Newcomer) -> None:
    (metrics,) = (text for command, text in newcomer.printed.items() if METRICS_PORT in command)
    lines = (newcomer.folder / "filtered" / "verdicts.jsonl").read_bytes().splitlines()
    assert delivered(metrics) == Counter(orjson.loads(line)["verdict"] for line in lines)
    assert set(delivered(metrics)) == {"unique", "duplicate", "dead-letter"}


def test_the_commands_leave_nothing_that_git_would_see(newcomer: Newcomer) -> None:
    assert git(newcomer.folder, "status", "--porcelain") == ""


def test_git_would_see_a_folder_that_is_not_ignored(newcomer: Newcomer) -> None:
    (newcomer.folder / "some-output").mkdir()
    (newcomer.folder / "some-output" / "unique.jsonl").touch()
    seen = git(newcomer.folder, "status", "--porcelain")
    shutil.rmtree(newcomer.folder / "some-output")
    assert seen == "?? some-output/\n"


def test_every_figure_of_the_readme_stands_in_the_benchmarks() -> None:
    rows = re.findall(r"^\| (?!figure)[^|]*\|([^|]*)\|([^|]*)\|$", README, re.MULTILINE)
    figures = {figure for row in rows for cell in row for figure in re.findall(r"\d[\d,]*\.?\d*x?|\.\d+", cell)}
    assert len(figures) >= 12
    assert {
        figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,])", BENCHMARKS)
    } == set()


def test_of_pages_that_share_nine_tenths_of_their_words_nearly_all_are_kept_and_copies_match(tmp_path: Path) -> None:
    assert (
        "500\n  made-up pages of a host that share 90 % of their words over 480 are kept, and 195 of 200 edited copies match"
        in README
    )
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 9))) for _ in range(5_000)]
    shared = dice.choices(words, k=450)
    texts = [[*shared[:200], *dice.choices(words, k=50), *shared[200:]] for _ in range(500)]
    for text in dice.sample(texts, 200):
        copy = text[:]
        for place in dice.sample(range(500), 3):
            copy[place] = dice.choice(words)
        texts.append(copy)
    pages = tmp_path / "pages.jsonl"
    lines = [
        orjson.dumps({"id": f"https://site.example/{number}", "text": " ".join(text)})
        for number, text in enumerate(texts)
    ]
    pages.write_bytes(b"\n".join(lines) + b"\n")
    folders = ("--out", str(tmp_path / "filtered"), "--index", str(tmp_path / "index"))
    command = [sys.executable, "-m", "streamer", "filter", str(pages), *folders]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    lines = (tmp_path / "filtered/verdicts.jsonl").read_bytes().splitlines()
    verdicts = [orjson.loads(line)["verdict"] for line in lines]
    assert verdicts[:500].count("unique") > 480
    assert verdicts[500:].count("duplicate") == 195


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_article_on_100_hosts_is_one_story(language: Language) -> None:
    assert "one article on 100 hosts is one story**" in README
    crawled = reprints(language, 0.05, articles=12, hosts=100)
    assert len(set(crawled.hosts)) == 100
    assert copies_kept(crawled, by_filter(crawled)).tolist() == [1] * 12
    in_large_frames = reprints(language, 0.6, articles=12, hosts=100)
    assert copies_kept(in_large_frames, by_filter(in_large_frames)).max() > 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_template_wipes_out_no_site(language: Language) -> None:
    assert "**A template wipes out no site" in README
    assert "where records name a host or URL" in README
    crawled = site(language, 0.1, copies=0)
    of_site = Reprints(crawled.texts, ["site.example"] * len(crawled.texts), crawled.pages)
    assert np.count_nonzero(copies_kept(of_site, by_filter(of_site))) > 480
    without_host = replace(of_site, hosts=[""] * len(of_site.hosts))
    assert np.count_nonzero(copies_kept(without_host, by_filter(without_host))) < 10
