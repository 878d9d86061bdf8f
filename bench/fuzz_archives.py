"""Archives as a hostile or broken crawler might write them, for `bench.fuzz --of archives`."""

import gzip
import random
import tempfile
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path

import brotli
import orjson
import zstandard

from streamer.errors import InputUnreadable
from streamer.transports.files.line_reader import LineReader

_LABELS = (
    *("utf-8", "gbk", "x-gbk", "big5", "iso-8859-1", "shift_jis", "euc-kr", "utf-16", "x-user-defined", "iso-2022-kr"),
    *(
        "zlib",
        "base64",
        "hex",
        "punycode",
        "idna",
        "undefined",
        "unicode_escape",
        "utf-7",
        "",
        '"',
        "utf-8;",
        "\0",
        "é",
    ),
)
_TYPES = (
    "text/html",
    "text/plain",
    "text/html,text/html",
    "text/html;",
    "image/png",
    "",
    "; charset",
    "application/http",
    "a" * 9_000,
)
_CODINGS = ("gzip", "br", "deflate", "zstd", "identity", "utf-8", "gzip, gzip", ",".join(["gzip"] * 3_000), "", "\xff")
_KINDS = ("response", "resource", "conversion", "request", "metadata", "revisit", "", "response\r\nWARC-Type: resource")
_URLS = ("http://a.example/", "", "<http://b.example>", "\x85")
_LENGTHS = ("-1", "0x10", "1e3", "99999999999999999999", "", " 7 7", "70000000", "9" * 18)
_BYTES = (
    b"\r\n",
    b"\n",
    b"WARC/1.0\r\n",
    b"WARC/1.1\r\nContent-Length: 5\r\n\r\n",
    b"\0",
    b"<meta charset=",
    b"\x1f\x8b\x08",
    b"\xce\xc4",
    b"x",
)
_PACKERS = (
    gzip.compress,
    zlib.compress,
    brotli.compress,
    zstandard.compress,
    lambda body: zlib.compress(body, wbits=-15),
    bytes,
)


def archive(chance: random.Random, size: int) -> bytes:
    """Records with about so many bytes in all, some damaged, perhaps compressed, and perhaps damaged then."""
    records = [_record(chance, size // 4 + 1) for _ in range(chance.randint(1, 6))]
    pack = chance.choice([bytes, gzip.compress, zstandard.compress])
    packed = [pack(record) for record in records] if chance.random() < 0.7 else [pack(b"".join(records))]
    return b"".join(_damaged(chance, each) if chance.random() < 0.3 else each for each in packed)


def outcomes(given: bytes) -> Counter[str]:
    """What becomes of an archive: documents, damage, and how reading ends."""
    found: Counter[str] = Counter()
    with tempfile.NamedTemporaryFile(suffix=".warc") as file:
        Path(file.name).write_bytes(given)
        with closing(LineReader(Path(file.name))) as reader:
            try:
                while lines := reader.lines(100, 2**24):
                    found.update(_kind(line) for line in lines)
            except InputUnreadable:
                found["CUT OR NO ARCHIVE"] += 1
            found["LEFT OUT"] += reader.left_out.total()
    return found


def _kind(line: bytes) -> str:
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "A LINE"
    if not isinstance(members, dict):
        return "A LINE"
    return next((name.upper() for name in ("text", "no_text", "unreadable") if name in members), "A LINE")


def _record(chance: random.Random, size: int) -> bytes:
    body = _body(chance, size)
    if chance.random() < 0.6:
        for _ in range(chance.randint(1, 3)):
            body = chance.choice(_PACKERS)(body)
    if chance.random() < 0.2:
        body = body + chance.choice(_PACKERS)(body[:50])
    if chance.random() < 0.2:
        body = b"".join(
            b"%x\r\n%b\r\n" % (len(body[at : at + 99]), body[at : at + 99]) for at in range(0, len(body), 99)
        )
    label, kind = chance.choice(_LABELS), chance.choice(_TYPES)
    http = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}; charset={label}\r\nContent-Encoding: {chance.choice(_CODINGS)}\r\n"
    )
    if chance.random() < 0.3:
        http += "Transfer-Encoding: chunked\r\n"
    if chance.random() < 0.1:
        http += chance.choice(["a: b\r\n", ": \r\n", "a\r\n", " a\r\n"]) * (size // 4)
    block = http.encode(errors="replace") + b"\r\n" + body
    length = (
        chance.choice(_LENGTHS) if chance.random() < 0.1 else str(len(block) + chance.choice([0, 0, 0, 0, 0, 12, -12]))
    )
    head = (
        f"WARC/1.0\r\nWARC-Type: {'response' if chance.random() < 0.7 else chance.choice(_KINDS)}\r\n"
        f"WARC-Target-URI: {chance.choice(_URLS)}\r\n"
        f"Content-Type: {'application/http' if chance.random() < 0.8 else chance.choice(_TYPES)}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    record = head.encode(errors="replace") + block + b"\r\n\r\n"
    return _damaged(chance, record) if chance.random() < 0.2 else record


def _body(chance: random.Random, size: int) -> bytes:
    match chance.randrange(4):
        case 0:
            return chance.randbytes(size)
        case 1:
            piece = chance.choice(_BYTES)
            return piece * (size // len(piece) + 1)
        case 2:
            return b"".join(chance.choices(_BYTES, k=size // 6 + 1))
        case _:
            text = f"<meta charset={chance.choice(_LABELS)}><p>" + "渔民们每天清晨出海 words " * (size // 40 + 1)
            return text.encode(chance.choice(["utf-8", "gbk", "utf-16"]), "replace")


def _damaged(chance: random.Random, content: bytes) -> bytes:
    changed, at = bytearray(content), chance.randrange(len(content) + 1)
    match chance.randrange(4):
        case 0:
            changed[at : at + 4] = chance.randbytes(4)
        case 1:
            del changed[at : at + chance.randint(1, 200)]
        case 2:
            del changed[at:]
        case _:
            changed[at:at] = chance.choice(_BYTES) * chance.randint(1, 300)
    return bytes(changed)
