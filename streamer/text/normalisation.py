"""Texts -> the characters for features: without mark-up, in the normal form, in one writing of Chinese.

`characters` has every text's normal form; this module adds the optional steps.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import opencc
import xxhash
from selectolax.lexbor import LexborHTMLParser, LexborNode

from streamer.settings.settings import Fingerprint
from streamer.settings.types import PlainText
from streamer.text.characters import CODE_POINTS, Characters, decode, fold
from streamer.text.compared import without_accents
from streamer.text.markup.cut_off import complete
from streamer.text.markup.main_text import main_text, releases, require
from streamer.text.markup.nesting import bounded
from streamer.text.markup.pages import Form, form_of

_HAN = (
    *range(0x2E80, 0x2FE0),
    *range(0x3005, 0x3008),
    *range(0x3400, 0x4DC0),
    *range(0x4E00, 0xA000),
    *range(0xF900, 0xFB00),
    *range(0x20000, 0x32000),
)
# The readings of <ruby> say the same once more.
_UNSEEN = ["head", "script", "style", "template", "noscript", "svg", "iframe", "object", "rt", "rp"]
_BLOCKS = (
    "address, article, aside, blockquote, br, button, caption, dd, details, dialog, div, dl, dt, fieldset, figcaption, "
    "figure, footer, form, h1, h2, h3, h4, h5, h6, header, hr, li, main, nav, ol, option, p, pre, section, select, "
    "summary, table, tbody, td, tfoot, th, thead, tr, ul"
)
_BLOCK_NAMES = frozenset(_BLOCKS.split(", "))

MAIN_TEXT_TAGS_MAX = 2**14
"""Most tags in a page for main text extraction: trafilatura takes quadratic time, 12 s for 60,000."""

SHOWN_LETTERS_MIN = 1_000
HIDDEN_FACTOR_MAX = 10
"""A page shows itself with SHOWN_LETTERS_MIN letters outside hidden elements, or 1 / HIDDEN_FACTOR_MAX of all letters."""

LEFT_OUT_SHARE_MAX = 0.1
"""Most of an article's letters that its page may have elsewhere, for the article to stand for the page."""

_WORD = re.compile(r"\w+")
_FURNITURE = ", ".join(
    (
        "nav, aside, header, footer, button, select, textarea",
        *(f"[role={name}]" for name in ("navigation", "banner", "contentinfo", "complementary", "search")),
        # Pages older than these elements name their blocks like them.
        *(
            f"[class~={name} i], [id={name} i]"
            for name in ("nav", "navbar", "navigation", "menu", "sidebar", "breadcrumb", "breadcrumbs", "footer")
        ),
    )
)
_READING = re.compile(r"<r[tp](?=[\s/>])[^>]*+>[^<]*+(?:</r[tp]\s*+>)?+", re.IGNORECASE)
_NO_SIZE = re.compile(r"0(?:\.0*)?(?:[a-z]{2,4}|%)?")

_MARKUP_FORMAT = 3
"""Raised when equal pages begin to give other texts."""


