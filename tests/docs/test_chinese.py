"""The Chinese pages say what the English ones say today: same commands, names, figures and alerts."""

import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.paths import ROOT

PAGES = {
    "README.zh-CN.md": "README.md",
    "docs/zh/tutorial.md": "docs/tutorial.md",
    "docs/zh/decided.md": "docs/decided.md",
    "docs/zh/glossary.md": "docs/headers.md",
    "docs/zh/runbook.md": "docs/runbook.md",
}
PARTS = {"docs/zh/glossary.md": ("Relation to the original", "Verdicts and reasons")}
"""Sections that are in Chinese, if not the whole page is."""

README = ("README.md", "README.zh-CN.md")
README_LINES_MAX = 120
PICTURE_BYTES_MAX = 80_000

every_page = pytest.mark.parametrize("page", PAGES)


def chinese(page: str) -> str:
    return (ROOT / page).read_text()


def english(page: str) -> str:
    text = (ROOT / PAGES[page]).read_text()
    if page not in PARTS:
        return text
    sections = {section.splitlines()[0]: section for section in text.split("\n## ")}
    return "\n## ".join(sections[heading] for heading in PARTS[page])


def outdated(root: Path, page: str) -> str:
    """What to do about a page whose English page is not the one that it names; empty if it is."""
    original = PAGES[page]
    mark = f"<!-- of: {original} sha256:{sha256((root / original).read_bytes()).hexdigest()[:12]} -->"
    if (root / page).read_text().splitlines()[0] == mark:
        return ""
    return (
        f"{original} changed: bring {page} up to date, then write into its first line the digest that this prints: "
        f"sha256sum {original} | cut -c 1-12"
    )


def tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def of_kind(kind: str, text: str) -> list[str]:
    return [token.content for token in tokens(text) if token.type == kind]


def links(text: str) -> list[str]:
    return [str(token.attrs["href"]) for token in tokens(text) if token.type == "link_open"]


def figures(text: str) -> set[str]:
    """Numbers outside of code, without a leading zero: 0.7 and .7 are one."""
    numbers = re.findall(r"\d[\d,]*\d(?:\.\d+)?|\d?\.\d+|\d", " ".join(of_kind("text", text)))
    return {re.sub(r"^0\.", ".", number) for number in numbers}


def test_each_page_that_newcomers_and_people_on_call_need_is_in_chinese() -> None:
    there = [*ROOT.glob("*zh*.md"), *(ROOT / "docs" / "zh").rglob("*.md")]
    assert {str(path.relative_to(ROOT)) for path in there} == set(PAGES)


@every_page
def test_a_page_is_of_the_english_page_as_it_stands(page: str) -> None:
    assert outdated(ROOT, page) == ""


@every_page
def test_a_changed_english_page_names_its_chinese_page_and_the_command(page: str, tmp_path: Path) -> None:
    for name in (page, PAGES[page]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    with (tmp_path / PAGES[page]).open("a") as file:
        file.write("One more sentence.\n")
    message = outdated(tmp_path, page)
    assert message.startswith(f"{PAGES[page]} changed: bring {page} up to date")
    assert message.endswith(f"sha256sum {PAGES[page]} | cut -c 1-12")


@every_page
def test_readers_see_which_english_page_it_is_of(page: str) -> None:
    (line,) = [line for line in chinese(page).splitlines()[:5] if line.startswith("对应英文版")]
    (target, *_) = links(line)
    assert ((ROOT / page).parent / target.split("#")[0]).resolve() == ROOT / PAGES[page]


def test_pictures_with_words_are_in_the_language_of_their_readme() -> None:
    pictures = {page: set(re.findall(r"\((docs/[\w/]+\.(?:svg|png))\)", (ROOT / page).read_text())) for page in README}
    english, in_chinese = ({name for name in pictures[page] if "badges" not in name} for page in README)
    assert in_chinese == {name.replace("docs/", "docs/zh/") for name in english}
    assert all((ROOT / name).stat().st_size < PICTURE_BYTES_MAX for name in in_chinese)


def test_the_readmes_lead_to_each_other_on_the_first_screen() -> None:
    beginning = "\n".join((ROOT / "README.md").read_text().splitlines()[:10])
    assert "README.zh-CN.md" in links(beginning)
    assert len(chinese("README.zh-CN.md").splitlines()) <= README_LINES_MAX


def without_the_shown_document(blocks: list[str]) -> list[str]:
    """A reader sees a document of his language first, and its verdict."""
    return [re.sub(r"^sed -n \dp", "sed -n Np", block, flags=re.MULTILINE) for block in blocks if block[0] != "{"]


@every_page
def test_blocks_of_commands_and_outputs_are_those_of_the_english_page(page: str) -> None:
    blocks = [of_kind("fence", text(page)) for text in (chinese, english)]
    if page in README:
        blocks = [without_the_shown_document(each) for each in blocks]
    assert blocks[0] == blocks[1]


@every_page
def test_settings_metrics_and_messages_are_named_as_in_english(page: str) -> None:
    assert set(of_kind("code_inline", chinese(page))) == set(of_kind("code_inline", english(page)))


@every_page
def test_no_figure_of_the_english_page_is_missing(page: str) -> None:
    assert figures(english(page)) - figures(chinese(page)) == set()


def test_figures_are_numbers_outside_of_code() -> None:
    text = "1. Of 4,371 pages 90 % at .7 or 0.85 (8).\n\n`12` [13](14.md)\n\n```sh\n15\n```\n"
    assert figures(text) == {"4,371", "90", ".7", ".85", "8", "13"}


def test_every_alert_has_its_section_under_the_same_anchor() -> None:
    sections = [re.findall(r"^### (\w+)$", text("docs/zh/runbook.md"), re.MULTILINE) for text in (chinese, english)]
    assert sections[0] == sections[1]
    assert "NeardupDown" in sections[0]


@every_page
def test_links_lead_to_files_and_to_chinese_pages_if_there_are_any(page: str) -> None:
    named = {link.split("#")[0] for link in links(chinese(page)) if not link.startswith(("http:", "https:", "#"))}
    targets = {((ROOT / page).parent / name).resolve() for name in named}
    assert {str(path) for path in targets if not path.is_file()} == set()
    whole = {ROOT / original for name, original in PAGES.items() if name not in PARTS}
    assert targets & whole <= {ROOT / PAGES[page]}


@every_page
def test_bold_words_are_bold_next_to_full_width_marks(page: str) -> None:
    assert [text for text in of_kind("text", chinese(page)) if "**" in text] == []


def test_bold_words_that_end_in_a_full_width_mark_would_not_be() -> None:
    assert any("**" in text for text in of_kind("text", "**注意：**文字"))
