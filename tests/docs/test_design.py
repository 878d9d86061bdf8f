"""The map and the glossary of docs/design.md: complete, and short enough for one screen."""

import re
import subprocess
from pathlib import Path

from index import Reason
from index.decide import rule
from streamer.settings.settings import Topics

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "design.md").read_text()

FOLDERS_MAX = 46
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
