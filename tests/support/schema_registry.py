"""A schema registry on the loopback: a real HTTP server that speaks the part of the REST API that readers use."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Thread
from typing import Any

import fastavro

PAGE = {
    "type": "record",
    "name": "Page",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "url", "type": ["null", "string"], "default": None},
        {"name": "crawled", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "text", "type": "string"},
    ],
}


@dataclass
class Registry:
    """Schemas by id, and by subject and version; every request that came, and what answers in their place."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0
    credentials: str | None = None
    instead: tuple[int, bytes] | None = None
    byte_seconds: float = 0.0
    """Wait before each byte of an answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, number: int, schema: object, **more: Any) -> None:
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.credentials is not None:
            wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode()
            if authorization != wanted:
                return 401, b'{"error_code":401,"message":"Unauthorized"}'
        if self.instead is not None:
            return self.instead
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            found, code = self.schemas.get(int(parts[2])), 40403
        elif parts[0] == "subjects":
            found, code = self.subjects.get((parts[1], int(parts[3]))), 40401
        else:
            return 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
        if found is None:
            return 404, json.dumps({"error_code": code, "message": "not found"}).encode()
        return 200, json.dumps(found).encode()


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """The registry behind a port; its own again where it had one before."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):
                if not registry.byte_seconds:
                    self.wfile.write(body)
                for byte in body if registry.byte_seconds else b"":
                    time.sleep(registry.byte_seconds)
                    self.wfile.write(bytes([byte]))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", registry.port), Handler) as server:
        registry.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()


def framed(number: int, datum: bytes) -> bytes:
    """A datum in the wire format."""
    return b"\0" + number.to_bytes(4, "big") + datum


def avro(number: int, schema: Any, datum: object) -> bytes:
    """A record as a producer with a registry writes it."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return framed(number, out.getvalue())
