"""Pages and records in Unicode, by the labels in the Encoding Standard. The only importer of webencodings and chardetng.

https://encoding.spec.whatwg.org names every charset that browsers read. No other label is one: not Python's codecs, and
neither UTF-7 nor UTF-32. Firefox has the same detector.
"""

import codecs
import re

import webencodings

# Other constants give other texts, and so other lines.
_DECLARED_BYTES = 4096
_SAMPLE_BYTES = 16 * 2**10
_WRONG_SHARE_MAX = 0.02

_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xfe\xff": "utf-16be", b"\xff\xfe": "utf-16le"}
_UNSAID = "windows-1252"
"""What servers and templates say without being asked, under its labels iso-8859-1 and us-ascii."""

SCRIPTS = {
    **dict.fromkeys(("gbk", "gb18030", "big5"), "Chinese"),
    **dict.fromkeys(("euc-jp", "iso-2022-jp", "shift_jis"), "Japanese"),
    "euc-kr": "Korean",
    **dict.fromkeys(("windows-1251", "koi8-r", "koi8-u", "ibm866", "iso-8859-5", "x-mac-cyrillic"), "Cyrillic"),
    **dict.fromkeys(("windows-1253", "iso-8859-7"), "Greek"),
    **dict.fromkeys(("windows-1255", "iso-8859-8", "iso-8859-8-i"), "Hebrew"),
    **dict.fromkeys(("windows-1256", "iso-8859-6"), "Arabic"),
    "windows-874": "Thai",
}
"""Script by charset, other than the Latin one."""

