"""The README's commands, run word for word by a newcomer; its figures and its promises."""

import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from deploy.made_up_site import LANGUAGES, Language, Reprints, reprints, site
from deploy.reprint_runs import by_filter, copies_kept
from tests.support.newcomer import METRICS_PORT, PRINTED_ONLY, READY, Newcomer, blocks, command_of, delivered, git
from tests.support.tiers import first_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()

LINES_MAX = 120
COMMANDS = [command_of(line) for block in blocks(README, "sh") for line in block]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, copy_tracked_files: Callable[[Path], None]) -> Newcomer:
    """Who has typed every command of the README, in order."""
    folder = tmp_path_factory.mktemp("readme") / "clone"
    copy_tracked_files(folder)
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "a fresh copy")):
        git(folder, *arguments)
    person = Newcomer(folder)
    try:
        for command in COMMANDS:
            person.types(command)
    finally:
        person.presses_control_c()
    return person


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_every_command_with_a_stand_in_is_in_the_readme() -> None:
    assert set(PRINTED_ONLY) <= set(COMMANDS)
    assert all(sum(command.endswith(end) for command in COMMANDS) == 1 for end in READY)
    assert sum(METRICS_PORT in command for command in COMMANDS) == 1


@pytest.mark.kafka
def test_every_command_works_as_printed(newcomer: Newcomer) -> None:
    assert len(COMMANDS) > 10
    assert set(newcomer.printed) == set(COMMANDS)
    assert newcomer.printed[".venv/bin/streamer run"] == "0"
    assert "pytest" in newcomer.printed["make test"]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_verdict_line_is_the_one_that_the_readme_shows(newcomer: Newcomer, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    ((document, verdict),) = blocks(text, "json")
    beginning, rest = document.split(" ...")
    (number,) = set(re.findall(r"^sed -n (\d)p ", text, re.MULTILINE))
    there = [newcomer.folder / name for name in ("examples/documents.jsonl", "filtered/verdicts.jsonl")]
    there_document, there_verdict = (path.read_text(encoding="utf-8").splitlines()[int(number) - 1] for path in there)
    assert there_document.startswith(beginning)
    assert rest == '"}'
    shown, printed = (orjson.loads(line) for line in (verdict, there_verdict))
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


def bars(text: str) -> dict[str, list[tuple[int, int]]]:
    """Lengths and figures of each group of bars, the longest first."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for name, bar, figure in re.findall(r"^(\w+)? +\w+ +(█+)  ([\d,]+)$", text, re.MULTILINE):
        name = name or list(groups)[-1]
        groups.setdefault(name, []).append((len(bar), int(figure.replace(",", ""))))
    return {name: sorted(group, reverse=True) for name, group in groups.items()}


def test_bars_are_as_long_as_their_figures_which_stand_in_one_row_of_the_benchmarks() -> None:
    groups = bars("\n".join(blocks(README, "text")[0]))
    assert set(groups) == {"megabytes", "bytes"}
    for group in groups.values():
        (longest, highest), *others = group
        assert all(length == round(longest * figure / highest) for length, figure in others)
    figures = {f" {figure:,} " for group in groups.values() for _, figure in group}
    assert [row for row in BENCHMARKS.splitlines() if all(figure in row for figure in figures)]


def test_stories_are_counted_by_their_original(newcomer: Newcomer) -> None:
    (printed,) = (text for command, text in newcomer.printed.items() if " stories --index " in command)
    lines = (newcomer.folder / "media" / "verdicts.jsonl").read_bytes().splitlines()
    originals = Counter(verdict["original"] for line in lines if (verdict := orjson.loads(line))["original"])
    assert originals
    counted = {name: int(count) - 1 for count, name in re.findall(r"^ *(\d+) .* (\S+) *$", printed, re.MULTILINE)}
    assert counted == originals


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


@pytest.mark.parametrize("language", first_of(*LANGUAGES))
def test_one_article_on_100_hosts_is_one_story(language: Language) -> None:
    assert "one article on 100 hosts is one story**" in README
    crawled = reprints(language, 0.05, articles=12, hosts=100)
    assert len(set(crawled.hosts)) == 100
    assert copies_kept(crawled, by_filter(crawled)).tolist() == [1] * 12
    in_large_frames = reprints(language, 0.6, articles=12, hosts=100)
    assert copies_kept(in_large_frames, by_filter(in_large_frames)).max() > 1


@pytest.mark.parametrize("language", first_of(*LANGUAGES))
def test_a_template_wipes_out_no_site(language: Language) -> None:
    assert "**A template wipes out no site" in README
    assert "where records name a host or URL" in README
    crawled = site(language, 0.1, copies=0)
    of_site = Reprints(crawled.texts, ["site.example"] * len(crawled.texts), crawled.pages)
    assert np.count_nonzero(copies_kept(of_site, by_filter(of_site))) > 480
    without_host = replace(of_site, hosts=[""] * len(of_site.hosts))
    assert np.count_nonzero(copies_kept(without_host, by_filter(without_host))) < 10
