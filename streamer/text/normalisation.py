"""Texts -> characters that features are made of: mark-up taken off, the normal form, one way of writing Chinese.

`text` holds the normal form, which every text gets; this module adds what settings ask for.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import opencc
import xxhash
from selectolax.lexbor import LexborHTMLParser

from streamer.settings.settings import Fingerprint
from streamer.text.characters import CODE_POINTS, Characters, decode, fold
from streamer.text.main_text import main_text, releases, require

_HAN = (
    *range(0x2E80, 0x2FE0),
    *range(0x3005, 0x3008),
    *range(0x3400, 0x4DC0),
    *range(0x4E00, 0xA000),
    *range(0xF900, 0xFB00),
    *range(0x20000, 0x32000),
)
_UNSEEN = ["head", "script", "style", "template", "noscript", "svg", "iframe", "object"]
_BLOCKS = (
    "address, article, aside, blockquote, br, button, caption, dd, details, dialog, div, dl, dt, fieldset, figcaption, "
    "figure, footer, form, h1, h2, h3, h4, h5, h6, header, hr, li, main, nav, ol, option, p, pre, section, select, "
    "summary, table, tbody, td, tfoot, th, thead, tr, ul"
)


class Normaliser:
    """Texts -> characters, by the settings. What a text becomes depends on nothing but that text."""

    def __init__(self, settings: Fingerprint) -> None:
        self._markup = settings.markup
        if settings.markup == "html-main":
            require()
        self._simplify = settings.simplify
        fold([])

    def characters(self, texts: Sequence[str]) -> Characters:
        """The characters of every text, white space not collapsed."""
        return self._written(fold(self.without_markup(texts)))

    def without_markup(self, texts: Sequence[str]) -> Sequence[str]:
        """What the settings leave of every text before anything else is done to it."""
        if self._markup == "none":
            return texts
        seen = visible_text if self._markup == "html" else article_text
        return [seen(text) for text in texts]

    def normal_form(self, text: str) -> str:
        """The normal form of a text without mark-up, white space collapsed."""
        return self._written(fold([text])).text(0)

    def words(self, listed: Sequence[str]) -> list[str]:
        """Every word of a list as it would stand in a text; no word may hold a line feed."""
        if not listed:
            return []
        return decode(self._written(fold(["\n".join(listed)])).codepoints).split("\n")

    def stamp(self) -> dict[str, str]:
        """What is switched on, by name, with all that its results depend on."""
        stamp: dict[str, str] = {}
        if self._markup != "none":
            stamp["markup"] = "html" if self._markup == "html" else f"html-main, {releases()}"
        if self._simplify:
            stamp["simplify"] = xxhash.xxh3_128_hexdigest(simplified().astype("<u4").tobytes())
        return stamp

    def _written(self, characters: Characters) -> Characters:
        if not self._simplify:
            return characters
        return Characters(simplified()[characters.codepoints], characters.bounds)


@cache
def simplified() -> npt.NDArray[np.uint32]:
    """For every code point the Simplified form of that character (OpenCC's t2s), itself where there is no other.

    uint32 [CODE_POINTS]. A character at a time, unlike OpenCC over running text: 乾 becomes 干 in 乾隆 too. What
    counts is that Traditional and Simplified writings of a text become one, and texts that mix both.
    """
    converter = opencc.OpenCC("t2s")
    table = np.arange(CODE_POINTS, dtype=np.uint32)
    forms = converter.convert("\n".join(map(chr, _HAN))).split("\n")
    for codepoint, form in zip(_HAN, forms, strict=True):
        if len(form) == 1:
            table[codepoint] = ord(form)
    # A few characters are simplified in two steps; what is simplified must stay as it is.
    return table[table]


def visible_text(text: str) -> str:
    """What a reader sees of an HTML text, with a line break around every block; a text without a tag as it is.

    Scripts, styles and the head are left out; character references are resolved (WHATWG HTML parsing, by lexbor).
    """
    if "<" not in text and "&" not in text:
        return text
    parser = LexborHTMLParser(_parsable(text))
    parser.strip_tags(_UNSEEN)
    for block in parser.css(_BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    return parser.text() if parser.root is not None else ""


def article_text(text: str) -> str:
    """The main text of an HTML page (`main_text`); what a reader sees of it where there is none to be found.

    A text without a tag is taken as it is, and a short piece of a page as what a reader sees of it.
    """
    if "<" not in text:
        return visible_text(text)
    return main_text(_parsable(text)) or visible_text(text)


def _parsable(text: str) -> str:
    """The text without what parsers end at (NUL) or cannot be given (lone surrogates)."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
