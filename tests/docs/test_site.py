"""The site as `make docs` builds it, and pages that it must refuse."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser

ROOT = Path(__file__).parents[2]
SVG = ROOT / "docs" / "picture.svg"


def recipe() -> list[str]:
    """The words of the Makefile's command, with this interpreter's sphinx-build."""
    (command,) = re.findall(r"^\t@\$\(BIN\)/sphinx-build (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [sys.executable, "-m", "sphinx", *command.split()]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(recipe(), cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def pages(tmp_path: Path, copy_tracked_files: Callable[[Path], None]) -> Path:
    """A fresh copy of the files that git tracks."""
    copy_tracked_files(tmp_path / "pages")
    return tmp_path / "pages"


def test_every_link_and_anchor_leads_somewhere(pages: Path) -> None:
    built = build(pages)
    assert (built.returncode, built.stderr) == (0, "")
    assert "url=README.html" in (pages / "site" / "index.html").read_text()
    # Alerts name the page by its path in the repository.
    assert (pages / "site" / "docs" / "runbook.md").read_text() == (pages / "docs" / "runbook.md").read_text()
    names = {path.relative_to(pages).with_suffix("") for path in pages.rglob("*.md") if "site" not in path.parts}
    assert {name for name in names if not (pages / "site" / f"{name}.html").exists()} == set()
    languages = {name: language_of(pages / "site" / f"{name}.html") for name in map(str, names)}
    in_chinese = {name for name, language in languages.items() if language == "zh-CN"}
    assert in_chinese == {name for name in languages if "zh" in name}
    assert set(languages.values()) == {"en", "zh-CN"}


def language_of(page: Path) -> str | None:
    return LexborHTMLParser(page.read_text()).css_first("html").attributes["lang"]


BROKEN = {
    "[gone](limits.md#gone)": "local id not found in doc 'docs/limits'",
    "[gone](#gone-from-here)": "cross-reference target not found: 'gone-from-here'",
    "[gone](../README.md#gone)": "local id not found in doc 'README'",
    "[gone](gone.md)": "cross-reference target not found: 'gone.md'",
    "[gone](../GONE)": "cross-reference target not found: '../GONE'",
    "[a folder](decisions/)": "cross-reference target not found: 'decisions/'",
    "![gone](gone.svg)": "image file not readable: docs/gone.svg",
}


def test_links_that_lead_nowhere_fail_the_build(pages: Path) -> None:
    page = pages / "docs" / "limits.md"
    lines = page.read_text().splitlines()
    page.write_text("\n\n".join(["\n".join(lines), *BROKEN]) + "\n")
    built = build(pages)
    assert built.returncode != 0
    complaints = dict(re.findall(r"docs/limits\.md:(\d+): WARNING: (.*)", built.stderr))
    assert len(complaints) == len(BROKEN)
    for number, expected in enumerate(BROKEN.values(), start=1):
        assert expected in complaints[str(len(lines) + 2 * number)]


def test_one_broken_anchor_is_enough(pages: Path) -> None:
    page = pages / "README.md"
    assert "docs/settings.md#decode" in page.read_text()
    page.write_text(page.read_text().replace("docs/settings.md#decode", "docs/settings.md#decoding"))
    built = build(pages)
    assert built.returncode != 0
    assert "local id not found in doc 'docs/settings': 'decoding'" in built.stderr


def test_a_page_that_nobody_leads_to_fails_the_build(pages: Path) -> None:
    (pages / "docs" / "forgotten.md").write_text("# Forgotten\n")
    built = build(pages)
    assert built.returncode != 0
    assert "isn't included in any toctree" in built.stderr


def test_the_picture_names_the_six_verbs_in_order() -> None:
    verbs = re.findall(r'class="verb"[^>]*>(\w+)<', SVG.read_text())
    assert verbs == ["read", "decode", "fingerprint", "decide", "route", "commit"]


def test_the_meaning_of_a_setting_comes_right_after_its_name_and_the_theme_is_read_on_a_phone(pages: Path) -> None:
    assert build(pages).returncode == 0
    site = LexborHTMLParser((pages / "site" / "docs" / "settings.html").read_text())
    heads = [[cell.text() for cell in table.css("th")] for table in site.css("table")]
    assert len(heads) > 5
    assert all(head[:2] == ["Key", "Meaning"] for head in heads if head[0] == "Key")
    assert "width=device-width" in site.css_first('meta[name="viewport"]').attributes["content"]
    # Both colour schemes, by the reader's choice.
    assert site.css(".theme-toggle")
    assert any("tables.css" in link.attributes["href"] for link in site.css('link[rel="stylesheet"]'))
