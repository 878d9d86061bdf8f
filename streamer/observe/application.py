"""Routes of the HTTP port: methods, limits, and the common error form. The only importer of Starlette.

Each queue has its own threads, so a slow request never delays a probe.
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
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

REQUEST_SECONDS = 10
"""Maximum time for a request's body, and before the next request on a connection."""

WAITING_MAX = 64
"""Most requests in a queue, before 503. Probes are exempt."""

PROBES = "probes"
"""Queue for probes."""

_ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Route:
    """Requests with one path and method.

    >>> Route("/v1/documents/{id:any}", "GET", lambda identity: respond(HTTPStatus.OK, JSON, identity)).method
    'GET'

    path    in Starlette's syntax, with at most one parameter; `any` takes all characters, slashes and line feeds too
    method  GET (which includes HEAD) or POST
    handle  runs on a thread with the body or the path's parameter
    admit   checks the headers before the body, without waiting; returns a refusal or None
    named   parameters of the query. With any, `handle` gets a JSON object: those that came, and the path's as "path"
    queue   slow routes' queue, one request at a time; "" answers four at a time
    """

    path: str
    method: str
    handle: Callable[[bytes], Response]
    admit: Callable[[Mapping[str, str]], Response | None] = lambda _: None
    body_bytes_max: int = 0
    queue: str = ""
    named: tuple[str, ...] = ()


def respond(status: HTTPStatus, content_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Response that caches do not store."""
    return Response(body, status, {"Content-Type": content_type, **_ALWAYS, **(headers or {})})


def problem(status: HTTPStatus, field: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Error response. `field` names the invalid part; "" is the whole request."""
    return respond(status, JSON, error_body(field, message), headers)


def error_body(field: str, message: str) -> bytes:
    """Error form, as JSON."""
    return orjson.dumps({"error": {"field": field, "message": message}})


class _Any(PathConvertor):
    regex = r"[\s\S]*"


register_url_convertor("any", _Any())


class Application:
    """ASGI application for the routes.

    >>> Application([Route("/live", "GET", lambda _: respond(HTTPStatus.OK, TEXT, b"yes"))]).close()
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._paths = ", ".join(dict.fromkeys(route.path.replace(":any", "") for route in routes))
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
        """Stop idle threads; busy ones finish."""
        for threads in self._queues.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._starlette(_with_path_alone(scope), receive, send)

    async def _refuse(self, _: Request, refused: Exception) -> Response:
        assert isinstance(refused, HTTPException)
        if refused.status_code == HTTPStatus.NOT_FOUND:
            return problem(HTTPStatus.NOT_FOUND, "", f"no such path; use one of {self._paths}; / needs ask.enabled")
        allowed = ", ".join(sorted((refused.headers or {})["Allow"].split(", ")))
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, "", f"only {allowed}", {"Allow": allowed})

    async def _answer(self, route: Route, request: Request) -> Response:
        refused = route.admit(request.headers)
        if refused is not None:
            return refused
        path = "".join(request.path_params.values())
        if request.path_params and not path:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        payload: bytes | Response = path.encode()
        if route.named:
            asked = {name: request.query_params[name] for name in route.named if name in request.query_params}
            payload = orjson.dumps({"path": path, **asked})
        if route.body_bytes_max:
            payload = await _body(request, route.body_bytes_max)
        if isinstance(payload, Response):
            return payload
        if route.queue != PROBES and self._waiting[route.queue] >= WAITING_MAX:
            message = f"{WAITING_MAX} requests are waiting: try again in a second"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "", message, {"Retry-After": "1"})
        self._waiting[route.queue] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._queues[route.queue], route.handle, payload)
        finally:
            self._waiting[route.queue] -= 1


def _with_path_alone(scope: Scope) -> Scope:
    """Replace a target in absolute form by its path and host (RFC 9112, 3.2.2)."""
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
        return problem(HTTPStatus.BAD_REQUEST, "", "the client disconnected", close)
    except TimeoutError:
        return problem(HTTPStatus.REQUEST_TIMEOUT, "", f"no body within {REQUEST_SECONDS} seconds", close)
    return bytes(body)
