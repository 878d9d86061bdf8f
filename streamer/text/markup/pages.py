"""What a text is: a page of HTML, a fragment of one, or text. By its beginning, and by the type that its record names.

The rule asks one text alone, so that every process answers alike. Text that quotes mark-up stays text, as do feeds and other XML.
"""

import re
from enum import Enum, auto

from streamer.settings.types import CalledHtml, CalledPlain, PlainText

# What may come first in HTML: a byte order mark, white space, instructions of XML, comments.
_BEFORE = r"[\s\ufeff]*+(?:(?:<\?[^>]*+>|<!--.*?-->)[\s\ufeff]*+)*+"
_PAGE = re.compile(
    rf"{_BEFORE}<(?:!doctype\s++html(?=[\s>\[])|(?:html|head|body|meta)(?=[\s/>]))", re.IGNORECASE | re.DOTALL
)
_FRAGMENT = re.compile(
    rf"{_BEFORE}<(?P<name>address|article|aside|a|blockquote|b|center|code|dd|details|div|dl|dt|em|fieldset|figure|font|footer|"
    r"form|h[1-6]|header|i|li|main|nav|ol|pre|p|script|section|small|span|strong|style|summary|table|tbody|td|th|tr|ul|u)(?=[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"</?[a-z][a-z0-9]*+(?=[\s/>])|<!doctype\s", re.IGNORECASE)


class Form(Enum):
    """How a text is read.

    >>> Form.PAGE is form_of("<!doctype html><title>Ferry</title><p>The ferry leaves at nine.")
    True
    """

    TEXT = auto()
    FRAGMENT = auto()
    PAGE = auto()


def form_of(text: str) -> Form:
    """What the text is.

    PAGE      it begins as a document of HTML or XHTML does, or its record calls it so and it holds a tag
    FRAGMENT  it begins with an element that HTML has within a body, and ends such an element somewhere
    TEXT      anything else, and all that its record calls plain

    >>> form_of("<p>The ferry leaves at nine.</p>"), form_of("<rss version='2.0'></rss>"), form_of("if a <b> c")
    (<Form.FRAGMENT: 2>, <Form.TEXT: 1>, <Form.TEXT: 1>)
    """
    if "<" not in text or isinstance(text, (PlainText, CalledPlain)):
        return Form.TEXT
    if isinstance(text, CalledHtml):
        return Form.PAGE if _TAG.search(text) else Form.TEXT
    if _PAGE.match(text):
        return Form.PAGE
    if (begin := _FRAGMENT.match(text)) and re.search(rf"</{begin['name']}[\s>]", text, re.IGNORECASE):
        return Form.FRAGMENT
    return Form.TEXT
