"""HTTP port of the service: /metrics for Prometheus, /healthz and /readyz for whoever keeps the service running."""

import socket
import sys
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from streamer.errors import SettingsError
from streamer.observe.guard import OPEN, Guard
from streamer.observe.metrics import CONTENT_TYPE

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and a few words for people."""

_TEXT = "text/plain; charset=utf-8"

_POLL_SECONDS = 0.1
"""Longest time that `close` waits for the thread to notice."""


class HttpServer:
    """Server of GET and HEAD on three paths, from a daemon thread; a context manager.

    /metrics  200 with the exposition; 401 to whom the guard does not know
    /healthz  200 while `health` says so, else 503; its words either way. A failure means: restart this process
    /readyz   the same with `ready`. A failure means: the service does not do its work now

    The two checks are for everybody: what probes them, such as Kubernetes, sends no password, and they tell little.
    """

    def __init__(
        self,
        host: str,
        port: int,
        exposition: Callable[[], bytes],
        health: Check,
        ready: Check,
        guard: Guard = OPEN,
    ) -> None:
        self._guard = guard
        self._host = host
        self._port = port
        self._exposition = exposition
        self._checks = {"/healthz": health, "/readyz": ready}
        self._server: _Server | None = None

    @property
    def port(self) -> int:
        """Port that the server listens on; after `start` with port 0, the one that the system picked."""
        return self._port if self._server is None else self._server.server_port

    def start(self) -> None:
        """Listen, and answer from now on. Raises SettingsError where the address cannot be had."""
        self._server = _listen(self._host, self._port)
        self._server.guard = self._guard
        self._server.set_app(self._answer)
        threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), name="http", daemon=True).start()

    def close(self) -> None:
        """Stop listening; answers under way may be cut off."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _answer(self, environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        admitted = self._guard.admits(environment.get("HTTP_AUTHORIZATION", ""))
        status, content_type, body = self._response(environment["REQUEST_METHOD"], environment["PATH_INFO"], admitted)
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", 'Basic realm="metrics", charset="UTF-8"'))
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environment["REQUEST_METHOD"] == "HEAD" else body]

    def _response(self, method: str, path: str, admitted: bool) -> tuple[HTTPStatus, str, bytes]:
        if path != "/metrics" and path not in self._checks:
            known = ", ".join(["/metrics", *self._checks])
            return HTTPStatus.NOT_FOUND, _TEXT, f"nothing here; there are {known}\n".encode()
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n"
        if path == "/metrics" and not admitted:
            return HTTPStatus.UNAUTHORIZED, _TEXT, b"the user (observe.user) or the password is wrong\n"
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE, self._exposition()
        well, words = self._checks[path]()
        return HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{words}\n".encode()


class _Handler(WSGIRequestHandler):
    # Seconds: a client that connects and says nothing must not hold its thread for ever.
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: one line per scrape and probe would bury all else."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    guard: Guard = OPEN

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        return self.guard.wrap(connection), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that break off, or speak no TLS: anybody could fill the log."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service for this host's name, which may take many seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()


class _ServerOverIPv6(_Server):
    address_family = socket.AF_INET6


def _listen(host: str, port: int) -> _Server:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    except socket.gaierror as error:
        raise SettingsError(f"observe.host: {host!r} is not an address of this machine: {error.strerror}") from error
    chosen = _ServerOverIPv6 if family == socket.AF_INET6 else _Server
    try:
        return chosen((host, port), _Handler)
    except OSError as error:
        raise SettingsError(f"observe.port: cannot listen on {host}:{port}: {error.strerror}") from error
