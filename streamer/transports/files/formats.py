"""File formats by name and first bytes: what is read, and what is refused by name with a command that helps."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from index import Source
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Decode
from streamer.transports.files.remote import Input, Remote, reading_command

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # after a first byte 0x50 to 0x5f; files of pzstd begin so
PARQUET_MAGIC = b"PAR1"

PACKED = {".gz": "gzip -dc", ".zst": "zstd -dc"}
"""Suffixes of compressed files, and what unpacks them."""

KINDS = {".jsonl", ".ndjson", ".json", ".txt", ".warc", ".wet", ".parquet"}
"""Suffixes of files that are read from folders, before PACKED ones."""

_FOREIGN = {
    b"filedesc://": "ARC",
    b"Obj\x01": "Avro",
    b"SQLite format 3": "SQLite",
    b"ORC": "ORC",
    b"ARROW1": "Feather (Arrow)",
    b"PARE": "encrypted Parquet",
    b"%PDF-": "PDF",
    b"\x89HDF\r": "HDF5",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a file of Office",
}
"""First bytes of formats without documents on lines, except HTML: a page may be a line."""

_TABLES = {
    ".csv": ("CSV", ","),
    ".tsv": ("TSV", "\\t"),
}
"""Format and delimiter by suffix. Only the name decides, since a first line with commas may be text."""

_FROM_TABLE = (
    "python -c 'import csv,json,sys; csv.field_size_limit(2**31-1); "
    '[print(json.dumps(row)) for row in csv.DictReader(sys.stdin, delimiter="{delimiter}")]\''
)
"""Command that turns a table into JSON Lines."""

_FROM_JSON = "jq -c 'if type == \"array\" then .[] else . end'"
"""Command that turns a JSON array, or JSON on several lines, into JSON Lines."""

_NAMED = {".warc": "WARC", ".wet": "WET", ".wat": "WAT", ".parquet": "Parquet", ".arc": "ARC"}
"""Suffixes of names that promise a magic number."""

_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_PACKERS = {
    "xz": ("xz -dc", b"\xfd7zXZ\0"),
    "lz4": ("lz4 -dc", b"\x04\x22\x4d\x18"),
    "zip (or a spreadsheet)": ("unzip -p", b"PK\x03\x04"),
    "an empty zip": ("unzip -p", b"PK\x05\x06"),
    "a zip in parts": ("unzip -p", b"PK\x07\x08"),
    "bzip2": ("bzip2 -dc", b"BZh"),
    "7z": ("7z x -so", b"7z\xbc\xaf\x27\x1c"),
    "rar": ("unrar p -inul", b"Rar!\x1a\x07"),
    "lzip": ("lzip -dc", b"LZIP\x01"),
    "snappy": ("snzip -dc", b"\xff\x06\0\0sNaPpY"),
    "compress (.Z)": ("gzip -dc", b"\x1f\x9d"),
    "tar": ("tar -xOf", b""),
    "brotli": ("brotli -dc", b""),
    "lzma": ("xz --format=lzma -dc", b""),
}
"""What is not unpacked, by its name: the command that does, and first bytes; empty if others tell."""

_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")

_PACKED_NAMES = {
    **dict.fromkeys((".tar", ".tgz", ".tbz2", ".tbz", ".txz", ".tzst"), "tar"),
    **dict.fromkeys((".zip", ".zipx"), "zip (or a spreadsheet)"),
    ".xz": "xz",
    ".lz4": "lz4",
    ".bz2": "bzip2",
    ".7z": "7z",
    ".rar": "rar",
    ".lz": "lzip",
    ".sz": "snappy",
    ".z": "compress (.Z)",
    ".br": "brotli",
    ".lzma": "lzma",
}
"""Suffixes that need another program."""

# A line that begins an array or an object, and not with its first member.
_JSON_BEGINS = re.compile(rb"\s*(?:\[\s*(?:[\[{].*)?|\{\s*)", re.DOTALL)
_WIDE_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_WIDE = {"UTF-16LE": re.compile(rb"(?:[\t\r\n -~]\0){2}"), "UTF-16BE": re.compile(rb"(?:\0[\t\r\n -~]){2}")}

_AS_LINES = "a document a line, with the text in a field that decode.text names"


class NotRead(Exception):
    """A format that is not read. The message names it and what to do."""


def record_test(decode: Decode) -> Callable[[bytes], bool]:
    """Whether a line is a record by these settings, sound or not. Half a record is none.

    >>> is_record = record_test(Decode())
    >>> is_record(b'{"text": "a"}'), is_record(b'{"title": "a"}'), is_record(b'{"text": "a'), is_record(b"12")
    (True, True, False, False)
    """
    if decode.format not in ("json", "text"):
        # Their decoders may wait for a registry.
        return lambda _: True
    decoder, is_json = Decoder(decode), decode.format == "json"

    def is_record(line: bytes) -> bool:
        # A number may go on: each beginning of it is one too.
        if is_json and line.strip()[-1:] in b"0123456789":
            return False
        (document,) = decoder.decode([Record(Source("", 0), "", 0, None, line, 0)])
        return not (isinstance(document, DeadLetter) and document.reason in (Reason.NOT_JSON, Reason.NOT_UTF_8))

    return is_record


def is_compressed(head: bytes, suffix: str) -> str | None:
    """The suffix, gz or zst, that a beginning means; None for plain bytes. Raises NotRead.

    >>> is_compressed(b"\\x1f\\x8b\\x08", ".jsonl"), is_compressed(b"{}", ".jsonl"), is_compressed(b"", ".gz")
    ('gz', None, None)
    """
    if head.startswith(GZIP_MAGIC):
        return "gz"
    if head.startswith(ZSTD_MAGIC) or (suffix == ".zst" and head[1:4] == ZSTD_SKIPPABLE_MAGIC):
        return "zst"
    # A file without a byte is one without a line, as `zcat` has it.
    if suffix in PACKED and head:
        raise NotRead(f"the file is named {suffix} but does not begin like one")
    return None


def needs_more_bytes(head: bytes, suffix: str) -> bool:
    """Whether further bytes may reveal compression. Only a first line that begins like a magic number waits for them."""
    if suffix == ".zst":
        return len(head) < len(ZSTD_MAGIC)
    magics = (GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC, *(magic for _, magic in _PACKERS.values()), b"BZh91AY&SY")
    return any(len(head) < len(magic) and magic.startswith(head) for magic in magics)


def require_no_packer(head: bytes, path: Input) -> None:
    """Raise NotRead for first bytes that another program must unpack."""
    for kind, (_, magic) in _PACKERS.items():
        if magic and head.startswith(magic) and (magic != b"BZh" or _BZIP2.match(head)):
            raise _not_unpacked(kind, path)


def require_lines(first: bytes, path: Input, is_record: Callable[[bytes], bool]) -> None:
    """Raise NotRead for a first line without documents on lines.

    is_record  whether a line is a record; else it may begin JSON on several lines
    """
    suffix = _inner_suffix(path)
    if first[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        raise _not_unpacked("tar", path)
    if first.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        raise NotRead(f"the file is compressed twice. Unpack it once: {_reads(path)} | streamer filter - --out DIR")
    require_no_packer(first, path)
    if suffix in _PACKED_NAMES:
        raise _not_unpacked(_PACKED_NAMES[suffix], path)
    if suffix in _TABLES:
        table, delimiter = _TABLES[suffix]
        raise NotRead(
            f"this looks like {table}, which is not read. "
            + _made_by(path, _FROM_TABLE.format(delimiter=delimiter), "Make JSON Lines of it")
        )
    if (foreign := next((kind for begin, kind in _FOREIGN.items() if first.startswith(begin)), None)) is not None:
        raise NotRead(f"this looks like {foreign}, which is not read: make JSON Lines of it, {_AS_LINES}")
    if suffix in _NAMED:
        raise NotRead(f"the file is named {suffix} but does not begin like {_NAMED[suffix]}")
    if (charset := _wide_charset(first)) is not None:
        raise NotRead(
            f"this is {charset}, which is not read. "
            + _made_by(path, f"iconv -f {charset} -t UTF-8", "Make UTF-8 of it")
        )
    if _JSON_BEGINS.fullmatch(first) and not is_record(first):
        raise NotRead("this is JSON on several lines. " + _made_by(path, _FROM_JSON, "Put each document on a line"))


def array_hint(first: bytes, path: Input) -> str:
    """Advice for a file whose first line is a whole JSON array; empty for another.

    >>> array_hint(b'{"text": "a"}', Path("a.json"))
    ''
    """
    if not first.lstrip().startswith(b"["):
        return ""
    return f" This is a JSON array. {_made_by(path, _FROM_JSON, 'Put each document on a line')}."


def kind_of(path: Input) -> str:
    """A file's suffix before its compression's, in small letters.

    >>> kind_of(Path("crawl.WARC.gz")), kind_of(Path("pages.tar.zst"))
    ('.warc', '.tar')
    """
    return _inner_suffix(path)


def _inner_suffix(path: Input) -> str:
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in PACKED else suffix


def _reads(path: Input) -> str:
    unpacks = PACKED.get(path.suffix.lower())
    if isinstance(path, Remote):
        return f"{reading_command(path)} | {unpacks}" if unpacks else reading_command(path)
    return f"{unpacks or 'cat'} {shlex.quote(str(path))}"


def _made_by(path: Input, command: str, purpose: str) -> str:
    return f"{purpose}: {_reads(path)} | {command} | streamer filter - --out DIR"


def _not_unpacked(kind: str, path: Input) -> NotRead:
    command, _ = _PACKERS[kind]
    name = "FILE" if str(path) == "-" or isinstance(path, Remote) else shlex.quote(str(path))
    return NotRead(f"{kind} is not read. Unpack it into a pipe: {command} {name} | streamer filter - --out DIR")


def _wide_charset(first: bytes) -> str | None:
    marked = next((charset for mark, charset in _WIDE_MARKS.items() if first.startswith(mark)), None)
    return marked or next((charset for charset, begins in _WIDE.items() if begins.match(first)), None)
