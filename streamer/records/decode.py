"""Decode: a record becomes a Document, or a DeadLetter with the reason. No record makes an exception leave this module.

A bad optional field counts as missing; a bad text makes a dead letter.
"""

import codecs
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson
import xxhash
from jsonpointer import JsonPointer

from streamer.records.charsets import SCRIPTS, guessed
from streamer.records.hosts import host_reader
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.records.schemas import MAGIC, PREFIX_BYTES, Schemas, Undecodable, schema_of
from streamer.settings.decode import PRESETS
from streamer.settings.settings import Decode
from streamer.settings.types import PlainText

ID_BYTES_MAX = 2_048
"""Limit for ids. A longer one ends in a digest of the whole, so that every output stays deliverable."""

DETAIL_CHARACTERS_MAX = 200

_UNREADABLE = "unreadable"
"""Only member in the line that stands for damage."""

_PLAIN = "text/plain"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_SECONDS_MAX = 10**11
"""A larger number is milliseconds: as seconds it exceeds the year 5100, as milliseconds it is 1973."""
_DOUBLE_EXACT_MAX = 2**53
"""Beyond this, the parser rounds whole numbers: two ids could become one."""

# One escape sequence: a pair of surrogates, a lone surrogate (group 1), or any other.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# Java's and HTTP's date formats. Other zone names are ambiguous (CST is four zones) and not read.
_NAMED_DATE = re.compile(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d{2} \d{2}:\d{2}:\d{2} (?:UTC|GMT) \d{4}"
    r"|[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} (?:UTC|GMT|[+-]\d{4})",
    re.ASCII,
)

_FORMATS = {
    MAGIC: "this looks like the wire format of a schema registry: set decode.format",
    b"WARC/": "this is WARC: `streamer produce` sends the pages of such files, for decode.preset = warc",
    b"PAR1": "this is Parquet: `streamer produce` sends the rows of such files",
    b"Obj\x01": "this is an Avro file: decode.format = avro reads records with the schema of a registry",
    b"\x1f\x8b": "this is compressed by gzip: send it decompressed",
    b"\x28\xb5\x2f\xfd": "this is compressed by Zstandard: send it decompressed",
    b"<": "this is a page or XML: decode.format = text reads it, with fingerprint.markup = html",
}


