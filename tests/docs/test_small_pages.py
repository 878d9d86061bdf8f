"""The repository's small pages for programs: llms.txt leads to every page, CITATION.cff names the release."""

import re
import tomllib

import pytest
import yaml

from tests.support.paths import DOCS, ROOT

MAP = (ROOT / "llms.txt").read_text(encoding="utf-8")


def listed(text: str) -> list[str]:
    return re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, re.MULTILINE)


def test_the_map_has_the_usual_form() -> None:
    title, empty, summary, *rest = MAP.splitlines()
    assert title.startswith("# ")
    assert empty == ""
    assert summary.startswith("> ")
    lists = [line for line in rest if line.startswith("- ")]
    assert len(lists) == len(listed(MAP))
    assert "## Optional" in rest


def test_the_map_leads_to_every_page_once() -> None:
    pages = {f"docs/{path.name}" for path in DOCS.glob("*.md")}
    pages |= {"docs/decisions/README.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "ROADMAP.md", "CHANGELOG.md"}
    assert sorted(listed(MAP)) == sorted([*pages, "streamer/ask/openapi.json"])
    assert [target for target in listed(MAP) if not (ROOT / target).exists()] == []


def test_the_citation_names_the_release() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert {"cff-version", "message", "title", "authors"} <= set(cited)


@pytest.mark.parametrize("page", ["SECURITY.md", "ROADMAP.md"])
def test_a_small_page_stays_small(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= 400
