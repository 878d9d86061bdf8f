"""WARC and WET records as JSON lines. The only importer of warcio and w3lib.

    WARC bytes ──► record by record ──► {"id": ..., "url": ..., "time": ..., "type": "response", ..., "text": ...}

A line depends on its record alone, so positions and digests hold as for any file. Its members, in this order, if present:

    id            WARC-Record-ID, unchanged
    url           WARC-Target-URI
    time          WARC-Date
    type          WARC-Type: response, resource or conversion
    refers_to     WARC-Refers-To: the response that was converted
    content_type  of the page, by HTTP or by the record
    truncated     WARC-Truncated: why the crawler stored only a part
    text          the page as sent, without HTTP codings, in Unicode
    no_text       in place of `text`: why it is unreadable. The line becomes a dead letter

Records without a page (requests, redirects, pictures) are only counted, by kind. WAT has no texts, and is refused.

Framing (headers, length, block) happens here, because warcio pulls from a file, and a pipe must not block. warcio
parses chunks and headers; w3lib detects the charset, as Scrapy does.

Records up to RECORD_BYTES_MAX stay whole in memory. Of longer ones only the headers are read.
"""

import importlib.util
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import orjson
import zstandard

BEGIN = b"WARC/"
"""First bytes of WARC, WET and WAT records."""

RECORD_BYTES_MAX = 64 * 2**20
"""Longest record whose text is read, both as stored and as decoded."""

_HEADERS_BYTES_MAX = 64 * 2**10
_LOOK_BYTES = 64 * 2**10  # enough for the HTTP headers of a record that is too long
_ZSTD_STEP_BYTES = 1024
_KINDS_MAX = 100
_OTHER_KINDS = "of other kinds"
_OF_NO_TYPE = "of no type"
_BETWEEN = re.compile(rb"[\r\n]*")
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_OF_PAGES = ("http:", "https:", "ftp:", "file:")
_PAGES = {"text/html", "application/xhtml+xml", "text/plain"}
_WAT = b'"Envelope"'


class Unreadable(Exception):
    """No WARC from here on, or WARC without documents. The message says which, and the remedy."""


class _LeftOut(Exception):
    """A record without a page. The message is its kind."""