@dataclass(slots=True)
class Document:
    """A decoded record.

    id        from its field, else the record's key, else its position; at most ID_BYTES_MAX bytes of UTF-8
    time_ms   milliseconds since 1970, from its field, else the record's timestamp
    host      from its field, else from a URL as id
    metadata  keywords, tags, references, in the settings' order
    named     whether the id is from its field; only such ids identify versions of a page

    >>> page = Document("https://example.com/a", "one text", time_ms=1_000, named=True)
    >>> page == Document("https://example.com/a", "one text", time_ms=1_000, named=False)
    True
    """

    id: str
    text: str
    title: str = ""
    time_ms: int = 0
    host: str | None = None
    metadata: tuple[str, ...] = ()
    named: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that is no document.

    detail  a few words for people, at most DETAIL_CHARACTERS_MAX characters
    id      None if unreadable

    >>> from index import Source
    >>> Decoder(Decode()).decode([Record(Source("stream", 0), "pages", 7, key=b"k", value=None, timestamp_ms=0)])
    [DeadLetter(reason=<Reason.TOMBSTONE: 16>, detail='the record has no value', id='k')]
    """

    reason: Reason
    detail: str
    id: str | None


class Decoder:
    """Decodes records by the settings.

    >>> from index import Source
    >>> value = b'{"id": "a", "text": "The harbour.", "url": "https://example.org/a"}'
    >>> record = Record(Source("stream", 0), "pages", 7, key=None, value=value, timestamp_ms=0)
    >>> (document,) = Decoder(Decode()).decode([record])
    >>> document.id, document.text, document.host
    ('a', 'The harbour.', 'example.org')
    """

    def __init__(self, settings: Decode) -> None:
        """Raises SettingsError without the format's package."""
        preset = PRESETS[settings.preset]
        self._value_bytes_max = settings.value_bytes_max
        self._characters_max = settings.characters_max
        self._format = settings.format
        self._charset = None if codecs.lookup(settings.charset).name == "utf-8" else settings.charset
        self._schemas = Schemas(settings) if settings.format == "avro" else None
        self._lists = preset.lists
        self._host_of = host_reader(settings.host_scope)
        given = {name: getattr(settings, name) for name in ("text", "title", "id", "time")}
        pointers = [getattr(preset, name) if pointer is None else pointer for name, pointer in given.items()]
        self._text_pointer = pointers[0]
        hosts = preset.host if settings.host is None else (settings.host,)
        self._fields = [_parts(pointer) for pointer in (*pointers, *hosts)]
        # No object has a key that is None.
        self._keys = [parts[0] if parts else None for parts in self._fields]
        self._are_keys = all(parts is None or len(parts) == 1 for parts in self._fields)
        self._metadata = [_parts(pointer) for pointer in settings.metadata or ()]
        self._kind = _parts(preset.kind)

    def decode(self, records: Sequence[Record]) -> list[Document | DeadLetter]:
        """One Document or DeadLetter per record, in order. Raises only RegistryUnavailable."""
        self.look_up(records)
        return [self._decode(record) for record in records]

    def look_up(self, records: Sequence[Record]) -> None:
        """Fetch the schemas that the records need. Raises RegistryUnavailable."""
        if self._schemas is not None:
            self._schemas.learn(record.value for record in records)

    def _decode(self, record: Record) -> Document | DeadLetter:
        try:
            value = self._value(record)
            document = (
                _plain_text(record, value) if self._format == "text" else self._from_json(record, self._json(value))
            )
            if (count := len(document.title) + len(document.text)) > self._characters_max:
                detail = f"title and text have {count} characters, decode.characters_max is {self._characters_max}"
                raise Undecodable(Reason.TOO_LARGE, detail, document.id)
            return document
        except Undecodable as error:
            return DeadLetter(error.reason, _bounded(str(error)), error.id or _key_text(record))

    def _value(self, record: Record) -> bytes:
        """The record's value in UTF-8, without a byte order mark."""
        value = record.value
        if value is None:
            if record.lost is not None:
                raise Undecodable(Reason.UNREADABLE, record.lost.why)
            raise Undecodable(Reason.TOMBSTONE, "the record has no value")
        if len(value) > self._value_bytes_max:
            detail = f"the value has {len(value)} bytes, decode.value_bytes_max is {self._value_bytes_max}"
            raise Undecodable(Reason.TOO_LARGE, detail)
        value = value.removeprefix(_BYTE_ORDER_MARK)
        if self._charset is None:
            return value
        try:
            return value.decode(self._charset).encode()
        except UnicodeError as error:
            detail = f"the value is not {self._charset} (decode.charset): {error}"
            raise Undecodable(Reason.NOT_UTF_8, detail) from error

    def _json(self, value: bytes) -> bytes:
        if self._format == "json" or value.lstrip()[:1] == b"{":
            return value
        if self._schemas is not None:
            return self._schemas.json_of(value)
        schema_of(value)
        return value[PREFIX_BYTES:]

    def _from_json(self, record: Record, value: bytes) -> Document:
        try:
            tree = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            _require_utf_8(value)
            repaired = _ESCAPE.sub(_repair, value)
            if repaired == value:
                raise _no_json(value, str(error)) from error
            return self._from_json(record, repaired)
        # Most fields are keys of an object: one step each.
        at_top = self._are_keys and type(tree) is dict
        values = map(tree.get, self._keys) if at_top else [_resolve(tree, parts) for parts in self._fields]
        text, title, field_id, time, *hosts = values
        if self._lists:
            text, title = (_joined(each) if type(each) is list else each for each in (text, title))
            field_id, time, *hosts = (
                (each[:1] or [None])[0] if type(each) is list else each for each in (field_id, time, *hosts)
            )
        field_id = None if field_id is None else _identity(field_id)
        identity = field_id or _key_text(record)
        if type(text) is not str:
            raise self._no_text(tree, text, identity)
        time_ms = None if time is None else _time_ms(time)
        host = None
        for value in hosts:
            if value is not None and (host := self._host_of(value)) is not None:
                break
        if host is None and field_id is not None and "://" in field_id:
            host = self._host_of(field_id)
        if self._kind is not None and str(_resolve(tree, self._kind)).lower().startswith(_PLAIN):
            text = PlainText(text)
        return Document(
            identity or record.position,
            text,
            title if type(title) is str else "",
            record.timestamp_ms if time_ms is None else time_ms,
            host,
            self._keywords(tree) if self._metadata else (),
            field_id is not None,
        )

    def _no_text(self, tree: Any, text: Any, identity: str | None) -> Undecodable:
        if text is not None:
            detail = f"{self._text_pointer} is {_KINDS[type(text)]}, not a string"
            return Undecodable(Reason.TEXT_NOT_STRING, detail, identity)
        detail = f"there is no text at {self._text_pointer}"
        if type(tree) is dict and tree.keys() == {_UNREADABLE}:
            raise Undecodable(Reason.UNREADABLE, str(tree[_UNREADABLE]))
        if type(tree) is dict:
            keys = ", ".join(key[:30] for key in list(tree)[:8])
            detail += f" (or null); the keys are: {keys}" if tree else "; the object is empty"
        else:
            detail += f": the value is {_KINDS[type(tree)]}, not an object"
        return Undecodable(Reason.NO_TEXT, detail, identity)

    def _keywords(self, tree: Any) -> tuple[str, ...]:
        values = [_resolve(tree, parts) for parts in self._metadata]
        flat = [item for value in values for item in (value if type(value) is list else [value])]
        return tuple(
            item if type(item) is str else str(item) for item in flat if type(item) in (str, int, float) and item != ""
        )


