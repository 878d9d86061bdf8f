"""The animated pictures of the demo: small, alone, readable without motion, and of the demo as it is."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.text import Text

from deploy.animation import CELL_PIXELS, MARGIN_PIXELS, Run, between, drawn, pieces
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


@every_picture
def test_no_line_leaves_the_picture(picture: Path) -> None:
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.iter(f"{SVG}text"):
        assert float(text.attrib["x"]) + float(text.attrib["textLength"]) <= width - MARGIN_PIXELS + 0.1
        assert float(text.attrib["y"]) < height


def test_texts_of_documents_become_no_markup() -> None:
    picture = drawn([Run("streamer why <a>", [Text("</text><script>&")])], "a & b")
    texts = [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert texts == ["$ streamer why <a>", "</text><script>&"]


def test_lines_appear_one_after_the_other_and_stay() -> None:
    picture = drawn([Run("one", [Text("two"), Text("three")]), Run("four", [])], "order")
    shares = [float(share) for share in re.findall(r"@keyframes l\d+ \{ 0%, ([\d.]+)% \{ opacity: 0 \}", picture)]
    assert shares == sorted(set(shares))
    assert max(shares) < 100


def test_columns_stay_in_place_after_wide_characters_and_gaps() -> None:
    line = Text.from_ansi("全部副本  \x1b[1;32m240\x1b[0m of 240")
    assert [(piece.column, piece.text, piece.classes) for piece in pieces(line)] == [
        (0, "全部副本", ""),
        (10, "240", "bold green"),
        (14, "of 240", ""),
    ]
    assert f'x="{MARGIN_PIXELS + 10 * CELL_PIXELS:.1f}"' in drawn([Run("demo", [line])], "wide")


def test_the_lines_between_two_are_taken_with_both() -> None:
    lines = [Text(word) for word in ("a", "begin here", "b", "end here", "c")]
    assert [line.plain for line in between(lines, "begin", "end")] == ["begin here", "b", "end here"]
