"""Routes of the port: methods, limits of bodies and queues, and the one form of all errors. The only importer of Starlette.

A handler runs on a thread of its queue, so a request that waits never holds up a probe.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

__all__ = [
    "JSON",
    "PROBES",
    "REQUEST_SECONDS",
    "TEXT",
    "Application",
    "Response",
    "Route",
    "error_body",
    "problem",
    "respond",
]

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

REQUEST_SECONDS = 10
"""Longest time that a client may take for the body of a request, or to begin the next one over the same connection."""

WAITING_MAX = 64
"""Most requests that wait in one queue; beyond it the server answers 503. Probes have no such limit."""

PROBES = "probes"
"""Queue of the probes."""

_ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Route:
    """Requests with one path and one method.

    >>> Route("/v1/documents/{id:path}", "GET", lambda identity: respond(HTTPStatus.OK, JSON, identity)).method
    'GET'

    path            as Starlette writes it, with one parameter at most
    method          GET (HEAD comes with it) or POST
    handle          called on a thread with the body, or with the path's parameter
    admit           called with the headers before the body is read, and may not wait; what it returns is the answer, if anything
    body_bytes_max  a larger body is refused
    queue           name of the queue of routes whose answers take time: one answer after the other. "": four at a time
    """

    path: str
    method: str
    handle: Callable[[bytes], Response]
    admit: Callable[[Mapping[str, str]], Response | None] = lambda _: None
    body_bytes_max: int = 0
    queue: str = ""


def respond(status: HTTPStatus, content_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """A response that no cache keeps."""
    return Response(body, status, {"Content-Type": content_type, **_ALWAYS, **(headers or {})})


def problem(status: HTTPStatus, field: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that cannot be answered; `field` names what is wrong, "" the request as a whole."""
    return respond(status, JSON, error_body(field, message), headers)


def error_body(field: str, message: str) -> bytes:
    """The one form that all errors have, as JSON."""
    return orjson.dumps({"error": {"field": field, "message": message}})


class Application:
    """An ASGI application of these routes."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._paths = ", ".join(dict.fromkeys(route.path.replace(":path", "") for route in routes))
        self._queues = {
            queue: ThreadPoolExecutor(1 if queue else 4, f"http-{queue or 'quick'}")
            for queue in {route.queue for route in routes}
        }
        self._waiting = dict.fromkeys(self._queues, 0)
        self._starlette = Starlette(
            routes=[
                Path(route.path, functools.partial(self._answer, route), methods=[route.method]) for route in routes
            ],
            exception_handlers={HTTPException: self._refuse},
        )
        self._starlette.router.redirect_slashes = False

    def close(self) -> None:
        """End the threads that wait for work; what is under way on them ends by itself."""
        for threads in self._queues.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        await self._starlette(_with_path_alone(scope), receive, send)

    async def _refuse(self, _: Request, refused: Exception) -> Response:
        assert isinstance(refused, HTTPException)
        if refused.status_code == HTTPStatus.NOT_FOUND:
            return problem(HTTPStatus.NOT_FOUND, "", f"no such path; there are {self._paths}")
        allowed = ", ".join(sorted((refused.headers or {})["Allow"].split(", ")))
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, "", f"only {allowed}", {"Allow": allowed})

    async def _answer(self, route: Route, request: Request) -> Response:
        refused = route.admit(request.headers)
        if refused is not None:
            return refused
        asked: bytes | Response = "".join(request.path_params.values()).encode()
        if request.path_params and not asked:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        if route.body_bytes_max:
            asked = await _body(request, route.body_bytes_max)
        if isinstance(asked, Response):
            return asked
        if route.queue != PROBES and self._waiting[route.queue] >= WAITING_MAX:
            words = f"{WAITING_MAX} requests wait for their answers: try again in a second"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "", words, {"Retry-After": "1"})
        self._waiting[route.queue] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._queues[route.queue], route.handle, asked)
        finally:
            self._waiting[route.queue] -= 1


def _with_path_alone(scope: Scope) -> Scope:
    """The same request, where its target is a whole URL, with that URL's host and path (RFC 9112, 3.2.2)."""
    target = scope["raw_path"].decode("ascii")
    if target.startswith("/"):
        return scope
    try:
        url = urlsplit(target)
    except ValueError:
        return {**scope, "path": ""}
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {**scope, "path": unquote(url.path) or "/", "headers": [*headers, (b"host", url.netloc.encode())]}


async def _body(request: Request, bytes_max: int) -> bytes | Response:
    """Body of a request, or the answer to one that is too large or too slow."""
    close = {"Connection": "close"}
    body = bytearray()
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > bytes_max:
                    message = f"the body has more than {bytes_max} bytes"
                    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", message, close)
    except ClientDisconnect:
        return problem(HTTPStatus.BAD_REQUEST, "", "the client went away", close)
    except TimeoutError:
        return problem(HTTPStatus.REQUEST_TIMEOUT, "", f"no body within {REQUEST_SECONDS} seconds", close)
    return bytes(body)
