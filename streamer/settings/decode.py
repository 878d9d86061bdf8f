"""Settings for decoding, and the fields in known crawlers' records."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from streamer.settings.types import File, Pointer, Section

_JSON = '\n{}"\\u0041:,[]'
"""What has to be the same in every charset, and is no escape sequence there."""


def _charset(name: str) -> str:
    try:
        is_known = (
            _JSON.encode(name) == _JSON.encode() and _JSON.encode().decode(name) == _JSON and name.lower() != "idna"
        )
    except (LookupError, UnicodeError):
        is_known = False
    if not is_known:
        raise ValueError("not a charset that Python knows and in which ASCII is ASCII")
    return name


class Decode(Section):
    """How a record becomes a document. Fields are JSON pointers (RFC 6901)."""

    preset: Literal["plain", "warc", "scrapy-cluster", "nutch"] = "plain"
    """Fields of a known crawler; a pointer named below wins over the preset's."""
    format: Literal["json", "text", "avro", "json-schema"] = Field(
        "json", title='one of "json", "text", "avro", "json-schema" (Protobuf is not read: convert it to one of these)'
    )
    """What a value is: JSON; the text itself (UTF-8); or, in the wire format of a schema registry, Avro or JSON. There a
    value that begins with { is plain JSON. Avro needs fastavro (`.venv/bin/pip install -e '.[registry]'`).
    """
    charset: Annotated[str, AfterValidator(_charset)] = Field(
        "utf-8",
        title="a charset that Python knows, in which ASCII is ASCII: utf-8, gb18030, big5 ... (UTF-16 has to be converted first)",
    )
    """Charset of values in JSON or plain text. Outputs keep the bytes as they came."""
    registry_url: str | None = Field(
        None, pattern=r"^https?://[^\s?#@]+$", title="a URL such as https://registry:8081, without user and password"
    )
    """Schema registry, for Avro. A schema is asked for once."""
    registry_user: str | None = Field(None, min_length=1)
    """User of the registry, by basic authentication."""
    registry_password: SecretStr | None = None
    """This user's password; never printed."""
    registry_cafile: File | None = None
    """Certificates of the authorities that sign the registry's certificate."""
    # The process that tries records waits a little longer than this for an answer.
    registry_timeout_ms: int = Field(3_000, ge=1, le=5_000)
    """A registry that gives no answer for this long is down."""
    text: Pointer | None = None
    """Pointer to the text."""
    title: Pointer | None = None
    """Pointer to the title."""
    id: Pointer | None = None
    """Pointer to the id. Without one, the record's key is the id, else its position."""
    time: Pointer | None = None
    """Pointer to the time, [in any usual form](inputs.md#times). Without one, or if it is not understood, the record's timestamp
    counts.
    """
    host: Pointer | None = None
    """Pointer to the document's host or URL. The guard counts by it, and templates are learnt by it. An id that is a URL
    also names a host.
    """
    scope: Pointer | None = None
    """Pointer to the document's scope: its tenant, collection, source or language. Documents of different scopes never match,
    and each scope has its own ids and hosts ([scopes](inputs.md#scopes)). A document without one is in the scope of all
    such documents. An index is made with it, or without.
    """
    host_scope: Literal["host", "registrable-domain", "none"] = "host"
    """What counts as one host: the host itself; the domain that its owner registered, by the list of public suffixes
    (news.example.co.uk is example.co.uk, and each blog of a listed platform is its own); or documents have no host, and
    nothing warns of it. A change applies to documents from then on.
    """
    metadata: list[Pointer] | None = None
    """Pointers to keywords, tags, references."""
    value_bytes_max: int = Field(8 * 2**20, ge=1)
    """A larger value is a dead letter."""
    characters_max: int = Field(8 * 2**20, ge=1)
    """A document with more characters in title and text is a dead letter."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Fields in a known crawler's records (JSON pointers; None: no such field).

    `host`: fields with a host or URL; the first that names a host counts.
    `lists`: every field is an array of strings. Text and title are then its items joined by line breaks, other fields
    its first item.
    `kind`: field with the type of the text, for `fingerprint.markup = "auto"`.
    `kind_is_sure`: a text that is text/plain there has no mark-up, whatever the setting.

    >>> PRESETS["nutch"].lists, PRESETS["warc"].text
    (True, '/text')
    """

    text: str
    title: str | None = None
    id: str | None = None
    time: str | None = None
    host: tuple[str, ...] = ()
    lists: bool = False
    kind: str | None = None
    kind_is_sure: bool = False


PRESETS = {
    "plain": Preset(text="/text", title="/title", id="/id", host=("/host", "/url"), kind="/content_type"),
    # Lines made from WARC or WET records. The id is the record's own: with /url, pages crawled again become updates.
    "warc": Preset(text="/text", id="/id", time="/time", host=("/url",), kind="/content_type", kind_is_sure=True),
    # Only url names a single page: a crawlid has many pages, and several urls may redirect to one response_url.
    "scrapy-cluster": Preset(
        text="/body",
        id="/url",
        time="/timestamp",
        host=("/response_url", "/url"),
        kind="/response_headers/Content-Type",
    ),
    # The Kafka index writer puts every field of a page into an array of strings, dates as Java prints them.
    "nutch": Preset(text="/content", title="/title", id="/id", time="/tstamp", host=("/host", "/url"), lists=True),
}
