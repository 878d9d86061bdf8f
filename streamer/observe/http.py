"""The service's HTTP port: /metrics for Prometheus, /healthz and /readyz for probes, and further routes.

The only importer of uvicorn and h11, which serve HTTP and TLS on one thread; slow handlers run on others. This module accepts
connections itself: uvicorn's limit answers 503 even to probes, and its TLS handshake may take a minute.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self

import h11
import structlog
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from streamer.errors import SettingsError
from streamer.observe.application import PROBES, REQUEST_SECONDS, TEXT, Application, Response, Route, respond
from streamer.observe.auth import OPEN, PortAuth
from streamer.observe.connections import Connections
from streamer.observe.metrics import CONTENT_TYPE

log = structlog.get_logger(__name__)

Check = Callable[[], tuple[bool, str]]
"""Whether the check passes, with a short message for people."""

HEAD_SECONDS = 2
"""Most seconds for the TLS handshake, and again for a request's head."""

_ACCEPT_PAUSE_SECONDS = 1

_STOP_SECONDS = 2
"""Maximum time that `close` waits for open requests."""


@dataclass(eq=False)
class HttpServer:
    """Serves these paths and `routes` from a daemon thread; a context manager.

    /metrics  200 with the exposition, or 401 without the password
    /healthz  200 while `health` passes, else 503, with its message: restart this process
    /readyz   the same with `ready`: the service is not working now

    Probes need no password: Kubernetes sends none.
    """

    _host: str
    port: int
    """The port; from `start` on the listening one, the system's choice for port 0."""
    _exposition: Callable[[], bytes]
    _health: Check
    _ready: Check
    _auth: PortAuth = OPEN
    routes: Sequence[Route] = ()

    def __post_init__(self) -> None:
        observing = _observing(self._exposition, self._health, self._ready, self._auth)
        self._application = Application([*observing, *self.routes])
        self._running: tuple[Server, threading.Thread] | None = None

    def start(self) -> None:
        """Listen and serve. Raises SettingsError for an unavailable address."""
        listening = _listening(self._host, self.port)
        self.port = int(listening.getsockname()[1])
        server = _Server(_configuration(self._application, self._auth.context))
        thread = threading.Thread(target=server.run, args=([listening],), name="http", daemon=True)
        self._running = server, thread
        thread.start()

    def close(self) -> None:
        """Stop; may cut off open requests."""
        if self._running is not None:
            server, thread = self._running
            server.should_exit = True
            thread.join()
            self._application.close()
            self._running = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _observing(exposition: Callable[[], bytes], health: Check, ready: Check, auth: PortAuth) -> list[Route]:
    def refuse(headers: Mapping[str, str]) -> Response | None:
        if auth.admits(headers.get("authorization", "")):
            return None
        message = b"the user (observe.user) or the password is wrong\n"
        challenge = {"WWW-Authenticate": 'Basic realm="metrics", charset="UTF-8"'}
        return respond(HTTPStatus.UNAUTHORIZED, TEXT, message, challenge)

    def answering(check: Check) -> Callable[[bytes], Response]:
        def answer(_: bytes) -> Response:
            passed, message = check()
            return respond(HTTPStatus.OK if passed else HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"{message}\n".encode())

        return answer

    return [
        Route("/metrics", "GET", lambda _: respond(HTTPStatus.OK, CONTENT_TYPE, exposition()), refuse),
        Route("/healthz", "GET", answering(health), queue=PROBES),
        Route("/readyz", "GET", answering(ready), queue=PROBES),
    ]


class _Protocol(H11Protocol):
    """HTTP on one connection, with a time limit for each request's head, which uvicorn lacks."""

    _overdue: asyncio.TimerHandle | None = None

    def is_answering(self) -> bool:
        """Whether a complete request awaits its response, and the client still reads."""
        return self._has_request() and not self.cycle.more_body and not self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_request():
            self._stop_waiting()
        elif self._overdue is None:
            self._await_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer also a client that has ended its side; asyncio would close the connection. TLS knows no such half."""
        return self.config.ssl is None and self.is_answering()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, where an answer may still be sent.

        uvicorn answers at once, also amid another response or after the last one of a connection, which h11 refuses.
        """
        if self.is_answering():
            # The answer to the request before comes first, and ends the connection.
            self.flow.pause_reading()
        elif self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self._has_request():
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        request: RequestResponseCycle | None = self.cycle
        return request is not None and not request.response_complete

    def _await_head(self) -> None:
        self._overdue = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class _Server(Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        assert sockets is not None
        self._connecting: set[asyncio.Task[None]] = set()
        self._connections = Connections()
        self._listening = sockets[0]
        self._listening.setblocking(False)
        self._listen()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)
        for task in self._connecting:
            task.cancel()
        await super().shutdown(sockets)

    def _listen(self) -> None:
        # Accept one connection per round, so that the loop reads earlier ones in between.
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            stream, address = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            # Silent clients free their file descriptors within HEAD_SECONDS.
            log.warning("cannot accept a connection", reason=error.strerror)
            loop.remove_reader(self._listening)
            loop.call_later(_ACCEPT_PAUSE_SECONDS, self._listen)
            return
        stream.setblocking(False)
        protocol = _Protocol(self.config, self.server_state, {})
        if self._connections.admit(address[0], stream, protocol.is_answering):
            task = loop.create_task(self._connect(stream, protocol))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            stream.close()

    async def _connect(self, stream: socket.socket, protocol: _Protocol) -> None:
        seconds = None if self.config.ssl is None else HEAD_SECONDS
        # The client left, speaks no TLS, or was too slow; or the server stopped.
        with suppress(OSError), ExitStack() as unless_connected:
            unless_connected.callback(stream.close)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                stream,
                ssl=self.config.ssl,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
            unless_connected.pop_all()


def _configuration(application: Application, context: ssl.SSLContext | None) -> Config:
    return Config(
        application,
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=REQUEST_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_context_factory=None if context is None else lambda *_: context,
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise SettingsError(f"observe.host: {host!r} is not an address of this machine: {error.strerror}") from error
    # With an unnamed protocol, asyncio leaves Nagle's algorithm on, which delays every response by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Many silent clients must not keep a probe from connecting.
        listening.listen(socket.SOMAXCONN)
    except OSError as error:
        listening.close()
        raise SettingsError(f"observe.port: cannot listen on {host}:{port}: {error.strerror}") from error
    return listening
