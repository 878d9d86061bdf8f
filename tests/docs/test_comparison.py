"""docs/comparison.md: every mark has a source, every source is used, and what it names of this repository exists."""

import re

import pytest
from click import Command, Context, Group

from streamer.cli.main import cli
from tests.support.paths import DOCS, ROOT

PAGE = (DOCS / "comparison.md").read_text(encoding="utf-8")
BENCHMARKS = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
WORDS_MAX = 900

MARK = re.compile(r"(yes|partly|no|not its purpose|not documented|[\d,]+(?: \+ \d+)?)(?: \((\[\d+\](?:, \[\d+\])*)\))?")
"""A cell: a word or bytes, and the sources in brackets."""
WITHOUT_SOURCE = "not documented"


def cells(page: str) -> dict[str, list[str]]:
    """Cells of the table by tool, without the heading."""
    lines = [line for line in page.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def sources(page: str) -> dict[int, str]:
    """Entries of the list of sources by number."""
    listed = page.split("## Sources\n")[1].split("\n[1]: ")[0]
    entries = re.split(r"^(\d+)\. ", listed, flags=re.MULTILINE)[1:]
    return {int(number): text for number, text in zip(entries[::2], entries[1::2], strict=True)}


def targets(page: str) -> dict[int, str]:
    """Addresses by number."""
    return {int(number): target for number, target in re.findall(r"^\[(\d+)\]: (\S+)$", page, re.MULTILINE)}


def prose(page: str) -> str:
    """The page beside table and sources."""
    return "\n".join(line for line in page.split("## Sources\n")[0].splitlines() if not line.startswith("|"))


def problems(page: str) -> list[str]:
    """Marks without a source, sources without a use, and names of this repository that do not exist."""
    table, listed, addresses = cells(page), sources(page), targets(page)
    marks = [(tool, cell, MARK.fullmatch(cell)) for tool, row in table.items() for cell in row]
    unreadable = [f"{tool}: {cell!r} is no mark" for tool, cell, mark in marks if not mark]
    unproven = [
        f"{tool}: {cell!r} has no source"
        for tool, cell, mark in marks
        if mark and not mark[2] and mark[1] != WITHOUT_SOURCE
    ]
    used = {int(number) for number in re.findall(r"\[(\d+)\]", page.split("## Sources\n")[0])}
    numbers = [
        f"source {number} is missing in {place}"
        for number in sorted(used | set(listed) | set(addresses))
        for place, known in (("the page", used), ("the list", listed), ("the addresses", addresses))
        if number not in known
    ]
    unnamed = [
        f"source {number} has no link to itself" for number, text in listed.items() if f"][{number}]" not in text
    ]
    return [*unreadable, *unproven, *numbers, *unnamed, *unknown_names(page)]


def unknown_names(page: str) -> list[str]:
    """Tests and commands between backquotes that are not there."""
    names = re.findall(r"`([^`]+)`", page)
    tests = [name for name in names if name.startswith("tests/") and not (ROOT / name).exists()]
    modules = [name for name in names if name.startswith("python -m bench.") and not is_bench(name.split()[2])]
    recipes = [name for name in names if name.startswith("make ") and f"\n{name.split()[1]}:" not in makefile()]
    commands = [name for name in names if name.startswith("streamer ") and not is_command(name.split()[1:])]
    return [f"{name} does not exist" for name in [*tests, *modules, *recipes, *commands]]


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def is_bench(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def is_command(words: list[str]) -> bool:
    command: Command | None = cli
    for word in words:
        command = command.get_command(Context(command), word) if isinstance(command, Group) else None
    return command is not None


def test_every_mark_has_a_source_every_source_is_used_and_every_name_exists() -> None:
    assert problems(PAGE) == []
    assert len(cells(PAGE)) == 15
    assert len({len(row) for row in cells(PAGE).values()}) == 1


def test_this_filter_proves_its_marks_by_its_own_tests_and_commands() -> None:
    for cell in cells(PAGE)["**this filter**"]:
        mark = MARK.fullmatch(cell)
        assert mark is not None
        (number,) = map(int, re.findall(r"\d+", mark[2]))
        assert re.search(r"`(tests/|python -m bench\.|make |streamer )", sources(PAGE)[number])


PLANTED = {
    "a mark without a source": ("| yes ([1]) |", "| yes |", "'yes' has no source"),
    "a mark that is no word of the list": ("| yes ([1]) |", "| best ([1]) |", "'best ([1])' is no mark"),
    "a source that is not listed": ("| yes ([1]) |", "| yes ([99]) |", "source 99 is missing in the list"),
    "a source that nothing uses": ("| yes ([1]) |", "| yes ([2]) |", "source 1 is missing in the page"),
    "a source without an address": ("\n[12]: ", "\n[12] ", "source 12 is missing in the addresses"),
    "a link to another source": (
        "11. [rensa, README][11]",
        "11. [rensa, README][12]",
        "source 11 has no link to itself",
    ),
    "a test that is gone": ("test_kill_at_every_point", "test_gone", "tests/processes/test_gone.py does not exist"),
    "a bench that is gone": ("bench.longer", "bench.gone", "python -m bench.gone does not exist"),
    "a target that is gone": ("`make chaos`", "`make gone`", "make gone does not exist"),
    "a command that is gone": ("`streamer why`", "`streamer gone`", "streamer gone does not exist"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_noticed(error: str) -> None:
    sound, wrong, complaint = PLANTED[error]
    assert sound in PAGE
    assert any(complaint in problem for problem in problems(PAGE.replace(sound, wrong, 1)))


def test_figures_that_were_measured_here_stand_in_the_benchmarks() -> None:
    assert "| MinHash, 17 bands of 5 (the default) | 10,000,000 |" in BENCHMARKS
    assert cells(PAGE)["**this filter**"][-1] == "316 ([9])"
    assert "| 316 (102) |" in BENCHMARKS
    assert "**Ids** add 6.0 bytes a record" in BENCHMARKS
    assert cells(PAGE)["rensa"][-1] == "3,078 ([10])"
    assert re.search(r"^\| Chinese articles, .* \| 3,078 \|", BENCHMARKS, re.MULTILINE)
    assert "210 bytes" in sources(PAGE)[10]
    assert re.search(r"^\| Chinese articles, .* \| 210 \|", BENCHMARKS, re.MULTILINE)
    assert "44 core seconds of the service for news of 0.8 kB, 154 for articles of 6.9 kB" in PAGE
    assert re.search(r"^\| \| \| confluent-kafka \| 20,808 \| 0.39x \| 44 \|", BENCHMARKS, re.MULTILINE)
    assert re.search(r"^\| \| \| confluent-kafka \| 4,586 \| 0.27x \| 154 \|", BENCHMARKS, re.MULTILINE)


def test_the_page_is_short_and_dated() -> None:
    assert len(prose(PAGE).split()) <= WORDS_MAX
    assert re.search(r"^As of \d{4}-\d\d-\d\d\.", PAGE, re.MULTILINE)
    assert "## When not to use this" in PAGE
