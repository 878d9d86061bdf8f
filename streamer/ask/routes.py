"""Routes of the port for questions: who may ask, how often, and how much; and the page."""

import hmac
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from streamer.ask.answers import Told
from streamer.ask.openapi import description
from streamer.errors import SettingsError
from streamer.observe.application import JSON, Response, Route, problem, respond
from streamer.settings.ask import TOKEN_CHARACTERS_MIN, Ask, is_loopback
from streamer.settings.settings import Settings


class Rate:
    """Requests a second at most, of all callers together; as many may come at once (token bucket)."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._at_seconds = clock()
        self._turn = threading.Lock()

    def admits(self) -> bool:
        """Whether one more request may come now; counts it."""
        with self._turn:
            now_seconds = self._clock()
            gained = (now_seconds - self._at_seconds) * self._per_second
            self._left, self._at_seconds = min(self._per_second, self._left + gained), now_seconds
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Door:
    """Who may ask: whoever has the token; without one, whoever speaks to this machine by a name of its own."""

    def __init__(self, ask: Ask, host: str) -> None:
        """Raises SettingsError for a token file that cannot be used."""
        self._token = _token(ask)
        self._host = host
        self._rate = Rate(ask.requests_per_second)

    def refuse(self, headers: Mapping[str, str]) -> Response | None:
        """The answer to a request that may not be asked; None for one that may."""
        refused = self.refuse_stranger(headers)
        if refused is None and not self._rate.admits():
            message = "more requests than ask.requests_per_second: come again in a second"
            refused = problem(HTTPStatus.TOO_MANY_REQUESTS, "", message, {"Retry-After": "1"})
        return refused

    def refuse_stranger(self, headers: Mapping[str, str]) -> Response | None:
        """As `refuse`, without counting the request."""
        if self._token is not None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
                challenge = {"WWW-Authenticate": 'Bearer realm="ask"'}
                return problem(HTTPStatus.UNAUTHORIZED, "Authorization", "a token is needed: Bearer TOKEN", challenge)
        elif not self._is_own_name(headers.get("host", "")):
            # A page of another site could make a browser ask under a name that leads here.
            return problem(HTTPStatus.FORBIDDEN, "Host", "without ask.token_file ask by the address of this machine")
        return None

    def _is_own_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == self._host or is_loopback(name)


def routes_for(settings: Settings, ask: Callable[[str, bytes], Told], status: Callable[[], bytes]) -> list[Route]:
    """Routes of the questions, and of the page.

    ask     see `Answers.tell`; may wait
    status  what the page shows of the service, as JSON

    Raises SettingsError for a token file that cannot be used.
    """
    door = Door(settings.ask, settings.observe.host)
    described = orjson.dumps(description(settings.ask))
    page = files("streamer.ask").joinpath("page.html").read_bytes()
    shown = {"Content-Security-Policy": policy_for(page), "Referrer-Policy": "no-referrer"}

    def asking(question: str) -> Callable[[bytes], Response]:
        def answer(asked: bytes) -> Response:
            told = ask(question, asked)
            return respond(told.status, JSON, told.body)

        return answer

    def refuse_form(headers: Mapping[str, str]) -> Response | None:
        refused = door.refuse(headers)
        # Only what a page of another site cannot send without asking first.
        if refused is None and headers.get("content-type", "").partition(";")[0].strip() != JSON:
            refused = problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type", f"must be {JSON}")
        return refused

    return [
        Route("/v1/check", "POST", asking("check"), refuse_form, settings.ask.body_bytes_max, queue="check"),
        Route(
            "/v1/documents/{id:path}",
            "GET",
            asking("document"),
            door.refuse,
            queue="document" if settings.ask.texts else "check",
        ),
        Route("/v1/pairs", "GET", asking("pairs"), door.refuse, queue="check"),
        Route("/v1/status", "GET", lambda _: respond(HTTPStatus.OK, JSON, status()), door.refuse_stranger),
        Route("/v1/openapi.json", "GET", lambda _: respond(HTTPStatus.OK, JSON, described)),
        Route("/", "GET", lambda _: respond(HTTPStatus.OK, "text/html; charset=utf-8", page, shown)),
    ]


def policy_for(page: bytes) -> str:
    """Content-Security-Policy of the page: its own script and style, questions to where it came from, and nothing else.

    A word of a document that became markup would run no script: no script has the digest of the page's.
    """
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
    token = _read(ask.token_file).strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise SettingsError(
            f"ask.token_file: {ask.token_file}: must hold a text of at least {TOKEN_CHARACTERS_MIN} characters"
        )
    return token


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"ask.token_file: {file}: cannot be read: {error.strerror}") from error
