"""HTTP port of the service: /metrics for Prometheus, /healthz and /readyz for whoever keeps the service running, and routes.

The only importer of uvicorn, which speaks HTTP and TLS on one thread. What takes time runs on other threads: a question
that waits never holds up a probe.
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
from urllib.parse import unquote

import orjson
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamer.errors import SettingsError
from streamer.observe.guard import OPEN, Guard
from streamer.observe.metrics import CONTENT_TYPE

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and a few words for people."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

REQUEST_SECONDS = 10
"""How long a client may take to send a request, or to send the next one over the same connection."""

CONNECTIONS_MAX = 500

WAITING_MAX = 64
"""Questions of a queue that wait for their answers, at most: a further one is told to come again."""

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
        server = Server(_configuration(self._application, self._guard.context))
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
        Route("/healthz", "GET", checking(health)),
        Route("/readyz", "GET", checking(ready)),
    ]


class _Application:
    """The routes, as uvicorn calls them (ASGI)."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        # Threads of their own: questions that wait hold up no probe.
        self._quick = ThreadPoolExecutor(4, "http-quick")
        self._queues = {route.queue: ThreadPoolExecutor(1, f"http-{route.queue}") for route in routes if route.queue}
        self._waiting = dict.fromkeys(self._queues, 0)

    def close(self) -> None:
        """End the threads that wait for work; what is under way on them ends by itself."""
        for threads in (self._quick, *self._queues.values()):
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
        path, method = scope["raw_path"].decode("ascii"), scope["method"]
        found = [route for route in self._routes if _fits(route, path)]
        if not found:
            known = ", ".join(dict.fromkeys(route.path for route in self._routes))
            return _plain(HTTPStatus.NOT_FOUND, f"nothing here; there are {known}")
        chosen = next((route for route in found if route.method == ("GET" if method == "HEAD" else method)), None)
        if chosen is None:
            allowed = ", ".join("GET, HEAD" if route.method == "GET" else route.method for route in found)
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}", {"Allow": allowed})
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
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
        if not route.queue:
            return await loop.run_in_executor(self._quick, functools.partial(route.handle, request))
        if self._waiting[route.queue] >= WAITING_MAX:
            words = f"{WAITING_MAX} questions wait for their answers: come again in a second"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "", words, {"Retry-After": "1"})
        self._waiting[route.queue] += 1
        try:
            return await loop.run_in_executor(self._queues[route.queue], functools.partial(route.handle, request))
        finally:
            self._waiting[route.queue] -= 1


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


def _plain(status: HTTPStatus, words: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, TEXT, f"{words}\n".encode(), headers or {})


class _Protocol(H11Protocol):
    """HTTP over one connection, which is closed where no request comes: the library waits for the first one for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._first = self.loop.call_later(REQUEST_SECONDS, self._require_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._first.cancel()
        super().connection_lost(exc)

    def _require_request(self) -> None:
        request: object = self.cycle
        if request is None:
            self.transport.close()


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
        limit_concurrency=CONNECTIONS_MAX,
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
        listening.listen(CONNECTIONS_MAX)
    except OSError as error:
        listening.close()
        raise SettingsError(f"observe.port: cannot listen on {host}:{port}: {error.strerror}") from error
    return listening
