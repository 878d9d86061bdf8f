"""Records in a schema registry's wire format: the named schema, and the record as JSON.

    byte 0 | id of the schema (4 bytes, big-endian) | the datum, in Avro or in JSON

The only importer of fastavro. Schemas come from the registry's REST API, one request per new id, and are kept. The
look-up precedes a batch's decoding, which never waits. Without the registry, the batch stops. An unknown or unfit
schema makes a dead letter.

Protocol: docs.confluent.io, "Formats, Serializers, and Deserializers" and "Schema Registry API Reference".
"""

import base64
import http.client
import io
import json
import ssl
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

import orjson

from streamer.errors import RegistryRefuses, RegistryUnavailable
from streamer.packages import require_package
from streamer.records.reason import Reason
from streamer.settings.named_files import usable
from streamer.settings.settings import Decode

MAGIC = b"\0"
"""The first byte of a record in the wire format."""

PREFIX_BYTES = 5
"""Magic byte and id."""

_ANSWER_BYTES_MAX = 16 * 2**20
_NESTED_MAX = 100
_UNKNOWN = {40401, 40402, 40403}
"""The registry's codes for a missing subject, version or schema. Any other 404 is another server's."""


class Undecodable(Exception):
    """A record that cannot be decoded, with the reason. `id` is None unless a field gave it."""

    def __init__(self, reason: Reason, detail: str, id: str | None = None) -> None:  # noqa: A002
        super().__init__(detail)
        self.reason, self.id = reason, id


def require_avro() -> None:
    """Raise SettingsError unless fastavro can be imported."""
    require_package('decode.format: "avro"', "registry")


def schema_of(value: bytes) -> int:
    """Id of a record's schema. Raises Undecodable for another format.

    >>> schema_of(bytes([0, 0, 0, 0, 7]) + b"datum")
    7
    """
    if len(value) < PREFIX_BYTES or not value.startswith(MAGIC):
        raise Undecodable(
            Reason.NOT_OF_REGISTRY, f"the value begins with {value[:1]!r}, not with byte 0 and the id of a schema"
        )
    return int(struct.unpack_from(">I", value, 1)[0])


class Schemas:
    """A registry's Avro schemas by id.

    >>> schemas = Schemas(Decode(format="avro", registry_url="http://registry.invalid"))
    >>> schemas.learn([b'{"text": "plain JSON needs no schema"}', None])
    """

    def __init__(self, settings: Decode) -> None:
        """Makes no request. Raises SettingsError without fastavro, or for an unreadable certificate file."""
        require_avro()
        self._registry = _Registry(settings)
        self._known: dict[int, Any] = {}
        self._unknown: dict[int, str] = {}

    def learn(self, values: Iterable[bytes | None]) -> None:
        """Look up these values' unknown schemas. Raises RegistryUnavailable.

        Asks again for a missing id: it may be registered later.
        """
        self._unknown.clear()
        for number in dict.fromkeys(_named_by(values)):
            if number not in self._known:
                self._look_up(number)

    def require_answer(self) -> None:
        """Raise RegistryUnavailable without an answer to a request for a schema, existing or not."""
        with suppress(_NoSchema):
            self._registry.ask("/schemas/ids/1")

    def json_of(self, value: bytes) -> bytes:
        """An Avro record as JSON, after `learn`. Times become ISO 8601, decimals and UUIDs texts. Raises Undecodable."""
        import fastavro

        number = schema_of(value)
        if number not in self._known:
            raise Undecodable(Reason.SCHEMA_UNKNOWN, self._unknown.get(number, f"schema {number} was not looked up"))
        stream = io.BytesIO(value)
        stream.seek(PREFIX_BYTES)
        try:
            datum = fastavro.schemaless_reader(stream, self._known[number], None)
            if (left := len(value) - stream.tell()) != 0:
                raise ValueError(f"{left} bytes are left over")
            return orjson.dumps(datum, default=_plain, option=orjson.OPT_NON_STR_KEYS)
        except (ValueError, TypeError, LookupError, ArithmeticError, EOFError, struct.error, RecursionError) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Undecodable(Reason.NOT_AVRO, f"the value is not Avro of schema {number}: {why}") from error

    def _look_up(self, number: int) -> None:
        import fastavro

        try:
            answer = self._registry.ask(f"/schemas/ids/{number}")
            kind = answer.get("schemaType", "AVRO")
            if kind != "AVRO":
                other = ': set decode.format = "json-schema"' if kind == "JSON" else ", which is not read"
                raise _NoSchema(f"schema {number} is of the kind {kind}{other}")
            named: dict[str, Any] = {}
            self._parse_references(answer, named, 0)
            self._known[number] = fastavro.parse_schema(json.loads(answer["schema"]), named)
        except _NoSchema as unknown:
            self._unknown[number] = f"schema {number}: {unknown}"
        except (fastavro.schema.SchemaParseException, LookupError, ValueError, TypeError, RecursionError) as error:
            self._unknown[number] = (
                f"schema {number} of the registry is no schema of Avro ({type(error).__name__}: {error})"
            )

    def _parse_references(self, answer: Mapping[str, Any], named: dict[str, Any], depth: int) -> None:
        import fastavro

        if depth > _NESTED_MAX:
            raise _NoSchema("its references go in a circle")
        for each in answer.get("references") or ():
            reference = self._registry.ask(
                f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
            )
            self._parse_references(reference, named, depth + 1)
            if each["name"] not in named:
                fastavro.parse_schema(json.loads(reference["schema"]), named)


