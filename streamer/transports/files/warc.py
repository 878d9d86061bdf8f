"""WARC and WET records as JSON lines. The only importer of warcio.

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

Where bytes are no record, a line has one member, `unreadable`: the place, and why. Reading goes on at the next line that
begins a record. A record with a wrong length is no record; one that the input's end cuts off ends the lines.

Records without a page (requests, redirects, pictures) are only counted, by kind. WAT has no texts, and is refused.

Framing (headers, length, block) happens here, because warcio pulls from a file, and a pipe must not block. warcio
parses chunks and headers.

Records up to RECORD_BYTES_MAX stay whole in memory. Of longer ones only the headers are read.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import orjson

from streamer.packages import lack_of
from streamer.records.charsets import NoCharset, page_text
from streamer.transports.files.http_body import Undecoded, body_of

BEGIN = b"WARC/"
"""First bytes of WARC, WET and WAT records."""

UNREADABLE = "unreadable"
"""Only member in a line that stands for damage: the place, and why."""

BEGIN_OF_DAMAGE = b'{"unreadable":'
"""First bytes of such a line."""

RECORD_BYTES_MAX = 64 * 2**20
"""Longest record whose text is read, both as stored and as decoded."""

_HEADERS_BYTES_MAX = 64 * 2**10
_LOOK_BYTES = 64 * 2**10  # enough for the HTTP headers of a record that is too long
_KINDS_MAX = 100
_OTHER_KINDS = "of other kinds"
_OF_NO_TYPE = "of no type"
_BETWEEN = re.compile(rb"[\r\n]*+")
_AFTER = b"\r\n\r\n"
_NEXT = b"WARC/1."
_BEGINS_RECORD = re.compile(rb"WARC/1\.[0-9]\r?\n[Ww][Aa][Rr][Cc]-")
_HEAD = re.compile(rb"WARC/1\.[0-9]\r?\n(?:[!-9;-~]++[ \t]*+:[^\n]*+\n|[ \t]++[^\s][^\n]*+\n)*+")
_EMPTY_LINE = re.compile(rb"\r?\n")
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_OF_PAGES = ("http:", "https:", "ftp:", "file:")
PLAIN = "text/plain"
_PAGES = {"text/html", "application/xhtml+xml", PLAIN}
_AROUND_MIME = " \t\r\n\"',;"
_MIME_END = re.compile(r"[;,\s\"']|:(?!//)")
_WAT = b'"Envelope"'


class Unreadable(Exception):
    """No WARC from here on, or WARC without documents. The message says which, and the remedy."""


class _LeftOut(Exception):
    """A record without a page. The message is its kind."""


class _Damaged(Exception):
    """Bytes that are no record. The message says why."""


class WarcLines:
    """Cutter of WARC blocks into JSON lines. `left_out` counts records without a line, by kind.

    >>> list(WarcLines().cut(b"WARC/1.0\\r\\nWARC-Type: warcinfo\\r\\nContent-Length: 0\\r\\n\\r\\n"))
    []
    """

    def __init__(self, *, name: str = "", strict: bool = False) -> None:
        """
        name    of the file, for lines in place of damaged records
        strict  raise Unreadable at damage

        Raises Unreadable without its packages.
        """
        if lack := lack_of("warc"):
            raise Unreadable(f"this is WARC, which needs {lack}")
        from warcio.recordloader import ArcWarcRecordLoader

        # It logs every odd header whole.
        logging.getLogger("warcio").setLevel(logging.CRITICAL)
        self.left_out: Counter[str] = Counter()
        self.damages = 0
        """Damaged places that have a line."""
        # Tolerates status lines such as HTTP/2, which some crawlers write.
        self._loader = ArcWarcRecordLoader(verify_http=False)
        self._name, self._strict = name, strict
        self._held = bytearray()
        self._begin = 0
        """Plain bytes before the held ones."""
        self._to_skip_bytes = 0
        self._records = 0
        self._is_lost = False
        """Whether damage came, and no record since."""
        self._at_frame = False
        """Whether the next bytes begin a compressed frame."""

    def cut(self, plain: bytes, *, frame_ends: bool = False) -> Iterator[bytes]:
        """Lines of the records that end in `plain`, and of damage.

        frame_ends  whether a compressed frame ends with these bytes

        Raises Unreadable for WAT, and if strict at damage.
        """
        if self._to_skip_bytes and self._at_frame and _BEGINS_RECORD.match(plain):
            # The length reaches beyond its frame: each record has one.
            self._to_skip_bytes = 0
            if self._strict:
                raise Unreadable(f"WARC record {self._records} says a wrong length")
        self._at_frame = frame_ends
        self._held += plain
        yield from self._cut(is_complete=frame_ends, is_last=False)

    def broken(self, why: str) -> bytes | None:
        """Drop the record under way, since the bytes that follow are lost. Returns the line that stands for it."""
        self._begin += len(self._held)
        self._held.clear()
        self._to_skip_bytes = 0
        return self._damage(0, why)

    def finish(self) -> Iterator[bytes]:
        """End the input: its last lines. Raises Unreadable within a record."""
        yield from self._cut(is_complete=True, is_last=True)
        if not self.is_between_records and not self._is_lost:
            raise Unreadable(f"the file ends within WARC record {self._records + 1}: it is truncated")

    @property
    def is_between_records(self) -> bool:
        """Whether no record is under way."""
        return not self._to_skip_bytes and not self._held.strip(b"\r\n")

    def _cut(self, *, is_complete: bool, is_last: bool) -> Iterator[bytes]:
        """
        is_complete  whether a record may end here without line breaks after it
        is_last      whether no bytes follow
        """
        at = 0
        try:
            while True:
                skipped = min(self._to_skip_bytes, len(self._held) - at)
                self._to_skip_bytes -= skipped
                at += skipped
                if self._to_skip_bytes:
                    return
                if self._is_lost:
                    at, is_found = self._next_record(at, is_last=is_last)
                    if not is_found:
                        return
                # At once: a file may hold gigabytes of line breaks between records.
                at = _BETWEEN.match(self._held, at).end()  # type: ignore[union-attr]
                try:
                    end = self._end_of_record(at, is_complete=is_complete)
                    if end is None:
                        if not is_last or not self._holds_another(at):
                            return
                        raise _Damaged("its length reaches beyond the end of the file")
                    line = self._line_or_count(bytes(memoryview(self._held)[at:end]))
                    at, self._records, self._is_lost = end, self._records + 1, False
                except _Damaged as damage:
                    line = self._damage(at, str(damage))
                    at += 1
                if line is not None:
                    yield line
        finally:
            del self._held[:at]
            self._begin += at

    def _damage(self, at: int, why: str) -> bytes | None:
        """The line that stands for damage; None if one does already. Raises Unreadable if strict."""
        if self._strict:
            raise Unreadable(f"WARC record {self._records + 1}: {why}")
        if self._is_lost:
            return None
        self._is_lost = True
        self.damages += 1
        self._records += 1
        place = f"WARC record {self._records}, at byte {self._begin + at:,} of what {self._name} holds"
        return orjson.dumps({UNREADABLE: f"{place}: {why}"})

    def _end_of_record(self, begin: int, *, is_complete: bool) -> int | None:
        """End offset of the needed part; None if more bytes must come first. Raises _Damaged."""
        held = self._held
        if not held.startswith(BEGIN, begin):
            if BEGIN.startswith(bytes(held[begin : begin + len(BEGIN)])):
                return None
            raise _Damaged("something else than a record begins here")
        headers = _HEADERS_END.search(held, begin, begin + _HEADERS_BYTES_MAX)
        if headers is None:
            if len(held) - begin >= _HEADERS_BYTES_MAX:
                raise _Damaged("its headers do not end")
            return None
        length = _LENGTH.search(held, begin, headers.end())
        if length is None:
            raise _Damaged("it does not say its length")
        if _BEGINS_RECORD.search(held, begin + 1, headers.end()):
            raise _Damaged("another record begins within its headers")
        block_bytes = int(length[1])
        if block_bytes > RECORD_BYTES_MAX:
            if len(held) < headers.end() + _LOOK_BYTES:
                return None
            self._to_skip_bytes = block_bytes - _LOOK_BYTES
            return headers.end() + _LOOK_BYTES
        end = headers.end() + block_bytes
        if len(held) < end:
            return None
        if held.startswith(_AFTER, end):
            return end
        after = _BETWEEN.match(held, end).end()  # type: ignore[union-attr]
        if held.startswith(BEGIN, after):
            return end
        if BEGIN.startswith(bytes(held[after : after + len(BEGIN)])):
            return end if is_complete and after == len(held) else None
        raise _Damaged(f"it does not end after the {block_bytes} bytes that it says")

    def _holds_another(self, at: int) -> bool:
        _, is_found = self._next_record(at + 1, is_last=True)
        return is_found

    def _next_record(self, at: int, *, is_last: bool) -> tuple[int, bool]:
        """Begin of the next headers with a length, and True; else how far to drop what is held, and False."""
        held = self._held
        while (begin := held.find(_NEXT, at)) >= 0:
            head = _HEAD.match(held, begin, begin + _HEADERS_BYTES_MAX)
            if head is not None and _EMPTY_LINE.match(held, head.end()) and _LENGTH.search(held, begin, head.end()):
                return begin, True
            looked_at = begin if head is None else head.end()
            if not is_last and len(held) - begin < _HEADERS_BYTES_MAX and held.find(b"\n", looked_at) < 0:
                return begin, False
            at = begin + 1
        return max(at, len(held) - len(_NEXT)), False

    def _line_or_count(self, record: bytes) -> bytes | None:
        """A record's line; None if it has no page, and is counted. Raises _Damaged, and Unreadable for WAT."""
        from warcio.exceptions import ArchiveLoadFailed
        from warcio.statusandheaders import StatusAndHeadersParserException

        try:
            return self._line(record, is_whole=not self._to_skip_bytes)
        except _LeftOut as left_out:
            self._count(str(left_out))
            return None
        except (ArchiveLoadFailed, StatusAndHeadersParserException, EOFError, ValueError) as error:
            raise _Damaged(f"its headers cannot be read ({str(error)[:100]})") from error

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
        text = None
        if no_text is None:
            try:
                text = page_text(body, content_type, is_markup=mime != PLAIN)
            except NoCharset as charset:
                no_text = f"the charset is one that browsers refuse ({charset})"
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
    """The type, also if headers were joined or a parameter follows without a semicolon."""
    return _MIME_END.split((content_type or "").strip(_AROUND_MIME), 1)[0].lower()[:60] or _OF_NO_TYPE


def _body(stream: Any, http: Any) -> tuple[bytes, str | None]:
    """Decoded body, and why it is unreadable, or None."""
    if http is None:
        return stream.read(), None
    from warcio.bufferedreaders import ChunkedDataReader

    if "chunked" in (http.get_header("transfer-encoding") or "").lower():
        stream = ChunkedDataReader(stream)
    try:
        return body_of(stream.read(), http.get_header("content-encoding") or "", RECORD_BYTES_MAX), None
    except Undecoded as error:
        return b"", str(error)
