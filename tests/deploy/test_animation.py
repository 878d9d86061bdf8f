"""The animated pictures of the demo: small, alone, readable without motion, and of the demo as it is."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.paths import DOCS

BYTES_MAX = 60_000
PICTURES = (DOCS / "demo.svg", DOCS / "zh" / "demo.svg")
SVG = "{http://www.w3.org/2000/svg}"

every_picture = pytest.mark.parametrize("picture", PICTURES, ids=lambda path: str(path.relative_to(DOCS)))


@every_picture
def test_a_picture_is_small_and_needs_nothing_else(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert len(text.encode()) < BYTES_MAX
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"<script|@import|@font-face|url\(", text)


@every_picture
def test_a_picture_shows_all_in_either_colour_scheme_without_motion(picture: Path) -> None:
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    style = str(root.findtext(f"{SVG}style"))
    assert "prefers-color-scheme: dark" in style
    assert "prefers-reduced-motion: reduce) { g { animation: none !important } }" in style
    # Only an animation hides a line.
    assert (
        set(re.findall(r"[^{}]*\{ opacity: 0 \}", re.sub(r"@keyframes l\d+ \{[^}]*\}[^}]*\} \}", "", style))) == set()
    )
    assert root.findtext(f"{SVG}title")
