"""HTTP port of the service: /metrics for Prometheus, /healthz and /readyz for whoever keeps the service running, and routes.

The only importer of uvicorn, which speaks HTTP and TLS on one thread. What takes time runs on other threads: a question
that waits never holds up a probe. Connections are accepted here and not by uvicorn: its limit answers 503 to a probe as
to any other request, and it waits a minute for a TLS handshake.
"""

import asyncio
import functools
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import orjson
import structlog
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from streamer.errors import SettingsError
from streamer.observe.connections import Connections
from streamer.observe.guard import OPEN, Guard
from streamer.observe.metrics import CONTENT_TYPE

log = structlog.get_logger(__name__)

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and a few words for people."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

HEAD_SECONDS = 2
"""Longest time that a client may take for its TLS handshake, and again for the head of a request."""

REQUEST_SECONDS = 10
"""Longest time that a client may take for the body of a request, or to begin the next one over the same connection."""

WAITING_MAX = 64
"""Most requests that wait in one queue; beyond it the server answers 503. Probes have no such limit."""

_PROBES = "probes"
_ACCEPT_PAUSE_SECONDS = 1

_STOP_SECONDS = 2
"""Longest time that `close` waits for answers under way."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    name     of a route that ends in a slash: what comes behind it, decoded
    headers  by name in lower case
    body     empty before it is read
    """

    method: str
    name: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One response; `headers` beside type, length and Cache-Control."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """Requests with one path and one method.

    path            one that ends in a slash, but for the slash alone, takes all paths below it
    method          GET (HEAD comes with it) or POST
    handle          called on a thread
    admit           called before the body is read, and may not wait; what it returns is the answer, if anything
    body_bytes_max  a larger body is refused
    queue           name of the queue of routes whose answers take time: they are made one after the other. "": at once
    """

    path: str
    method: str
    handle: Handler
    admit: Callable[[Request], Response | None] = lambda _: None
    body_bytes_max: int = 0
    queue: str = ""


class HttpServer:
    """Server of these paths and of `routes`, from a daemon thread; a context manager.

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
        routes: Sequence[Route] = (),
    ) -> None:
        self._host = host
        self._port = port
        self._guard = guard
        self._application = _Application([*_observing(exposition, health, ready, guard), *routes])
        self._running: tuple[Server, threading.Thread] | None = None

    @property
    def port(self) -> int:
        """Port that the server listens on; after `start` with port 0, the one that the system picked."""
        return self._port

    def start(self) -> None:
        """Listen, and answer from now on. Raises SettingsError where the address cannot be had."""
        listening = _listening(self._host, self._port)
        self._port = int(listening.getsockname()[1])
        server = _Server(_configuration(self._application, self._guard.context))
        thread = threading.Thread(target=server.run, args=([listening],), name="http", daemon=True)
        self._running = server, thread
        thread.start()

    def close(self) -> None:
        """Stop listening; answers under way may be cut off."""
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


