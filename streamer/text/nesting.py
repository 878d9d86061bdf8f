"""HTML with limits on depth and attributes, beyond which parsers take quadratic time."""

import re
from collections import Counter
from collections.abc import Iterator

NESTING_MAX = 512
"""Elements that may be open at once. Browsers stop at about as many; real pages have some dozens.

A parser looks through the open elements at every tag: 300 kB of nested `<div>` took 10 s.
"""

FORMATTING_MAX = 32
"""Elements of them that format characters. A parser opens all of them again in every paragraph: 60 kB took 11 s."""

ATTRIBUTES_MAX = 512
"""Attributes that a tag may have. A parser compares each with all before it: one tag of 1 MB took 37 s."""

BODIES_MAX = 16
"""Tags of `<body>` and of `<html>` that may have attributes: a parser adds them all to the first."""

_CHARACTERS_HARMLESS, _TAGS_HARMLESS, _REOPENED_HARMLESS = 2**17, 2**12, 2**19
"""A text below all three takes some tenths of a second at worst, and is not looked through: that would cost as much as
parsing most pages. The third is a bound of the elements that a parser opens again."""

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
_RAW_END = {
    name: re.compile(rf"</{name}(?=[\t\n\f\r />])|\Z", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_FORMATTING = frozenset(["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"])
_FORMATTING_TAG = re.compile(rf"<(?:{'|'.join(sorted(_FORMATTING))})[\t\n\f\r />]", re.IGNORECASE)
_ONCE = frozenset({"body", "html"})
# These hold nothing, or end where the next of their kind begins, or are nothing outside a table.
_UNCOUNTED = frozenset(
    (
        *("a", "area", "base", "body", "br", "caption", "col", "colgroup", "embed", "frame"),
        *("head", "hr", "html", "img", "input", "li", "link", "meta", "optgroup", "option"),
        *("p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr"),
    )
)


def bounded(text: str, blocks: frozenset[str]) -> str:
    """The HTML without what is beyond the limits above; nearly always the text itself.

    An element beyond loses its tags and leaves what it holds, a tag of `blocks` with a line break; a tag of more
    attributes loses them all. An element counts as open until an end tag of its name comes. A parser may end it sooner.
    Takes linear time.
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


def _changes(text: str, blocks: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Begin, end and replacement of every tag that cannot stay, in order."""
    opened: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    depth = formatting = position = 0
    search = _TOKEN.search
    while (token := search(text, position)) is not None:
        begin, position = token.span()
        ends, name = token.group(1, 2)
        if name is None:
            continue
        if not name.islower():
            name = name.lower()
        loses = position - begin > 2 * ATTRIBUTES_MAX and _too_many(token["attributes"])
        if name in _UNCOUNTED:
            if name in _ONCE and not ends:
                opened[name] += 1
                loses = loses or opened[name] > BODIES_MAX
        elif name in _RAW_END:
            # In drawings and formulas these hold elements like any other.
            if not (ends or opened["svg"] or opened["math"]):
                position = _RAW_END[name].search(text, position).start()  # type: ignore[union-attr]
        elif dropped[name] if ends else depth == NESTING_MAX or (formatting == FORMATTING_MAX and name in _FORMATTING):
            dropped[name] += -1 if ends else 1
            yield begin, token.end(), "\n" if name in blocks else ""
            continue
        elif not ends or opened[name]:
            step = -1 if ends else 1
            opened[name] += step
            depth += step
            if name in _FORMATTING:
                formatting += step
        if loses:
            yield begin, token.end(), f"<{ends}{name}>"


def _too_many(attributes: str) -> bool:
    return sum(1 for _ in _ONE_ATTRIBUTE.finditer(attributes)) > ATTRIBUTES_MAX