class WarcLines:
    """Cutter of WARC blocks into JSON lines. `left_out` counts records without a line, by kind.

    >>> list(WarcLines().cut(b"WARC/1.0\\r\\nWARC-Type: warcinfo\\r\\nContent-Length: 0\\r\\n\\r\\n"))
    []
    """

    def __init__(self) -> None:
        """Raises Unreadable without the extra."""
        if not all(map(importlib.util.find_spec, ("warcio", "w3lib", "brotli"))):
            raise Unreadable(
                'this is WARC, which needs packages of the extra `warc`: pip install "neardup-streamer[warc]"'
            )
        from warcio.recordloader import ArcWarcRecordLoader

        self.left_out: Counter[str] = Counter()
        # Tolerates status lines such as HTTP/2, which some crawlers write.
        self._loader = ArcWarcRecordLoader(verify_http=False)
        self._held = bytearray()
        self._to_skip_bytes = 0
        self._records = 0

    def cut(self, plain: bytes) -> Iterator[bytes]:
        """Lines of the records that end in `plain`. Raises Unreadable after the last intact record."""
        self._held += plain
        at = 0
        try:
            while True:
                skipped = min(self._to_skip_bytes, len(self._held) - at)
                self._to_skip_bytes -= skipped
                at += skipped
                between = _BETWEEN.match(self._held, at)
                if not self._to_skip_bytes and between is not None:
                    # At once: a file may hold gigabytes of line breaks between records.
                    at = between.end()
                end = None if self._to_skip_bytes else self._end_of_record(at)
                if end is None:
                    return
                record = bytes(memoryview(self._held)[at:end])
                at = end
                self._records += 1
                try:
                    yield self._line(record, is_whole=not self._to_skip_bytes)
                except _LeftOut as left_out:
                    self._count(str(left_out))
        finally:
            del self._held[:at]

    @property
    def is_between_records(self) -> bool:
        """Whether no record is under way."""
        return not self._to_skip_bytes and not self._held.strip(b"\r\n")

    def finish(self) -> None:
        """End the input. Raises Unreadable within a record."""
        if not self.is_between_records:
            raise Unreadable(f"the file ends within WARC record {self._records + 1}: it is truncated")

    def _end_of_record(self, begin: int) -> int | None:
        """End offset of the needed part; None if more bytes must come first."""
        held = self._held
        if not held.startswith(BEGIN, begin):
            if BEGIN.startswith(bytes(held[begin : begin + len(BEGIN)])):
                return None
            raise Unreadable(f"where WARC record {self._records + 1} should begin there is something else")
        headers = _HEADERS_END.search(held, begin, begin + _HEADERS_BYTES_MAX)
        if headers is None:
            if len(held) - begin >= _HEADERS_BYTES_MAX:
                raise Unreadable(f"the headers of WARC record {self._records + 1} do not end")
            return None
        length = _LENGTH.search(held, begin, headers.end())
        if length is None:
            raise Unreadable(f"WARC record {self._records + 1} does not say its length")
        block_bytes = int(length[1])
        looked_at = block_bytes if block_bytes <= RECORD_BYTES_MAX else _LOOK_BYTES
        if len(held) < headers.end() + looked_at:
            return None
        self._to_skip_bytes = block_bytes - looked_at
        return headers.end() + looked_at

    def _line(self, record: bytes, *, is_whole: bool) -> bytes:
        """Line of a record. Raises _LeftOut without a page, and Unreadable for WAT."""
        parsed = self._loader.parse_record_stream(
            BytesIO(record.lstrip(b"\r\n")), known_format="warc", no_record_parse=True
        )
        kind, headers = (parsed.rec_type or "without a type")[:40], parsed.rec_headers
        if kind == "metadata" and _mime(parsed.content_type) == "application/json" and _WAT in record[:_LOOK_BYTES]:
            raise Unreadable(
                "this is WAT, which holds what is known of pages and none of their texts: read its WARC or WET"
            )
        if kind not in ("response", "resource", "conversion"):
            raise _LeftOut(kind)
        url = (headers.get_header("WARC-Target-URI") or "").strip("<>")
        if kind == "resource" and not url.startswith(_OF_PAGES):
            # Crawlers' own notes, such as metadata://gnu.org/software/wget/warc/wget.log.
            raise _LeftOut(f"resource, {url.partition(':')[0][:20]}:")
        http = None
        if kind == "response":
            if _mime(parsed.content_type) != "application/http":
                raise _LeftOut(f"response, {_mime(parsed.content_type)}")
            if not _has_bounded_headers(record):
                raise _LeftOut(f"response, HTTP headers of more than {_HEADERS_BYTES_MAX} bytes")
            try:
                http = self._loader.http_parser.parse(parsed.raw_stream)
            except EOFError:
                raise _LeftOut("response, empty") from None
            if http.get_statuscode() != "200":
                raise _LeftOut(f"response, status {http.get_statuscode()[:3]}")
        content_type = http.get_header("content-type") if http else parsed.content_type
        mime = _mime(content_type)
        if mime not in _PAGES and mime != _OF_NO_TYPE:
            raise _LeftOut(f"{kind}, {mime}")
        too_long = f"the record is longer than {RECORD_BYTES_MAX} bytes"
        body, no_text = _body(parsed.raw_stream, http) if is_whole else (b"", too_long)
        if mime == _OF_NO_TYPE and body.lstrip()[:1] != b"<":
            raise _LeftOut(f"{kind}, {mime}")
        line = {
            "id": headers.get_header("WARC-Record-ID"),
            "url": url,
            "time": headers.get_header("WARC-Date"),
            "type": kind,
            "refers_to": headers.get_header("WARC-Refers-To"),
            "content_type": content_type,
            "truncated": headers.get_header("WARC-Truncated"),
        }
        members = {name: value for name, value in line.items() if value}
        text = None if no_text else _unicode(content_type, body)
        return orjson.dumps(members | ({"no_text": no_text} if text is None else {"text": text}))

    def _count(self, kind: str) -> None:
        known = kind in self.left_out or len(self.left_out) < _KINDS_MAX
        self.left_out[kind if known else _OTHER_KINDS] += 1