class _NoSchema(Exception):
    """The registry lacks this schema."""


class _Registry:
    def __init__(self, settings: Decode) -> None:
        self._url = (settings.registry_url or "").rstrip("/")
        self._timeout_seconds = settings.registry_timeout_ms / 1000
        self._authorization = None
        if settings.registry_user is not None and settings.registry_password is not None:
            both = f"{settings.registry_user}:{settings.registry_password.get_secret_value()}".encode()
            self._authorization = f"Basic {base64.b64encode(both).decode()}"
        # As with the brokers, no proxy is supported.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_context(settings.registry_cafile)))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path: str) -> Mapping[str, Any]:
        """The answer to GET. Raises _NoSchema, or RegistryUnavailable without a conclusive answer."""
        request = urllib.request.Request(f"{self._url}{path}", headers={"Accept": "application/json"})
        if self._authorization is not None:
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            answer = json.loads(within(self._timeout_seconds, lambda: self._get(request)))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, path) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unavailable(
                path, str(getattr(error, "reason", "")) or str(error) or type(error).__name__
            ) from error
        if not isinstance(answer, dict):
            raise self._unavailable(path, "the answer is no object")
        return answer

    def _get(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._timeout_seconds) as response:
            content: bytes = response.read(_ANSWER_BYTES_MAX)
        return content

    def _refused(self, error: urllib.error.HTTPError, path: str) -> Exception:
        try:
            answer = json.loads(error.read(_ANSWER_BYTES_MAX))
            code, message = int(answer["error_code"]), str(answer.get("message", ""))
        except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError):
            code, message = error.code, ""
        if code in _UNKNOWN:
            return _NoSchema(message or "the registry does not know it")
        if error.code in (401, 403):
            message = message or "decode.registry_user and decode.registry_password are wrong or lack the right to read"
            return RegistryRefuses(self._message(path, f"{error.code} {error.reason} {message}".strip()))
        return self._unavailable(path, f"{error.code} {error.reason} {message}".strip())

    def _unavailable(self, path: str, why: str) -> RegistryUnavailable:
        return RegistryUnavailable(self._message(path, why))

    def _message(self, path: str, why: str) -> str:
        return (
            f"decode.registry_url: {self._url}{path} cannot be asked ({why}). Records wait, none is lost: reading goes on once "
            "it answers."
        )


def within(timeout_seconds: float, call: Callable[[], bytes]) -> bytes:
    """Result of a call whose own timeout only bounds the wait for each byte; raises its errors, or TimeoutError."""
    results: SimpleQueue[bytes | OSError | http.client.HTTPException] = SimpleQueue()

    def answer() -> None:
        try:
            results.put(call())
        except (OSError, http.client.HTTPException) as error:
            results.put(error)

    # Daemonic: an abandoned call must not keep the process from ending.
    threading.Thread(target=answer, name="registry", daemon=True).start()
    try:
        result = results.get(timeout=timeout_seconds)
    except Empty:
        raise TimeoutError("timed out") from None
    if isinstance(result, bytes):
        return result
    raise result


def _context(authorities: Path | None) -> ssl.SSLContext:
    with usable("decode.registry_cafile", authorities, "certificates of authorities in PEM"):
        return ssl.create_default_context(cafile=None if authorities is None else str(authorities))


def _named_by(values: Iterable[bytes | None]) -> Iterator[int]:
    for value in values:
        if value is not None and len(value) >= PREFIX_BYTES and value.startswith(MAGIC):
            yield schema_of(value)


def _plain(value: object) -> str:
    """Text for a value without a JSON form; non-UTF-8 bytes by their values, as in JSON-encoded Avro."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")
    return str(value)