class Normaliser:
    """Texts -> characters, by the settings. Each result depends only on its text.

    >>> Normaliser(Fingerprint()).normal_form("Ｃafé  NOIR")
    'café noir'
    """

    def __init__(self, settings: Fingerprint) -> None:
        self._markup = settings.markup
        if settings.markup in ("auto", "html-main"):
            # Now, not at the first page: all workers read alike.
            require(settings.markup)
        self._simplify = settings.simplify
        fold([])

    def characters(self, texts: Sequence[str]) -> Characters:
        """Every text's characters, before white space is collapsed."""
        return self._written(fold(self.without_markup(texts)))

    def without_markup(self, texts: Sequence[str]) -> Sequence[str]:
        """Every text without its mark-up, by `fingerprint.markup`."""
        if self._markup == "none":
            return texts
        if self._markup == "auto":
            # What holds no tag is text, and a call for each costs a hundredth.
            return [text_as_it_is(text) if "<" in text else text for text in texts]
        seen = visible_text if self._markup == "html" else article_text
        return [text if isinstance(text, PlainText) else seen(text) for text in texts]

    def normal_form(self, text: str) -> str:
        """Normal form of a text without mark-up, white space collapsed."""
        return self._written(fold([text])).text(0)

    def words(self, listed: Sequence[str]) -> list[str]:
        """Every word's compared form. No word may hold a line feed."""
        if not listed:
            return []
        return decode(without_accents(self._written(fold(["\n".join(listed)]))).codepoints).split("\n")

    def stamp(self) -> dict[str, str]:
        """The optional steps in use, by name, with all that their results depend on.

        With "auto", an index of texts without mark-up outlives a release of the parser: pinned examples show if it changes pages.
        """
        stamp: dict[str, str] = {}
        if self._markup != "none":
            stamp["markup"] = f"{self._markup}, format {_MARKUP_FORMAT}"
            if self._markup == "html-main":
                stamp["markup"] += f", {releases()}"
        if self._simplify:
            stamp["simplify"] = xxhash.xxh3_128_hexdigest(simplified().astype("<u4").tobytes())
        return stamp

    def _written(self, characters: Characters) -> Characters:
        if not self._simplify:
            return characters
        return Characters(simplified()[characters.codepoints], characters.bounds)


@cache
def simplified() -> npt.NDArray[np.uint32]:
    """Every code point's Simplified form (OpenCC's t2s), else itself: uint32 [CODE_POINTS].

    Characters are converted one by one, unlike OpenCC over running text: 乾 becomes 干 in 乾隆 too. That suffices to make a
    text's Traditional, Simplified and mixed writings one.
    """
    converter = opencc.OpenCC("t2s")
    table = np.arange(CODE_POINTS, dtype=np.uint32)
    forms = converter.convert("\n".join(map(chr, _HAN))).split("\n")
    for codepoint, form in zip(_HAN, forms, strict=True):
        if len(form) == 1:
            table[codepoint] = ord(form)
    # A few characters take two steps, and a Simplified form must not change again.
    return table[table]


def visible_text(text: str) -> str:
    """The visible text of HTML, with a line break around every block.

    Without scripts, styles, the head and readings of ruby; character references are resolved (WHATWG HTML parsing, by lexbor).
    What the end cuts off counts as text (`complete`). A text without `<` and `&` is returned unchanged. Absurd nesting is made
    flat first (`bounded`).

    Hidden elements are left out too: `hidden` but for `until-found`, `aria-hidden="true"`, and inline styles with `display: none`
    or `visibility: hidden`, or, if they hold only text, with a `font-size` of 0. Style sheets are not read. Hidden elements count
    if all others have less than SHOWN_LETTERS_MIN and 1 / HIDDEN_FACTOR_MAX of the text: a script shows such pages later.
    """
    if "<" not in text and "&" not in text:
        return text
    parser = _shown(text)
    return parser.text() if parser.root is not None else ""


