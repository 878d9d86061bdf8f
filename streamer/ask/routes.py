"""Routes of the HTTP API and the page, with authorization, rate limit and size limits."""

import hmac
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from urllib.parse import urlsplit

import orjson

from streamer.ask.openapi import description
from streamer.ask.reply import AskReply
from streamer.errors import SettingsError
from streamer.explain.words import page_words
from streamer.observe.application import JSON, Response, Route, problem, respond
from streamer.settings.ask import TOKEN_CHARACTERS_MIN, Ask, is_loopback
from streamer.settings.named_files import read_named


class Rate:
    """Token bucket for the requests per second of all callers, with bursts as large.

    >>> rate = Rate(1)
    >>> rate.admits(), rate.admits()
    (True, False)
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._left = float(per_second)
        self._at_seconds = clock()
        self._turn = threading.Lock()

    def admits(self) -> bool:
        """Whether one more request fits now; counts it."""
        with self._turn:
            now_seconds = self._clock()
            gained = (now_seconds - self._at_seconds) * self._per_second
            self._left, self._at_seconds = min(self._per_second, self._left + gained), now_seconds
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Authorizer:
    """Admits requests with the token; without one set, requests with a Host header that names this machine.

    >>> Authorizer(Ask(), "127.0.0.1").refuse({"host": "localhost:8000"}) is None
    True
    """

    def __init__(self, ask: Ask, host: str) -> None:
        """Raises SettingsError for an unusable token file."""
        self._token = _token(ask)
        self._host = host
        self._rate = Rate(ask.requests_per_second)

    def refuse(self, headers: Mapping[str, str]) -> Response | None:
        """Error response to a request without permission, or None."""
        refused = self.refuse_unauthorized(headers)
        if refused is None and not self._rate.admits():
            message = "more requests than ask.requests_per_second: try again in a second"
            refused = problem(HTTPStatus.TOO_MANY_REQUESTS, "", message, {"Retry-After": "1"})
        return refused

    def refuse_unauthorized(self, headers: Mapping[str, str]) -> Response | None:
        """`refuse`, without counting the request."""
        if self._token is not None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
                challenge = {"WWW-Authenticate": 'Bearer realm="ask"'}
                return problem(HTTPStatus.UNAUTHORIZED, "Authorization", "must be: Bearer TOKEN", challenge)
        elif not self._is_local_name(headers.get("host", "")):
            # DNS rebinding: another site's page could reach this port under that site's name.
            return problem(HTTPStatus.FORBIDDEN, "Host", "use an address of this machine, or set ask.token_file")
        return None

    def _is_local_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == self._host or is_loopback(name)


def routes_for(
    chosen: Ask, host: str, ask: Callable[[str, bytes], AskReply], status: Callable[[], bytes]
) -> list[Route]:
    """Routes of the API and the page. Raises SettingsError for an unusable token file.

    host    address of the port, `observe.host`
    ask     see `Answers.answer`; may wait
    status  state of the service, as JSON
    """
    authorizer = Authorizer(chosen, host)
    described = orjson.dumps(description(chosen))
    page = page_with_words()
    page_headers = {"Content-Security-Policy": policy_for(page), "Referrer-Policy": "no-referrer"}

    def asking(question: str) -> Callable[[bytes], Response]:
        def answer(payload: bytes) -> Response:
            reply = ask(question, payload)
            return respond(reply.status, JSON, reply.body)

        return answer

    def refuse_form(headers: Mapping[str, str]) -> Response | None:
        refused = authorizer.refuse(headers)
        # Another site's page cannot send this type without a preflight request.
        if refused is None and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            refused = problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type", f"must be {JSON}")
        return refused

    queue = "document" if chosen.texts else "check"
    return [
        Route("/v1/check", "POST", asking("check"), refuse_form, chosen.body_bytes_max, queue="check"),
        Route("/v1/documents/{id:any}", "GET", asking("document"), authorizer.refuse, queue=queue),
        Route("/v1/texts/{id:any}", "GET", asking("texts"), authorizer.refuse, queue=queue),
        Route("/v1/pairs/{host:any}", "GET", asking("pairs"), authorizer.refuse, queue="check"),
        Route("/v1/pairs", "GET", asking("pairs"), authorizer.refuse, queue="check"),
        Route("/v1/stories/{host:any}", "GET", asking("stories"), authorizer.refuse, queue="check", named=("scope",)),
        Route("/v1/stories", "GET", asking("stories"), authorizer.refuse, queue="check", named=("scope",)),
        Route("/v1/audit", "GET", asking("audit"), authorizer.refuse, queue="check"),
        Route("/v1/status", "GET", lambda _: respond(HTTPStatus.OK, JSON, status()), authorizer.refuse_unauthorized),
        Route("/v1/openapi.json", "GET", lambda _: respond(HTTPStatus.OK, JSON, described)),
        Route("/", "GET", lambda _: respond(HTTPStatus.OK, "text/html; charset=utf-8", page, page_headers)),
    ]


def page_with_words() -> bytes:
    """The page, which speaks the reader's language: its script holds the words of all."""
    page = files("streamer.ask").joinpath("page.html").read_bytes()
    return page.replace(b"const WORDS = {}", b"const WORDS = " + orjson.dumps(page_words()))


def policy_for(page: bytes) -> str:
    """Content-Security-Policy: only the page's script and style, by digest, and requests to its origin."""
    digests = {
        kind: " ".join(
            f"'sha256-{b64encode(sha256(content).digest()).decode()}'"
            for content in re.findall(rb"<%b>(.*?)</%b>" % (kind.encode(), kind.encode()), page, re.DOTALL)
        )
        for kind in ("script", "style")
    }
    return (
        f"default-src 'none'; script-src {digests['script']}; style-src {digests['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _token(ask: Ask) -> bytes | None:
    if ask.token is not None:
        return ask.token.get_secret_value().encode()
    if ask.token_file is None:
        return None
    token = read_named("ask.token_file", ask.token_file).strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise SettingsError(f"ask.token_file: {ask.token_file}: must hold at least {TOKEN_CHARACTERS_MIN} characters")
    return token
