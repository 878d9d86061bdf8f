"""HTML with limits on depth and attributes, beyond which parsers take quadratic time."""

import re
from collections import Counter
from collections.abc import Iterator

NESTING_MAX = 512
"""Most elements open at once. Browsers stop at about as many; real pages have some dozens.

A parser searches them at every tag: 300 kB with nested `<div>` took 10 s.
"""

FORMATTING_MAX = 32
"""Most open formatting elements. A parser reopens them all in every paragraph: 60 kB took 11 s."""

ATTRIBUTES_MAX = 512
"""Most attributes in a tag: a parser compares each with all earlier ones, 1 MB took 37 s."""

BODIES_MAX = 16
"""Most `<body>` and `<html>` tags with attributes: a parser adds them all to the first."""

_CHARACTERS_HARMLESS, _TAGS_HARMLESS, _REOPENED_HARMLESS = 2**17, 2**12, 2**19
"""A text below all three takes some tenths of a second at worst, and is not searched: that would cost as much as to parse most
pages. The third bounds the elements that a parser reopens.
"""

_SPACE = r"[\t\n\f\r ]"
_ATTRIBUTE = (
    rf"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:{_SPACE}*+={_SPACE}*+"
    r"(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >\"'][^\t\n\f\r >]*+)?+)?+"
)
# Every alternative that begins to match does match, to the end of the text at worst: so a search takes linear time.
_TOKEN = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+|"
    rf"<(?P<end>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)(?P<attributes>(?:[\t\n\f\r /]++|{_ATTRIBUTE})*+)(?:>|\Z)",
    re.DOTALL,
)
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
_CDATA = "<![CDATA["
_RAW_END = {
    name: re.compile(rf"</{name}(?=[\t\n\f\r />])|\Z", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_FORMATTING = frozenset(["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"])
_FORMATTING_TAG = re.compile(rf"<(?:{'|'.join(sorted(_FORMATTING))})[\t\n\f\r />]", re.IGNORECASE)
_ONCE = frozenset({"body", "html"})
# These hold nothing, or end at the next one like them, or are nothing outside a table.
_UNCOUNTED = frozenset(
    (
        *("a", "area", "base", "body", "br", "caption", "col", "colgroup", "embed", "frame"),
        *("head", "hr", "html", "img", "input", "li", "link", "meta", "option"),
        *("p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr"),
    )
)
# Those of them that stay open, and hide earlier elements from end tags.
_CELLS = frozenset({"caption", "td", "th"})
_COVERING = frozenset({"colgroup", "li", "option", "p", "tbody", "tfoot", "thead", "tr"}) | _CELLS
# In drawings and formulas these are nested like any other element.
_NESTED_IN_FOREIGN = _UNCOUNTED - {"body", "br", "embed", "head", "hr", "img", "li", "meta", "p"}
_FOREIGN = frozenset({"math", "svg"})
# Within these, and if uncertain, a drawing holds HTML; there the drawing's own end tag may not act.
_INTEGRATION = frozenset({"", "annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext"})
# No end tag acts upon elements opened before one of these.
_SCOPES = frozenset({"", "applet", "marquee", "math", "object", "select", "svg", "table", "template"})
# No other element's end tag acts upon elements opened before one of these, nor before <noscript>.
_SPECIAL = _SCOPES | frozenset(
    (
        *("address", "article", "aside", "blockquote", "button", "center", "dd", "details", "dir", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("header", "hgroup", "listing", "main", "menu", "nav", "ol", "pre", "search", "section"),
        *("summary", "ul"),
    )
)
_REPEATS_MAX = 7
"""Special elements that a formatting end tag passes: a parser repeats its algorithm eight times."""


def bounded(text: str, blocks: frozenset[str]) -> str:
    """The HTML within the limits above; nearly always the text itself. Takes linear time.

    An element beyond a limit loses its tags and leaves its content, a tag in `blocks` with a line break; a tag with too many
    attributes loses them all. An element counts as open until an end tag certainly ends it: parsers pass over many, such as
    `</b>` in a table that began after `<b>`.
    """
    if _harmless(text):
        return text
    kept: list[str] = []
    position = 0
    for begin, end, replacement in _changes(text, blocks):
        kept += text[position:begin], replacement
        position = end
    return "".join([*kept, text[position:]]) if position else text


def _harmless(text: str) -> bool:
    tags = text.count("<")
    if len(text) > _CHARACTERS_HARMLESS or tags > _TAGS_HARMLESS:
        return False
    return tags**2 <= 4 * _REOPENED_HARMLESS or len(_FORMATTING_TAG.findall(text)) * tags <= _REOPENED_HARMLESS


class _Open:
    """The counted open elements, each with the covering tags after it.

    They include every element that a parser has open: an element with an uncertain end tag stays in the count.
    """

    def __init__(self) -> None:
        self.depth = self.formatting = self.foreign = 0
        self._named: Counter[str] = Counter()
        self._names: list[str] = []
        self._covers: list[set[str]] = [set()]

    def begin(self, name: str) -> None:
        """Count an opened element."""
        self.depth += 1
        self.formatting += name in _FORMATTING
        self.foreign += name in _FOREIGN
        self._named[name] += 1
        self._names.append(name)
        self._covers.append(set())

    def end(self, name: str) -> None:
        """Uncount the last element with this name, if its end tag certainly acts."""
        if not self._named[name]:
            return
        self._named[name] -= 1
        place = len(self._names) - 1 - self._names[::-1].index(name)
        if not self._acts(name, place):
            # It may stay open in the parser: it is counted, and hides others, but no end tag ends it any more.
            self._names[place] = ""
            return
        self.depth -= 1
        self.formatting -= name in _FORMATTING
        self.foreign -= name in _FOREIGN
        del self._names[place]
        inner = self._covers.pop(place + 1)
        # An option only ends one that holds nothing: the outer one stays open.
        self.depth += "option" in inner & self._covers[place]
        self._covers[place] |= inner

    def has_room(self, name: str) -> bool:
        """Whether the limits allow one more."""
        return self.depth < NESTING_MAX and not (name in _FORMATTING and self.formatting == FORMATTING_MAX)

    def cover(self, name: str, *, ends: bool) -> None:
        """Note a covering tag after the last counted element, or its end."""
        covers = self._covers[-1]
        if not ends:
            covers.add(name)
        elif name != "option" or len(covers) == 1:
            covers.discard(name)

    def _acts(self, name: str, place: int) -> bool:
        """Whether an end tag certainly ends the last element with its name, at this place."""
        above, covers = self._names[place + 1 :], set().union(*self._covers[place + 1 :])
        if name in _FOREIGN:
            return _INTEGRATION.isdisjoint(above)
        if name != "table" and covers & _CELLS:
            return False
        if name in _FORMATTING:
            return (
                _SCOPES.isdisjoint(above)
                and sum(each in _SPECIAL or each == "noscript" for each in above) <= _REPEATS_MAX
            )
        if name in _SPECIAL:
            return _SCOPES.isdisjoint(above)
        return _SPECIAL.isdisjoint(above) and "noscript" not in above and covers <= {"option"}


def _changes(text: str, blocks: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    opened = _Open()
    once: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    position = 0
    search = _TOKEN.search
    while (token := search(text, position)) is not None:
        begin, position = token.span()
        ends, name = token.group(1, 2)
        if name is None:
            if opened.foreign and text.startswith(_CDATA, begin):
                position = begin + len(_CDATA)
                yield begin, position, ""
            continue
        if not name.islower():
            name = name.lower()
        loses = position - begin > 2 * ATTRIBUTES_MAX and _too_many(token["attributes"])
        if name in _COVERING:
            opened.cover(name, ends=bool(ends))
        if name in _UNCOUNTED and not (opened.foreign and name in _NESTED_IN_FOREIGN):
            if name in _ONCE and not ends:
                once[name] += 1
                loses = loses or once[name] > BODIES_MAX
        elif name in _RAW_END:
            if not ends:
                if loses:
                    yield begin, position, f"<{name}>"
                    loses = False
                begin, position = position, _RAW_END[name].search(text, position).start()  # type: ignore[union-attr]
                # In drawings these hold elements like any other. As text they are the same there and here.
                if opened.foreign and "<" in text[begin:position]:
                    yield begin, position, text[begin:position].replace("<", "&lt;")
        elif name == "frameset" or (dropped[name] if ends else not opened.has_room(name)):
            dropped[name] += -1 if ends else 1
            yield begin, token.end(), "\n" if name in blocks else ""
            continue
        elif ends:
            opened.end(name)
        else:
            opened.begin(name)
        if loses:
            yield begin, token.end(), f"<{ends}{name}>"


def _too_many(attributes: str) -> bool:
    return sum(1 for _ in _ONE_ATTRIBUTE.finditer(attributes)) > ATTRIBUTES_MAX
