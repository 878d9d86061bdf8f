"""The README's badges say what pyproject.toml says."""

import re

from deploy.badges import FOLDER, badges
from tests.support.paths import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_badges_in_the_docs_are_those_of_the_project() -> None:
    drawn = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert drawn == badges(PYPROJECT), "run: python -m deploy.badges"


def test_both_readmes_show_every_badge() -> None:
    for page in ("README.md", "README.zh-CN.md"):
        shown = set(re.findall(r"\(docs/badges/([\w.]+)\)", (ROOT / page).read_text(encoding="utf-8")))
        assert shown == set(badges(PYPROJECT)), page
