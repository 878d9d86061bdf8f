"""Bodies as HTTP had them before their content codings. The only importer of brotli.

Crawlers store what came, what they decoded under the original headers, and what servers label wrongly. So its first
bytes count before its labels: gzip and Zstandard are decoded in any case, and what is readable stays as it is.

A body is decoded up to BYTES_MAX, and through at most CODINGS_MAX codings. Several gzip members or Zstandard frames are one body.
"""

import re
import zlib
from collections.abc import Callable

import zstandard

CODINGS_MAX = 4
"""Most codings: each takes time for the whole body."""

_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_CUT = "is cut short"
_STEP_BYTES = 512  # a few bytes may grow enormously, and what follows a member is copied
_LOOKED_AT = 1024
# Compressed bytes have some of these nearly at once.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_ZEROS = re.compile(rb"\0*+")
_FRAME = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Undecoded(Exception):
    """A body that cannot be decoded. The message says why."""


def body_of(stored: bytes, content_encoding: str, bytes_max: int) -> bytes:
    """The body without its codings. Raises Undecoded.

    >>> from gzip import compress
    >>> body_of(compress(b"one ") + compress(b"page"), "gzip", 100)
    b'one page'
    """
    codings = [
        coding for each in content_encoding.lower().split(",") if (coding := each.strip()) not in ("", "identity")
    ]
    if len(codings) > CODINGS_MAX:
        raise Undecoded(f"the content has {len(codings)} codings, and at most {CODINGS_MAX} are read")
    body = stored
    for coding in reversed(codings):
        # Named, or coded by something else than its name says.
        sent = _coding_of(body)
        body = _decoded(body, coding if sent is None or coding == f"x-{sent}" else sent, bytes_max)
    # Not named at all: a compressed file under the type that its content has.
    for _ in range(CODINGS_MAX - len(codings)):
        sent = _coding_of(body)
        if sent is None:
            break
        body = _decoded(body, sent, bytes_max)
    if (sent := _coding_of(body)) is not None:
        raise Undecoded(f"the content is compressed by {sent} more than {CODINGS_MAX} times")
    return body


def _coding_of(body: bytes) -> str | None:
    return "gzip" if body.startswith(_GZIP) else "zstd" if body.startswith(_ZSTD) else None


def _decoded(body: bytes, coding: str, bytes_max: int) -> bytes:
    if body.lstrip()[:1] == b"<" or not body:
        return body
    if coding not in _DECODERS:
        why = f"the content coding {coding[:40]} is not read"
    else:
        try:
            return _DECODERS[coding](body, bytes_max)
        except (zlib.error, zstandard.ZstdError):
            why = f"the content, coded by {coding}, is damaged"
        except Undecoded as error:
            why = f"the content, coded by {coding}, {error}"
    if _is_readable(body):
        return body
    raise Undecoded(why)


def _is_readable(body: bytes) -> bool:
    return body.startswith(_WIDE_MARKS) or _NO_TEXT.search(body, 0, _LOOKED_AT) is None


def _gunzipped(body: bytes, bytes_max: int) -> bytes:
    content, begin = bytearray(), 0
    while True:
        begin = _inflate(body, begin, 31, content, bytes_max)
        begin = _ZEROS.match(body, begin).end()  # type: ignore[union-attr]
        if not body.startswith(_GZIP, begin):
            # As gzip does, what is no member after one is left out.
            return bytes(content)


def _deflated(body: bytes, bytes_max: int) -> bytes:
    """Inflate zlib, or raw deflate as some servers send it."""
    content = bytearray()
    has_header = body[:1] == b"\x78" and int.from_bytes(body[:2]) % 31 == 0
    _inflate(body, 0, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS, content, bytes_max)
    return bytes(content)


def _inflate(body: bytes, begin: int, window_bits: int, content: bytearray, bytes_max: int) -> int:
    """Append what one member holds. Returns the member's end."""
    inflater, step = zlib.decompressobj(window_bits), _STEP_BYTES
    while not inflater.eof:
        piece = body[begin : begin + step]
        if not piece:
            raise Undecoded(_CUT)
        content += inflater.decompress(piece, bytes_max + 1 - len(content))
        _require_bounded(content, bytes_max)
        begin += len(piece) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
        step = 2 * step
    return begin


def _unbrotlied(body: bytes, bytes_max: int) -> bytes:
    import brotli

    decompressor = brotli.Decompressor()
    try:
        content: bytes = decompressor.process(body, output_buffer_limit=bytes_max + 1)
    except brotli.error as error:
        raise Undecoded("is damaged") from error
    _require_bounded(content, bytes_max)
    if not decompressor.is_finished():
        raise Undecoded(_CUT)
    return content


def _of_zstd(body: bytes, bytes_max: int) -> bytes:
    content, begin, frames = bytearray(), 0, zstandard.ZstdDecompressor()
    while not begin or _FRAME.match(body, begin):
        frame, step = frames.decompressobj(), _STEP_BYTES
        while not frame.eof:
            piece = body[begin : begin + step]
            if not piece:
                raise Undecoded(_CUT)
            content += frame.decompress(piece)
            _require_bounded(content, bytes_max)
            begin += len(piece) - len(frame.unused_data)
            step = min(2 * step, 2 * _STEP_BYTES)
    return bytes(content)


def _require_bounded(content: bytes | bytearray, bytes_max: int) -> None:
    if len(content) > bytes_max:
        raise Undecoded(f"is longer than {bytes_max} bytes")


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzipped,
    "x-gzip": _gunzipped,
    "deflate": _deflated,
    "br": _unbrotlied,
    "zstd": _of_zstd,
}
