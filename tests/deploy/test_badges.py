"""The README's badges say what pyproject.toml says."""

import re
import xml.etree.ElementTree as ElementTree

from deploy.badges import FOLDER, badge, badges
from tests.support.paths import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_badges_in_the_docs_are_those_of_the_project() -> None:
    drawn = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert drawn == badges(PYPROJECT), "run: python -m deploy.badges"


def test_another_version_would_be_another_badge() -> None:
    other = re.sub(r'^version = ".*"', 'version = "9.9.9"', PYPROJECT, flags=re.MULTILINE)
    changed = {name for name, drawn in badges(other).items() if drawn != badges(PYPROJECT)[name]}
    assert changed == {"version.svg"}
    assert ">9.9.9<" in badges(other)["version.svg"]


def test_both_readmes_show_every_badge() -> None:
    for page in ("README.md", "README.zh-CN.md"):
        shown = set(re.findall(r"\(docs/badges/([\w.]+)\)", (ROOT / page).read_text(encoding="utf-8")))
        assert shown == set(badges(PYPROJECT)), page


def test_a_badge_is_an_image_with_a_name_without_a_network() -> None:
    root = ElementTree.fromstring(badge("a<b", 'c"&d'))
    assert root.attrib["aria-label"] == 'a<b: c"&d'
    assert "href" not in badge("name", "value")
