"""The map and the glossary of docs/design.md: complete, and short enough for one screen. The walk is the one that code takes."""

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
from click.testing import CliRunner

from index import Reason
from index.decide import rule
from streamer.cli.main import cli
from streamer.settings.settings import Topics
from tests.support.parts_world import PartsWorld, values

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "design.md").read_text()

FOLDERS_MAX = 51
ROWS_MAX = 26


def rows(heading: str) -> list[str]:
    """The first cells of the table under a heading."""
    section = DESIGN.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[1:]


def test_the_map_names_every_folder_with_modules_once() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "streamer", "index"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = {f"`{Path(name).parent}/`" for name in listed.stdout.splitlines() if name.endswith(".py")}
    mapped = rows("The house")
    assert len(set(mapped)) == len(mapped) <= FOLDERS_MAX
    assert {"`streamer/`", "`index/`"} <= folders
    assert folders - set(mapped) == set()


def test_the_glossary_has_every_word_once_and_fits_on_a_screen() -> None:
    words = [word for row in rows("Glossary") for word in row.split(", ")]
    assert len(set(words)) == len(words) > ROWS_MAX
    assert len(rows("Glossary")) <= ROWS_MAX


def test_the_reasons_come_in_one_order_on_the_page_and_in_the_rule() -> None:
    """All but that of two documents that are never compared."""
    page = re.findall(r"^ +\| `([A-Z_]+)` \|", (ROOT / "docs" / "decided.md").read_text(), re.MULTILINE)
    told = re.findall(r"(?:^\d\. |\. )([A-Z_]{4,})[:.]", rule.__doc__ or "", re.MULTILINE)
    assert page == told
    assert set(page) == {reason.name for reason in Reason} - {"OTHER_KIND"}


def test_the_picture_of_the_topics_names_them_as_the_settings_do() -> None:
    drawn = (ROOT / "docs" / "topics.svg").read_text()
    topics = Topics()
    shown = [topics.input, topics.unique, topics.duplicate, topics.dead_letter]
    assert re.findall(r'class="mono">([^<]+)<', drawn) == shown
    assert "](topics.svg)" in DESIGN


Function = tuple[str, str]
"""File and name."""


def walk(column: int) -> list[Function]:
    """The functions in a column of the table of the walk, in order."""
    section = DESIGN.split("\n### The walk, file by file\n")[1].split("\n## ")[0]
    cells = [line.split("|")[column + 1] for line in section.splitlines() if line.startswith("| ")]
    return [(file, name) for cell in cells for file, name in re.findall(r"`(\S+)` `(\w+)`", cell)]


def calls(functions: Sequence[Function], act: Callable[[], object]) -> list[Function]:
    """Calls of these functions on all threads meanwhile, in order."""
    names = {(str(ROOT / file), name): (file, name) for file, name in functions}
    made: list[Function] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and (known := names.get((code.co_filename, code.co_name))):
            made.append(known)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return made


def not_in_order(functions: Sequence[Function], made: Sequence[Function]) -> list[Function]:
    """The functions from the first one on that is not called after its predecessor."""
    rest = iter(made)
    return [function for function in functions if not any(call == function for call in rest)]


@pytest.mark.parametrize("column", [1, 2])
def test_the_walk_names_functions_that_there_are(column: int) -> None:
    functions = walk(column)
    assert len(functions) > 15
    for file, name in functions:
        nodes = ast.walk(ast.parse((ROOT / file).read_text()))
        assert any(isinstance(node, ast.FunctionDef) and node.name == name for node in nodes), (file, name)


def test_filter_walks_in_the_order_of_the_page(tmp_path: Path) -> None:
    lines = tmp_path / "pages.jsonl"
    lines.write_bytes(b"\n".join(values(7)))
    words = [
        "filter",
        str(lines),
        "--out",
        str(tmp_path / "out"),
        "--index",
        str(tmp_path / "index"),
        "--processes",
        "1",
    ]
    made = calls(walk(1), lambda: CliRunner().invoke(cli, words, catch_exceptions=False))
    assert not_in_order(walk(1), made) == []
    assert not_in_order(walk(1)[::-1], made)


def test_a_worker_over_kafka_walks_in_the_order_of_the_page(kafka: SimpleNamespace, tmp_path: Path) -> None:
    """The steps before belong to two processes."""
    world = PartsWorld(kafka.bootstrap_servers, tmp_path)
    world.write(values(7))
    functions = walk(2)[walk(2).index(("streamer/service/wiring.py", "build_service")) :]
    assert not_in_order(functions, calls(functions, lambda: world.run(None, 7))) == []
