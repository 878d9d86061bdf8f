"""Files on servers of this machine: a web server, a store, a line to either that breaks, and runs over both."""

import hashlib
import json
import random
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from streamer.transports.files.remote import Remote
from streamer.transports.files.store import StoreReader
from tests.support.command_line import run

WORDS = ("ferry", "island", "harbour", "morning", "letter", "winter", "garden", "bridge", "market", "signal", "copper")


@dataclass
class Site:
    """What a web server has, and how it behaves.

    asked      method, path and Range of each request
    cut_after  bytes of a body after which it closes the connection; None: never
    gone_after  bytes of all bodies after which it answers 503; None: never
    """

    files: dict[str, bytes] = field(default_factory=dict)
    has_ranges: bool = True
    has_etags: bool = True
    has_sizes: bool = True
    modified: str = ""
    status: int = 0
    cut_after: int | None = None
    gone_after: int | None = None
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    sent_bytes: int = 0
    url: str = ""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """The site, with its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(has_body=False)

        def do_GET(self) -> None:
            self.answer(has_body=True)

        def answer(self, *, has_body: bool) -> None:
            wanted = self.headers.get("Range", "")
            site.asked.append((self.command, self.path, wanted))
            path = self.path.partition("?")[0].lstrip("/")
            content = site.files.get(path, b"")
            etag = f'"{hashlib.md5(content).hexdigest()}"'
            status = site.status or (200 if path in site.files else 404)
            if site.gone_after is not None and site.sent_bytes >= site.gone_after:
                status = 503
            if status == 200 and self.headers.get("If-Match", etag) != etag:
                status = 412
            body = content if status == 200 else b""
            headers: dict[str, str] = {"ETag": etag} if site.has_etags else {}
            headers |= {"Last-Modified": site.modified} if site.modified else {}
            part = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
            if part and site.has_ranges and status == 200:
                begin, end = int(part[1]), min(int(part[2]), len(content) - 1)
                status, body = 206, content[begin : end + 1]
                headers["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
            self.send_response(status)
            if site.has_sizes:
                headers["Content-Length"] = str(len(body))
            else:
                self.close_connection = True
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if has_body:
                sent = body if site.cut_after is None else body[: site.cut_after]
                site.sent_bytes += len(sent)
                with suppress(OSError):
                    self.wfile.write(sent)
                self.close_connection |= len(sent) < len(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Line:
    """A line to a server that breaks after so many bytes of answers in one connection.

    breaks_max  how often it does; then it holds, or is gone
    """

    port: int
    bytes_max: int
    breaks_max: int
    then_holds: bool
    breaks: int = 0

    @property
    def is_gone(self) -> bool:
        return not self.then_holds and self.breaks >= self.breaks_max


@contextmanager
def breaking_line(target: int, bytes_max: int, breaks_max: int, *, then_holds: bool = True) -> Iterator[Line]:
    """A line to this port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    line = Line(listener.getsockname()[1], bytes_max, breaks_max, then_holds)

    def carry(source: socket.socket, sink: socket.socket, bytes_max: float) -> None:
        carried = 0
        with suppress(OSError):
            while data := source.recv(2**16):
                carried += len(data)
                if line.is_gone:
                    break
                if carried > bytes_max and line.breaks < line.breaks_max:
                    line.breaks += 1
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def connect(client: socket.socket) -> None:
        if line.is_gone:
            client.close()
            return
        with client, socket.create_connection(("127.0.0.1", target)) as server:
            asking = threading.Thread(target=carry, args=(client, server, float("inf")), daemon=True)
            asking.start()
            carry(server, client, bytes_max)
            asking.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=connect, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield line
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def store_of_objects() -> Iterator[str]:
    """Endpoint of an S3 server with the bucket `corpora`, without an object."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def pages(count: int, seed: int = 0) -> bytes:
    """Pages as JSON Lines, each third a copy of an earlier one."""
    chance, made = random.Random(seed), list[str]()
    for number in range(count):
        text = " ".join(chance.choices(WORDS, k=60)) if number % 3 else chance.choice(made or ["The ferry leaves."])
        made.append(text)
    return b"".join(json.dumps({"id": f"{at}", "text": text}).encode() + b"\n" for at, text in enumerate(made))


def filtered(folder: Path, *files: object, **settings: object) -> tuple[int, str, dict[str, bytes]]:
    options = [part for key, value in settings.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]
    options += ["--out", folder / "out", "--index", folder / "index", "--processes", 1]
    done = run("filter", *files, *options, "--set", "batch.records_max=1000")
    return done.code, done.err, {path.name: path.read_bytes() for path in sorted((folder / "out").glob("*.jsonl"))}


def content_of(remote: Remote, step: int = 100_000) -> bytes:
    with closing(StoreReader(remote)) as reader:
        return b"".join(iter(lambda: reader.read(step) or b"", b""))