def _observing(exposition: Callable[[], bytes], health: Check, ready: Check, guard: Guard) -> list[Route]:
    def metrics(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            words = b"the user (observe.user) or the password is wrong\n"
            challenge = {"WWW-Authenticate": 'Basic realm="metrics", charset="UTF-8"'}
            return Response(HTTPStatus.UNAUTHORIZED, TEXT, words, challenge)
        return Response(HTTPStatus.OK, CONTENT_TYPE, exposition())

    def checking(check: Check) -> Handler:
        def answer(_: Request) -> Response:
            well, words = check()
            return Response(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"{words}\n".encode())

        return answer

    return [
        Route("/metrics", "GET", metrics),
        Route("/healthz", "GET", checking(health), queue=_PROBES),
        Route("/readyz", "GET", checking(ready), queue=_PROBES),
    ]


class _Application:
    """The routes, as uvicorn calls them (ASGI)."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        # Each queue has threads of its own: requests that wait hold up no probe.
        self._queues = {
            queue: ThreadPoolExecutor(1 if queue else 4, f"http-{queue or 'quick'}")
            for queue in {route.queue for route in routes}
        }
        self._waiting = dict.fromkeys(self._queues, 0)

    def close(self) -> None:
        """End the threads that wait for work; what is under way on them ends by itself."""
        for threads in self._queues.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        response = await self._response(scope, receive)
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **response.headers,
        }
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": response.status.value, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})

    async def _response(self, scope: Any, receive: Any) -> Response:
        target, method = scope["raw_path"].decode("ascii"), scope["method"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, path = _host_and_path(target)
        if host:
            headers["host"] = host
        routes = [route for route in self._routes if _fits(route, path)]
        if not routes:
            known = ", ".join(dict.fromkeys(route.path for route in self._routes))
            return problem(HTTPStatus.NOT_FOUND, "", f"no such path; there are {known}")
        chosen = next((route for route in routes if route.method == ("GET" if method == "HEAD" else method)), None)
        if chosen is None:
            allowed = ", ".join("GET, HEAD" if route.method == "GET" else route.method for route in routes)
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "", f"only {allowed}", {"Allow": allowed})
        request = Request(method, unquote(path[len(chosen.path) :]), headers)
        refused = chosen.admit(request)
        if refused is not None:
            return refused
        if chosen.body_bytes_max:
            body = await _body(receive, chosen.body_bytes_max)
            if isinstance(body, Response):
                return body
            request = Request(method, request.name, headers, body)
        return await self._handled(chosen, request)

    async def _handled(self, route: Route, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        if route.queue != _PROBES and self._waiting[route.queue] >= WAITING_MAX:
            words = f"{WAITING_MAX} requests wait for their answers: try again in a second"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "", words, {"Retry-After": "1"})
        self._waiting[route.queue] += 1
        try:
            return await loop.run_in_executor(self._queues[route.queue], functools.partial(route.handle, request))
        finally:
            self._waiting[route.queue] -= 1


def _host_and_path(target: str) -> tuple[str, str]:
    """Host and path of a request's target; the host is "" unless the target is a whole URL (RFC 9112, 3.2.2)."""
    if target.startswith("/"):
        return "", target
    try:
        url = urlsplit(target)
    except ValueError:
        return "", ""
    return url.netloc, url.path or "/"


def _fits(route: Route, path: str) -> bool:
    if len(route.path) > 1 and route.path.endswith("/"):
        return len(path) > len(route.path) and path.startswith(route.path)
    return path == route.path


async def _body(receive: Any, bytes_max: int) -> bytes | Response:
    """Body of a request, or the answer to one that is too large or too slow."""
    close = {"Connection": "close"}
    parts: list[bytes] = []
    size, is_whole = 0, False
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            while not is_whole and size <= bytes_max:
                message = await receive()
                if message["type"] != "http.request":
                    return problem(HTTPStatus.BAD_REQUEST, "", "the client went away", close)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                is_whole = not message.get("more_body", False)
    except TimeoutError:
        return problem(HTTPStatus.REQUEST_TIMEOUT, "", f"no body within {REQUEST_SECONDS} seconds", close)
    if size > bytes_max:
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", f"the body has more than {bytes_max} bytes", close)
    return b"".join(parts)


def problem(status: HTTPStatus, field: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that cannot be answered; `field` names what is wrong, "" the request as a whole."""
    body = orjson.dumps({"error": {"field": field, "message": message}})
    return Response(status, JSON, body, headers or {})


class _Protocol(H11Protocol):
    """HTTP over one connection, with a time limit for the head of each request: the library has none."""

    _overdue: asyncio.TimerHandle | None = None

    def is_answering(self) -> bool:
        """Whether a whole request came, whose answer the client has not yet refused to read."""
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
    """The library's server, which accepts connections as `Connections` admits them."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        assert sockets is not None
        self._connecting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(*sockets))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in (self._accepting, *self._connecting):
            task.cancel()
        await asyncio.wait([self._accepting])
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        connections, loop = Connections(), asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                stream, address = await loop.sock_accept(listening)
            except OSError as error:
                # Silent clients free their file descriptors within HEAD_SECONDS.
                log.warning("the port cannot accept a connection", reason=error.strerror)
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            protocol = _Protocol(self.config, self.server_state, {})
            if connections.admit(address[0], stream, protocol.is_answering):
                task = loop.create_task(self._connect(stream, protocol))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)
            else:
                stream.close()
            # While connections queue, `sock_accept` returns at once: let what they send be read.
            await asyncio.sleep(0)

    async def _connect(self, stream: socket.socket, protocol: _Protocol) -> None:
        seconds = None if self.config.ssl is None else HEAD_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                stream,
                ssl=self.config.ssl,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError:
            # The client left, speaks no TLS, or took too long for it.
            stream.close()


def _configuration(application: _Application, context: ssl.SSLContext | None) -> Config:
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
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise SettingsError(f"observe.host: {host!r} is not an address of this machine: {error.strerror}") from error
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on, and every answer waits 40 ms for it.
    listening = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[4])
        # Many silent clients at once must not keep a probe from connecting.
        listening.listen(socket.SOMAXCONN)
    except OSError as error:
        listening.close()
        raise SettingsError(f"observe.port: cannot listen on {host}:{port}: {error.strerror}") from error
    return listening
