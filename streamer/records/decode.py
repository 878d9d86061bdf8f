"""Decode: a record becomes a Document, or a DeadLetter with the reason. No record makes an exception leave this module.

A bad optional field counts as missing; a bad text makes a dead letter.
"""

import codecs
import re
import reprlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from jsonpointer import JsonPointer

from streamer.records import any_json
from streamer.records.forms import hints
from streamer.records.forms.times import time_ms
from streamer.records.hosts import host_reader
from streamer.records.names import bounded_id, scope_named, within
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.records.schemas import PREFIX_BYTES, Schemas, Undecodable, schema_of
from streamer.settings.decode import PRESETS
from streamer.settings.settings import Decode
from streamer.settings.types import CalledHtml, CalledPlain, PlainText

DETAIL_CHARACTERS_MAX = 200

_UNREADABLE = "unreadable"
"""Only member in the line that stands for damage."""

_PLAIN = "text/plain"
_HTML = "text/html", "application/xhtml+xml"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXAMPLE_CHARACTERS = 60
_NO_TIMES: tuple[Any, ...] = (None, "", [], {})
"""What says that there is no time."""
_DOUBLE_EXACT_MAX = 2**53
"""Beyond this, the parser rounds whole numbers: two ids could become one."""

_LEVELS_SHOWN = reprlib.Repr().maxlevel
"""Nested values deeper than this do not show in an example."""

# One escape sequence: a pair of surrogates, a lone surrogate (group 1), or any other.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


@dataclass(slots=True)
class Document:
    """A decoded record.

    id        from its field, else the record's key, else its position; an id or a key behind its scope, if there are scopes
    time_ms   milliseconds since 1970, from its field, else the record's timestamp
    host      from its field, else from a URL as id
    metadata  keywords, tags, references, in the settings' order
    named     whether the id is from its field; only such ids identify versions of a page
    odd_time  the time's field if it is not understood, shortened; else empty
    scope     as id and host begin with it (`names.scope_named`); None: the settings have no scopes

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
    odd_time: str = field(default="", compare=False)
    scope: str | None = None


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
        self._has_scopes = settings.scope is not None
        self._fields = [_parts(pointer) for pointer in (*pointers, settings.scope, preset.kind, *hosts)]
        # No object has a key that is None.
        self._keys = [parts[0] if parts else None for parts in self._fields]
        self._are_keys = all(parts is None or len(parts) == 1 for parts in self._fields)
        self._metadata = [_parts(pointer) for pointer in settings.metadata or ()]
        self._plain: type[str] = PlainText if preset.kind_is_sure else CalledPlain

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
            if self._format == "text":
                document = _plain_text(record, value)
            else:
                document = self._from_json(record, value if self._format == "json" else self._json(value))
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
        """JSON of a value in a registry's wire format, or of one that is JSON."""
        if value.lstrip()[:1] == b"{":
            return value
        if self._schemas is not None:
            return self._schemas.json_of(value)
        schema_of(value)
        return value[PREFIX_BYTES:]

    def _from_json(self, record: Record, value: bytes) -> Document:
        try:
            tree = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            tree = _any_tree(value, error)
        text, title, kind, hosts, naming = self._fields_of(tree)
        if not _EXACT.issuperset(map(type, naming)) and any(map(_may_be_rounded, naming)):
            with suppress(RecursionError):
                text, title, kind, hosts, naming = self._fields_of(any_json.exact(_ESCAPE.sub(_repair, value)))
        field_id, time, scope_field, *metadata = naming
        identity = (field_id or None) if type(field_id) is str else _identity(field_id)
        scope = scope_named(_identity(scope_field) or "") if self._has_scopes else None
        name = None if (own := identity or _key_text(record)) is None else within(scope, own)
        if type(text) is not str:
            raise self._no_text(tree, text, name)
        moment_ms = None if time is None else time_ms(time)
        # Most records name no host, or one, and an id that is no URL.
        host = self._host(hosts, identity) if any(hosts) or (identity and "://" in identity) else None
        return Document(
            name or record.position,
            text if kind is None else self._typed(text, kind),
            title if type(title) is str else "",
            record.timestamp_ms if moment_ms is None else moment_ms,
            host if host is None or scope is None else within(scope, host),
            _keywords(metadata) if metadata else (),
            identity is not None,
            reprlib.repr(time)[:_EXAMPLE_CHARACTERS] if moment_ms is None and time not in _NO_TIMES else "",
            scope,
        )

    def _host(self, named: list[Any], identity: str | None) -> str | None:
        """Host of the first field that names one, else of a URL as id."""
        for each in named:
            if each is not None and (host := self._host_of(each)) is not None:
                return host
        if identity is not None and "://" in identity and "://" in (url := bounded_id(identity)):
            return self._host_of(url)
        return None

    def _typed(self, text: str, kind: Any) -> str:
        """The text as the type that its record names."""
        if type(kind) is list and kind:
            kind = kind[0]
        if type(kind) is not str:
            return text
        mime = kind.lstrip().lower()
        return self._plain(text) if mime.startswith(_PLAIN) else CalledHtml(text) if mime.startswith(_HTML) else text

    def _fields_of(self, tree: Any) -> tuple[Any, Any, Any, list[Any], tuple[Any, ...]]:
        """Values at the settings' pointers, as JSON has them: text, title, kind, hosts; and id, time, scope and metadata."""
        # Most fields are keys of an object: one step each.
        at_top = self._are_keys and type(tree) is dict
        values = map(tree.get, self._keys) if at_top else [_resolve(tree, parts) for parts in self._fields]
        text, title, field_id, time, scope, kind, *hosts = values
        if self._lists:
            text, title = (_joined(each) if type(each) is list else each for each in (text, title))
            field_id, time, scope, *hosts = (
                (each[:1] or [None])[0] if type(each) is list else each for each in (field_id, time, scope, *hosts)
            )
        if self._metadata:
            return text, title, kind, hosts, (field_id, time, scope, *(_resolve(tree, each) for each in self._metadata))
        return text, title, kind, hosts, (field_id, time, scope)

    def _no_text(self, tree: Any, text: Any, identity: str | None) -> Undecodable:
        if text is not None:
            detail = f"{self._text_pointer} is {_KINDS[type(text)]}, not a string"
            return Undecodable(Reason.TEXT_NOT_STRING, detail, identity)
        detail = f"there is no text at {self._text_pointer}"
        if type(tree) is dict and tree.keys() == {_UNREADABLE}:
            raise Undecodable(Reason.UNREADABLE, str(tree[_UNREADABLE]))
        if type(tree) is dict:
            keys = ", ".join(key[:30] for key in list(tree)[:8])
            detail += f" (or it is null or NaN); the keys are: {keys}" if tree else "; the object is empty"
        else:
            detail += f": the value is {_KINDS[type(tree)]}, not an object"
        return Undecodable(Reason.NO_TEXT, detail, identity)