def _shown(text: str) -> LexborHTMLParser:
    parser = _without_hidden(bounded(complete(_parsable(text)), _BLOCK_NAMES))
    for block in parser.css(_BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    return parser


def _without_hidden(page: str) -> LexborHTMLParser:
    parser = _seen(page)
    hidden = [node for node in parser.css("[hidden], [aria-hidden], [style]") if _is_hidden(node)]
    if not hidden:
        return parser
    length = _length(parser)
    # The inner ones first: removing an element removes its content.
    for node in reversed(hidden):
        node.decompose()
    enough = min(SHOWN_LETTERS_MIN, length // HIDDEN_FACTOR_MAX)
    return parser if _length(parser) >= max(enough, 1) else _seen(page)


def _seen(page: str) -> LexborHTMLParser:
    parser = LexborHTMLParser(page)
    # Drawings hide their own texts, and show the HTML in them.
    for shown in parser.css("svg foreignobject") if "foreignobject" in page.lower() else ():
        if (drawing := _outermost_drawing(shown)) is not None:
            drawing.insert_before(shown)
    parser.strip_tags(_UNSEEN)
    return parser


def _outermost_drawing(node: LexborNode) -> LexborNode | None:
    outermost, above = None, node.parent
    while above is not None:
        outermost = above if above.tag == "svg" else outermost
        above = above.parent
    return outermost


def _length(parser: LexborHTMLParser) -> int:
    return sum(map(len, parser.text().split())) if parser.root is not None else 0


def _is_hidden(node: LexborNode) -> bool:
    if node.tag in ("html", "body"):
        return False
    attributes = node.attributes
    if "hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found":
        return True
    if (attributes.get("aria-hidden") or "").strip().lower() == "true":
        return True
    styles = {}
    for declaration in (attributes.get("style") or "").lower().split(";"):
        name, _, value = declaration.partition(":")
        styles[name.strip()] = value.partition("!")[0].strip()
    if styles.get("display") == "none" or styles.get("visibility") in ("hidden", "collapse"):
        return True
    # Pages set a container's size to 0 to close gaps, and style sheets restore it in the elements within.
    return _NO_SIZE.fullmatch(styles.get("font-size", "")) is not None and next(node.iter(), None) is None


def article_text(text: str) -> str:
    """An HTML page's main text (`main_text`), or its visible text if it has none.

    Short pieces have no main text, nor have pages nested so deep that lxml refuses them. A text without `<`, or with more than
    MAIN_TEXT_TAGS_MAX tags, gets its visible text.
    """
    return _article(text) or visible_text(text)


def _article(text: str) -> str | None:
    if not 0 < text.count("<") <= MAIN_TEXT_TAGS_MAX:
        return None
    return main_text(bounded(_READING.sub("", complete(_parsable(text))), _BLOCK_NAMES))


def page_text(text: str) -> str:
    """An HTML page's main text if it stands for the page, else its visible text.

    It stands for the page unless the visible text outside of menus, sidebars, headers, footers and controls has words that the
    main text lacks, with more than LEFT_OUT_SHARE_MAX of its letters. The "article" of a list or a shop is often a notice that
    all pages of a site have.
    """
    article = _article(text)
    return article if article is not None and _stands_for(article, text) else visible_text(text)


def _stands_for(article: str, text: str) -> bool:
    parser = _shown(text)
    # The inner ones first: removing an element removes its content.
    for node in reversed(parser.css(_FURNITURE)):
        if not _holds_content(node):
            node.decompose()
    words = Counter(_WORD.findall(article))
    left_out = Counter(_WORD.findall(parser.text())) - words if parser.root is not None else Counter[str]()
    return _letters(left_out) <= LEFT_OUT_SHARE_MAX * _letters(words)


def _holds_content(node: LexborNode) -> bool:
    """Whether this element may hold a page's own text: an article's header holds its title, and the root holds everything."""
    if node.tag in ("html", "body", "main", "article"):
        return True
    if node.tag not in ("header", "footer"):
        return False
    above = node.parent
    while above is not None and above.tag not in ("article", "main", "section"):
        above = above.parent
    return above is not None


def _letters(words: Counter[str]) -> int:
    return sum(len(word) * count for word, count in words.items())


def text_as_it_is(text: str) -> str:
    """A page's text (`page_text`), a fragment's visible text, any other text itself (`form_of`).

    >>> text_as_it_is("<p>Tea &amp; cake</p>").strip(), text_as_it_is("Tea &amp; <b>cake</b>")
    ('Tea & cake', 'Tea &amp; <b>cake</b>')
    """
    form = form_of(text)
    if form is Form.TEXT:
        return text
    return page_text(text) if form is Form.PAGE else visible_text(text)


def _parsable(text: str) -> str:
    """The text with NUL, which ends parsers, and lone surrogates, which they refuse, replaced."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