def _has_bounded_headers(record: bytes) -> bool:
    """Whether the HTTP headers end in time: parsed, they take fifty times their length."""
    block = _HEADERS_END.search(record)
    begin = 0 if block is None else block.end()
    end = begin + _HEADERS_BYTES_MAX
    return len(record) <= end or _HEADERS_END.search(record, begin, end) is not None


def _mime(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()[:60] or _OF_NO_TYPE


def _body(stream: Any, http: Any) -> tuple[bytes, str | None]:
    """Decoded body, and why it is unreadable, or None.

    Some crawlers store decoded pages under the original headers, so a body that begins as a page stays
    as it is.
    """
    if http is None:
        return stream.read(), None
    import brotli
    from warcio.bufferedreaders import ChunkedDataReader

    if "chunked" in (http.get_header("transfer-encoding") or "").lower():
        stream = ChunkedDataReader(stream)
    body: bytes = stream.read()
    codings = [each.strip() for each in (http.get_header("content-encoding") or "").lower().split(",")]
    for coding in reversed(codings):
        if coding in ("", "identity") or body.lstrip()[:1] == b"<":
            continue
        if coding not in _DECODERS:
            return b"", f"the content coding {coding[:40]} is not read"
        try:
            body = _DECODERS[coding](body)
        except (zlib.error, zstandard.ZstdError, brotli.error):
            return b"", f"the content, coded by {coding}, is damaged"
        except _Incomplete as error:
            return b"", f"the content, coded by {coding}, {error}"
    return body, None


class _Incomplete(Exception):
    """A decoded page that is too long, or cut short. The message becomes `no_text`."""


def _inflated(body: bytes, window_bits: int) -> bytes:
    decompressor = zlib.decompressobj(window_bits)
    content = decompressor.decompress(body, RECORD_BYTES_MAX)
    _require_whole(is_whole=decompressor.eof, is_bounded=not decompressor.unconsumed_tail)
    return content


def _of_deflate(body: bytes) -> bytes:
    """Inflate zlib, or raw deflate as some servers send it."""
    has_header = body[:1] == b"\x78" and int.from_bytes(body[:2]) % 31 == 0
    return _inflated(body, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _of_brotli(body: bytes) -> bytes:
    import brotli

    decompressor = brotli.Decompressor()
    content: bytes = decompressor.process(body, output_buffer_limit=RECORD_BYTES_MAX)
    _require_whole(is_whole=decompressor.is_finished(), is_bounded=len(content) < RECORD_BYTES_MAX)
    return content


def _of_zstd(body: bytes) -> bytes:
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    content = bytearray()
    # In steps: a few bytes may expand enormously.
    for at in range(0, len(body), _ZSTD_STEP_BYTES):
        if decompressor.eof or len(content) > RECORD_BYTES_MAX:
            break
        content += decompressor.decompress(body[at : at + _ZSTD_STEP_BYTES])
    _require_whole(is_whole=decompressor.eof, is_bounded=len(content) <= RECORD_BYTES_MAX)
    return bytes(content)


def _require_whole(*, is_whole: bool, is_bounded: bool) -> None:
    if not is_bounded:
        raise _Incomplete(f"is longer than {RECORD_BYTES_MAX} bytes")
    if not is_whole:
        raise _Incomplete("is cut short")


_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: _inflated(body, zlib.MAX_WBITS | 16),
    "x-gzip": lambda body: _inflated(body, zlib.MAX_WBITS | 16),
    "deflate": _of_deflate,
    "br": _of_brotli,
    "zstd": _of_zstd,
}


def _unicode(content_type: str | None, body: bytes) -> str:
    """Page text: by byte order mark, HTTP, own declaration, else UTF-8 or the browsers' fallback."""
    from w3lib.encoding import html_to_unicode

    _, text = html_to_unicode(content_type, body, auto_detect_fun=_charset)
    return str(text)


def _charset(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