_EXACT = frozenset((str, int, bool, type(None)))
"""Types whose values JSON's readers keep as they are."""


def _may_be_rounded(value: Any, levels: int = _LEVELS_SHOWN) -> bool:
    """Whether a number beyond the whole ones of a double is in the value, for which the record's own digits count."""
    if type(value) is float:
        return abs(value) > _DOUBLE_EXACT_MAX
    if not levels or type(value) not in (list, dict):
        return False
    return any(_may_be_rounded(each, levels - 1) for each in (value.values() if type(value) is dict else value))


def _keywords(values: list[Any]) -> tuple[str, ...]:
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


def _any_tree(value: bytes, error: orjson.JSONDecodeError) -> Any:
    """A value that orjson refused: half pairs of surrogates are U+FFFD, the rest is as in `any_json`. Raises Undecodable."""
    _require_utf_8(value)
    why, repaired = str(error), _ESCAPE.sub(_repair, value)
    try:
        if "depth limit exceeded" not in why:
            return any_json.loads(repaired)
    except RecursionError as deep:
        why = f"depth limit exceeded: {deep}"
    except ValueError as second:
        why = why if repaired == value else str(second)
    if (name := hints.name_of(value)) is not None:
        raise Undecodable(Reason.NOT_JSON, name) from error
    if "depth limit exceeded" in why:
        raise Undecodable(Reason.NESTED_TOO_DEEP, why) from error
    raise Undecodable(Reason.NOT_JSON, why + hints.odd_number(value)) from error


def _require_utf_8(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} of {len(value)} is not UTF-8: {error.reason}{hints.charset_hint(value)}"
        raise Undecodable(Reason.NOT_UTF_8, hints.name_of(value) or detail) from error


def _plain_text(record: Record, value: bytes) -> Document:
    _require_utf_8(value)
    return Document(_key_text(record) or record.position, value.decode(), time_ms=record.timestamp_ms)


def _identity(value: Any) -> str | None:
    """A value as an id or a scope, of any length; None for an empty text and for other types than text and number."""
    if type(value) is str:
        return value or None
    if type(value) is int or (type(value) is float and abs(value) <= _DOUBLE_EXACT_MAX):
        return str(value)
    return None


def _key_text(record: Record) -> str | None:
    if not record.key:
        return None
    try:
        return bounded_id(record.key.decode())
    except UnicodeDecodeError:
        return None


def _bounded(detail: str) -> str:
    return detail if len(detail) <= DETAIL_CHARACTERS_MAX else detail[: DETAIL_CHARACTERS_MAX - 3] + "..."
