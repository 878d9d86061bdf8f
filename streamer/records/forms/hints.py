"""What a value is that no setting reads, or that another setting would read: hints for people, by its bytes."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from streamer.records.schemas import MAGIC, PREFIX_BYTES, schema_of

_FORMS = {
    b"WARC/": "this is WARC: `streamer topics produce` sends the pages of such files, for decode.preset = warc",
    b"PAR1": "this is Parquet: `streamer topics produce` sends the rows of such files",
    b"Obj\x01": "this is an Avro file: decode.format = avro reads records with the schema of a registry",
    b"\x1f\x8b": "this is compressed by gzip: send it decompressed",
    b"\x28\xb5\x2f\xfd": "this is compressed by Zstandard: send it decompressed",
    b"<": "this is a page or XML: decode.format = text reads it",
}
_WIDE = "this is {0}: convert it to UTF-8, as by `iconv -f {0} -t UTF-8`"

_LOOK_BYTES = 4_096
"""Enough to know a value's charset."""
_SCHEMAS_MAX = 2**28
"""Registries count their schemas from 1 or 100,001. A larger number is text in UTF-16."""
_LIKELY_SHARE = 0.5

_ODD_NUMBER = re.compile(rb"[:\[,]\s*[+-]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


def name_of(value: bytes) -> str | None:
    """What a value is by its first bytes, if no setting decodes it, and what to do.

    >>> name_of("{}".encode("utf-16"))
    'this is UTF-16: convert it to UTF-8, as by `iconv -f UTF-16 -t UTF-8`'
    """
    if (wide := _wide_charset(value)) is not None:
        return _WIDE.format(wide)
    zeros = len(value) - len(value.strip(b"\0"))
    if zeros == len(value) > 0 or zeros >= PREFIX_BYTES:
        return f"this is damaged, with {zeros:,} zero bytes at an end, as a crash leaves them in a file: cut them off"
    if value.startswith(MAGIC) and len(value) > PREFIX_BYTES and 0 < schema_of(value) < _SCHEMAS_MAX:
        return "this looks like the wire format of a schema registry: set decode.format"
    return next((words for begin, words in _FORMS.items() if value.startswith(begin)), None)


def charset_hint(value: bytes) -> str:
    """A hint for bytes that are no UTF-8 but a text in a charset of East Asia; else empty.

    >>> charset_hint("渔民们把网撒向海面".encode("gbk"))
    '; it reads as Chinese in decode.charset = gb18030'
    """
    for charset, language, share in _CHARSETS:
        letters = _letters(value, charset)
        if letters and share(letters) >= _LIKELY_SHARE:
            return f"; it reads as {language} in decode.charset = {charset}"
    return ""


def odd_number(value: bytes) -> str:
    """A hint for JSON with NaN or infinity in a spelling that is not read; else empty."""
    if _ODD_NUMBER.search(value) is None:
        return ""
    return "; of numbers that JSON does not have, NaN, Infinity and -Infinity are read, as null"


def _wide_charset(value: bytes) -> str | None:
    """UTF-16 or UTF-32, by its mark or by zero bytes at every second or fourth place. A line may begin with half a line feed."""
    head = value[:_LOOK_BYTES]
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    zeros = [head[place::4].count(0) * 4 / len(head) for place in range(4)] if len(head) >= 4 else []
    often = [place for place, share in enumerate(zeros) if share > _LIKELY_SHARE]
    if len(often) == 3:
        return "UTF-32"
    return "UTF-16" if often in ([0, 2], [1, 3]) else None


def _letters(value: bytes, charset: str) -> str:
    """What is no ASCII; empty if the value, but for a letter that its end cuts off, is not in the charset."""
    head = value[:_LOOK_BYTES]
    for cut in range(4 if len(value) > _LOOK_BYTES else 1):
        with suppress(UnicodeDecodeError):
            return "".join(letter for letter in head[: len(head) - cut].decode(charset) if letter >= "\x80")
    return ""


def _kana(letters: str) -> float:
    """Japanese is half kana. Chinese has none, and read as Shift_JIS only the narrow ones."""
    return 2.5 * sum("\u3041" <= letter <= "\u30fa" for letter in letters) / len(letters)


def _hangul(letters: str) -> float:
    """Chinese read as EUC-KR is half hanja."""
    return sum("\uac00" <= letter <= "\ud7a3" for letter in letters) / len(letters) - 0.3


def _frequent(charset: str, first: int, last: int) -> Callable[[str], float]:
    """Share that the charset's rows for frequent ideographs have."""

    def rows(letters: str) -> Iterator[int]:
        for letter in letters:
            if "\u4e00" <= letter <= "\u9fff":
                with suppress(UnicodeEncodeError):
                    yield letter.encode(charset)[0]

    return lambda letters: sum(first <= row <= last for row in rows(letters)) / len(letters)


_CHARSETS: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("euc_jp", "Japanese", _kana),
    ("shift_jis", "Japanese", _kana),
    ("cp932", "Japanese", _kana),
    ("euc_kr", "Korean", _hangul),
    ("cp949", "Korean", _hangul),
    ("gb18030", "Chinese", _frequent("gb2312", 0xB0, 0xD7)),
    ("big5", "Chinese", _frequent("big5", 0xA4, 0xC6)),
)
"""The first that is likely enough counts."""