def poison(record: Record, detail: str) -> DeadLetter:
    """Dead letter for a record whose decoding ends the process."""
    return DeadLetter(Reason.POISON, _bounded(detail), _key_text(record))


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _parts(pointer: str | None) -> list[str] | None:
    return None if pointer is None else list(JsonPointer(pointer).parts)


def _resolve(tree: Any, parts: list[str] | None) -> Any:
    """Value at a JSON pointer's parts, or None. The library's `resolve` would format the document into every exception."""
    if parts is None:
        return None
    for part in parts:
        if type(tree) is dict:
            tree = tree.get(part)
        elif type(tree) is list and part.isdecimal() and part.isascii() and (part == "0" or part[0] != "0"):
            tree = tree[int(part)] if len(part) < 10 and int(part) < len(tree) else None
        else:
            return None
    return tree


def _joined(items: list[Any]) -> Any:
    """An array's strings, one a line; None if empty; the array itself if an item is no string."""
    if not items:
        return None
    return "\n".join(items) if all(type(item) is str for item in items) else items


def _repair(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match.group(1) is not None else match.group()


def _require_utf_8(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} of {len(value)} is not UTF-8: {error.reason}{_guessed_charset(value)}"
        raise Undecodable(Reason.NOT_UTF_8, _named_format(value) or detail) from error


def _no_json(value: bytes, why: str) -> Undecodable:
    if (name := _named_format(value)) is not None:
        return Undecodable(Reason.NOT_JSON, name)
    too_deep = "depth limit exceeded" in why or "ecursion limit" in why
    return Undecodable(Reason.NESTED_TOO_DEEP if too_deep else Reason.NOT_JSON, why)


def _named_format(value: bytes) -> str | None:
    """What a value is by its first bytes, if no setting decodes it, and what to do."""
    return next((words for begin, words in _FORMATS.items() if value.startswith(begin)), None)


def _guessed_charset(value: bytes) -> str:
    """A hint if bytes that are no UTF-8 read as another script than the Latin one; else empty."""
    name = guessed(value)
    charset = {"gbk": "gb18030"}.get(name, name)
    if name in SCRIPTS:
        with suppress(UnicodeDecodeError, LookupError):
            value.decode(charset)
            return f"; it reads as {SCRIPTS[name]} in decode.charset = {charset}"
    return ""


def _plain_text(record: Record, value: bytes) -> Document:
    _require_utf_8(value)
    return Document(_key_text(record) or record.position, value.decode(), time_ms=record.timestamp_ms)


def _identity(value: Any) -> str | None:
    if type(value) is str:
        return _bounded_id(value) if value else None
    if type(value) is int or (type(value) is float and abs(value) <= _DOUBLE_EXACT_MAX):
        return str(value)
    return None


def _key_text(record: Record) -> str | None:
    if not record.key:
        return None
    try:
        return _bounded_id(record.key.decode())
    except UnicodeDecodeError:
        return None


def _bounded_id(identity: str) -> str:
    if len(identity) * 4 <= ID_BYTES_MAX:
        return identity
    encoded = identity.encode()
    if len(encoded) <= ID_BYTES_MAX:
        return identity
    digest = "#" + xxhash.xxh3_128_hexdigest(encoded)
    return encoded[: ID_BYTES_MAX - len(digest)].decode(errors="ignore") + digest


def _bounded(detail: str) -> str:
    return detail if len(detail) <= DETAIL_CHARACTERS_MAX else detail[: DETAIL_CHARACTERS_MAX - 3] + "..."


def _time_ms(value: Any) -> int | None:
    """Milliseconds since 1970; None outside the years 1 to 9999."""
    if type(value) is str:
        text = value.strip()
        if text.isdecimal() and text.isascii() and len(text) != 8:
            return _epoch_ms(int(text)) if len(text) < 16 else None
        return date_ms(text) if len(text) <= 64 else None
    return _epoch_ms(value) if type(value) in (int, float) else None


def _epoch_ms(number: float) -> int | None:
    if abs(number) > _TIME_MS_MAX:
        return None
    return round(number * 1_000) if abs(number) < _SECONDS_MAX else round(number)


def date_ms(text: str) -> int | None:
    """Milliseconds since 1970 from ISO 8601, HTTP's or Java's form; UTC without a zone."""
    try:
        moment = parsedate_to_datetime(text) if _NAMED_DATE.fullmatch(text) else datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