_BY_HTTP = re.compile(r"(?:^|;)\s*+charset\s*+=\s*+[\"']?\s*+([^\s;,\"']++)", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!charset=)\"[^\"]*+(?:\"|\Z)", re.IGNORECASE)
_VALUE = rb"\s*+=\s*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\s>\"'][^\s>]*+))"
# Each alternative matches as far as it looks, so that a search takes linear time.
_TOKEN = re.compile(
    rb"<!--(?:-?>|.*?(?:-->|\Z))|<meta(?=[\s/])(?P<meta>(?:[^>\"'=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?|[\"'])*+)"
    rb"|<(?P<body>body)(?=[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(rb"([^\s/>=\"']++)(?:" + _VALUE + rb")?+", re.DOTALL)
_IN_CONTENT = re.compile(rb"charset\s*+=\s*+[\"']?\s*+([^\s;\"']++)", re.IGNORECASE)
_XML = re.compile(rb"\s*+<\?xml\s[^>]*?encoding" + _VALUE, re.IGNORECASE)


class NoCharset(Exception):
    """A page in a charset that browsers refuse. The message is its label."""


def page_text(body: bytes, content_type: str | None, *, is_markup: bool) -> str:
    """A page in Unicode.

    Its charset is the first that there is: a byte order mark, HTTP, the page's own declaration, UTF-8 if the page can be read
    so, the detector's guess. A declared Windows-1252 (ISO-8859-1) is weak: UTF-8, and other scripts, are found nevertheless. A
    declaration after _DECLARED_BYTES, or against such a weak one, counts if the page can be read by it.

    is_markup  whether the page may declare its charset itself

    Raises NoCharset.

    >>> page_text("Żółw".encode("iso-8859-2"), "text/plain; charset=l2", is_markup=False)
    'Żółw'
    """
    for mark, name in _MARKS.items():
        if body.startswith(mark):
            return decoded(body[len(mark) :], name)
    label = _label_by_http(content_type or "")
    by_http = name_of(label)
    if by_http == "replacement":
        raise NoCharset(label)
    if by_http not in (None, _UNSAID):
        return decoded(body, str(by_http))
    own, place = _declared(body) if is_markup else (None, 0)
    if own not in (None, _UNSAID) and by_http is None and place < _DECLARED_BYTES:
        return decoded(body, str(own))
    # UTF-8 and ASCII without letters of ISO-2022-JP is by far the usual case.
    readings = ["utf-8"] if b"\x1b$" not in body else []
    readings += [own] if own not in (None, _UNSAID) else []
    for name in readings:
        text = decoded(body, name)
        if _reads_well(text):
            return text
    guess = guessed(body)
    weak = _UNSAID in (by_http, own)
    return decoded(body, _UNSAID if weak and guess not in SCRIPTS else guess)


def name_of(label: str) -> str | None:
    """The charset that a label names, by its name in the Encoding Standard.

    >>> name_of("x-sjis"), name_of(" ASCII "), name_of("zlib"), name_of("utf-7")
    ('shift_jis', 'windows-1252', None, None)
    """
    encoding = webencodings.lookup(label)
    return None if encoding is None else str(encoding.name)


def guessed(content: bytes) -> str:
    """The likely charset, if it is not UTF-8, by the detector. Reads _SAMPLE_BYTES from the first byte beyond ASCII on.

    >>> guessed("渔民们每天清晨出海".encode("gbk"))
    'gb18030'
    """
    from chardetng_py import EncodingDetector

    beyond = re.search(rb"[\x80-\xff\x1b]", content)
    begin = max(0, beyond.start() - 64) if beyond else 0
    detector = EncodingDetector()
    detector.feed(content[begin : begin + _SAMPLE_BYTES], last=len(content) <= begin + _SAMPLE_BYTES)
    return name_of(detector.guess(tld=None, allow_utf8=False)) or _UNSAID


def decoded(content: bytes, name: str) -> str:
    """Bytes as text. U+FFFD stands for what is none. Raises NoCharset."""
    if name == "replacement":
        raise NoCharset("one of its replacement encodings")
    if name in ("gbk", "gb18030"):
        # The Standard reads GBK as GB18030, and a lone byte 80 as the euro sign.
        return content.decode("gb18030", "neardup_gb18030")
    encoding = webencodings.lookup(name)
    return str(encoding.codec_info.decode(content, "replace")[0])


def _gb18030_error(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return ("\u20ac", error.start + 1) if error.object[error.start] == 0x80 else ("\ufffd", error.end)


codecs.register_error("neardup_gb18030", _gb18030_error)


def _reads_well(text: str) -> bool:
    """Whether nearly all that is beyond ASCII was read. A page that is cut within a letter still reads well."""
    wrong = text.count("\ufffd")
    if not wrong:
        return True
    beyond = sum(1 for _ in re.finditer(r"[^\x00-\x7f]", text))
    return wrong <= max(_WRONG_SHARE_MAX * beyond, wrong == 1 and text.endswith("\ufffd") and beyond > 1)


def _label_by_http(content_type: str) -> str:
    match = _BY_HTTP.search(_QUOTED.sub("", content_type))
    return match[1] if match else ""


def _declared(body: bytes) -> tuple[str | None, int]:
    """The charset that a page declares, and its place. UTF-16 and x-user-defined mean what the Standard says."""
    xml = _XML.match(body)
    if xml is not None and (name := _own_name(xml[1] or xml[2] or xml[3] or b"")) is not None:
        return name, 0
    for token in _TOKEN.finditer(body):
        if token["body"] is not None:
            break
        if token["meta"] is not None and (name := _declared_in(token["meta"])) is not None:
            return name, token.start()
    return None, 0


def _declared_in(meta: bytes) -> str | None:
    if b"charset" not in meta.lower():
        return None
    by_content, is_pragma = None, False
    for match in _ATTRIBUTE.finditer(meta):
        attribute, value = match[1].lower(), match[2] or match[3] or match[4] or b""
        if attribute == b"charset":
            return _own_name(value)
        is_pragma |= attribute == b"http-equiv" and value.strip().lower() == b"content-type"
        if attribute == b"content" and by_content is None and (label := _IN_CONTENT.search(value)):
            by_content = label[1]
    return _own_name(by_content) if by_content is not None and is_pragma else None


def _own_name(label: bytes) -> str | None:
    name = name_of(label.decode("latin-1"))
    return {"utf-16be": "utf-8", "utf-16le": "utf-8", "x-user-defined": _UNSAID}.get(name or "", name)
