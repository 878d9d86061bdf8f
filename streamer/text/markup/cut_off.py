"""HTML whose end cuts something off: a tag, a comment, a script. A parser would drop all that follows, so it becomes text.

Plain text has such ends too: in `Assume x<y. The rest.` a parser sees a tag that never ends.
"""

import re

_RAW = re.compile(
    r"<(?P<end>/?)(?P<name>script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>])", re.IGNORECASE | re.ASCII
)
_TEMPLATE = re.compile(r"<(?P<end>/?)template(?=[\s/>])(?P<attributes>[^>]*+)>", re.IGNORECASE)
_SHADOW = re.compile(r"\sshadowrootmode\s*+=", re.IGNORECASE)
_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+|"
    r"</?[a-zA-Z](?:[^>=\"']++|=[\t\n\f\r ]*+(?:\"[^\"]*+(?:\"|(?P<open>\Z))|'[^']*+(?:'|(?P<open_too>\Z)))?+|[\"'])*+",
    re.DOTALL,
)
_QUOTED_MAX = 4
"""Most tags with an open quote that become text one by one. Each is found by a search through the text."""


def complete(text: str) -> str:
    """HTML with `&lt;` before all that the text's end cuts off, and with what shadow roots show. Takes linear time.

    >>> complete("Assume x<y. The rest."), complete("<p>whole</p>")
    ('Assume x&lt;y. The rest.', '<p>whole</p>')
    """
    if "shadowrootmode" in text or "shadowrootmode" in text.lower():
        text = _with_shadow_roots(text)
    text = _without_open_quotes(text)
    end = max(text.rfind("-->") + 3, text.rfind("--!>") + 4, 0)
    if text.find("<!--", max(0, end - 5)) >= end:
        text = text[:end] + text[end:].replace("<!--", "&lt;!--")
    text = _without_open_scripts(text)
    end = text.rfind(">") + 1
    return text if text.find("<", end) < 0 else text[:end] + text[end:].replace("<", "&lt;")


def _without_open_scripts(text: str) -> str:
    opened: dict[str, list[int]] = {}
    for match in _RAW.finditer(text):
        name = match["name"].lower()
        if match["end"]:
            opened.pop(name, None)
        else:
            opened.setdefault(name, []).append(match.start())
    return _escaped(text, sorted(place for places in opened.values() for place in places))


def _without_open_quotes(text: str) -> str:
    begin = 0
    for _ in range(_QUOTED_MAX):
        if text.count('"', begin) % 2 == 0 and text.count("'", begin) % 2 == 0:
            break
        place = next((tag.start() for tag in _TAG.finditer(text, begin) if tag.lastgroup is not None), None)
        if place is None:
            break
        text, begin = _escaped(text, [place]), place
    return text


def _escaped(text: str, places: list[int]) -> str:
    """The text with `&lt;` for the characters at these places."""
    if not places:
        return text
    ends = [*places[1:], len(text)]
    return text[: places[0]] + "".join("&lt;" + text[begin + 1 : end] for begin, end in zip(places, ends, strict=True))


def _with_shadow_roots(text: str) -> str:
    """The text with a block for each template that a browser shows as a shadow root."""
    shown: list[bool] = []

    def replaced(match: re.Match[str]) -> str:
        if not match["end"]:
            shown.append(_SHADOW.search(match["attributes"]) is not None)
            return "<div>" if shown[-1] else match[0]
        return "</div>" if shown and shown.pop() else match[0]

    return _TEMPLATE.sub(replaced, text)
