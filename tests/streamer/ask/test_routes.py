"""Only who may ask is let in: by token or from this machine, not too often, not too much, and in JSON."""

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

import orjson
import pytest

from streamer.ask.reply import AskReply
from streamer.ask.routes import Authorizer, Rate, policy_for, routes_for
from streamer.errors import SettingsError
from streamer.observe import application
from streamer.observe.http import HttpServer
from streamer.settings.settings import load

TOKEN = "correct-horse-battery-staple"
BODY = b'{"documents": [{"text": "a"}]}'


@contextmanager
def serving(*overrides: str) -> Iterator[HttpServer]:
    def ask(question: str, asked: bytes) -> AskReply:
        return AskReply(HTTPStatus.OK, orjson.dumps([question, asked.decode()]))

    settings = load(None, overrides, {})
    routes = routes_for(settings.ask, settings.observe.host, ask, lambda: b"{}")
    with HttpServer("127.0.0.1", 0, lambda: b"", lambda: (True, "ok"), lambda: (True, "ok"), routes=routes) as server:
        yield server


def ask(
    server: HttpServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_questions_reach_the_one_who_answers() -> None:
    with serving() as server:
        assert ask(server, "POST", "/v1/check", BODY)[:2] == (200, orjson.dumps(["check", BODY.decode()]).decode())
        status, body, headers = ask(server, "GET", "/v1/documents/http%3A%2F%2Fa%2Fb%3Fc%20%C3%A9")
        assert (status, orjson.loads(body)) == (200, ["document", "http://a/b?c é"])
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert ask(server, "GET", "/v1/pairs")[1] == '["pairs",""]'
        assert ask(server, "GET", "/v1/pairs/a%2Fb.example")[1] == '["pairs","a/b.example"]'
        for path, asked in (
            ("/v1/stories", {"path": ""}),
            ("/v1/stories?limit=3", {"path": ""}),
            ("/v1/stories?scope=", {"path": "", "scope": ""}),
            ("/v1/stories/a%2Fb.example?scope=eu%2Fwest+%C3%A9", {"path": "a/b.example", "scope": "eu/west é"}),
        ):
            assert orjson.loads(orjson.loads(ask(server, "GET", path)[1])[1]) == asked
        assert ask(server, "GET", "/v1/texts/a%2Fb")[1] == '["texts","a/b"]'
        assert ask(server, "GET", "/v1/documents/")[0] == 404
        for identity in ("a%0Ab", "%0A", "a%0D%0A", "a%00b", "a%E2%80%A8b", "a/%0A/"):
            status, body, _ = ask(server, "GET", f"/v1/documents/{identity}")
            assert (status, orjson.loads(body)) == (200, ["document", unquote(identity)])
        assert ask(server, "GET", "/v1/check")[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/v1/documents/a",
        "/v1/texts/a",
        "/v1/pairs",
        "/v1/pairs/a",
        "/v1/stories",
        "/v1/stories/a",
        "/v1/status",
        "/v1/check",
    ],
)
@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_who_has_not_the_token_hears_nothing(path: str, given: str) -> None:
    with serving(f"ask.token={TOKEN}") as server:
        method, body = ("POST", BODY) if path == "/v1/check" else ("GET", None)
        status, answer, headers = ask(server, method, path, body, Authorization=given)
        assert (status, orjson.loads(answer)["error"]["field"]) == (401, "Authorization")
        assert headers["WWW-Authenticate"].startswith("Bearer")
        assert ask(server, method, path, body, Authorization=f"bearer {TOKEN}")[0] == 200


def test_page_and_description_are_for_everybody_and_hold_no_data() -> None:
    with serving(f"ask.token={TOKEN}") as server:
        status, page, headers = ask(server, "GET", "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        policy = headers["Content-Security-Policy"]
        assert policy == policy_for(page.encode())
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert len(re.findall("'sha256-", policy)) == 2
        assert "每秒处理文档数" in page
        assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in page
        assert orjson.loads(ask(server, "GET", "/v1/openapi.json")[1])["security"] == [{"token": []}]


def test_without_a_token_a_name_of_another_machine_is_refused() -> None:
    """A page of evil.example, whose name was bound to 127.0.0.1, asks as evil.example."""
    with serving() as server:
        for host in ("evil.example", "evil.example:80", "[", ""):
            assert ask(server, "GET", "/v1/pairs", None, Host=host)[0] == 403
        for host in ("127.0.0.1", "localhost:9464", "[::1]:9464"):
            assert ask(server, "GET", "/v1/pairs", None, Host=host)[0] == 200


def test_a_form_of_another_page_is_no_question() -> None:
    with serving() as server:
        assert ask(server, "POST", "/v1/check", BODY, Content_Type="text/plain")[0] == 415
        for kind in ("Application/JSON", "APPLICATION/JSON; charset=UTF-8", "application/json ;charset=utf-8"):
            assert ask(server, "POST", "/v1/check", BODY, Content_Type=kind)[0] == 200
        assert ask(server, "POST", "/v1/check", BODY, Content_Type="application/json; charset=utf-8")[0] == 200


def test_a_body_beyond_the_limit_is_refused_also_where_it_does_not_say_so_before() -> None:
    with serving("ask.body_bytes_max=1024") as server:
        assert ask(server, "POST", "/v1/check", b" " * 1024)[0] == 200
        status, answer, _ = ask(server, "POST", "/v1/check", b" " * 1025)
        assert (status, "1024 bytes" in answer) == (413, True)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("POST", "/v1/check", iter([b" " * 600] * 2), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413
        connection.close()


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "REQUEST_SECONDS", 0.2)
    with serving() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.putrequest("POST", "/v1/check")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "10")
        connection.endheaders(b"half")
        assert connection.getresponse().status == 408
        connection.close()


def test_more_requests_than_allowed_are_told_to_come_again() -> None:
    with serving("ask.requests_per_second=1") as server:
        answers = [ask(server, "GET", "/v1/pairs") for _ in range(3)]
        assert answers[0][0] == 200
        status, body, headers = answers[-1]
        assert (status, headers["Retry-After"]) == (429, "1")
        assert "ask.requests_per_second" in body
        assert ask(server, "GET", "/v1/status")[0] == 200


def test_the_rate_holds_over_any_second() -> None:
    now = [0.0]
    rate = Rate(4, lambda: now[0])
    assert [rate.admits() for _ in range(5)] == [True] * 4 + [False]
    now[0] = 0.5
    assert [rate.admits() for _ in range(3)] == [True, True, False]
    now[0] = 100.0
    assert sum(rate.admits() for _ in range(10)) == 4


def test_a_token_file_is_read_and_what_is_wrong_with_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with serving(f"ask.token_file={file}") as server:
        assert ask(server, "GET", "/v1/pairs")[0] == 401
        assert ask(server, "GET", "/v1/pairs", None, Authorization=f"Bearer {TOKEN}")[0] == 200
    file.write_text("short\n")
    for chosen, words in ((file, "at least 16 characters"), (tmp_path / "none", "cannot be read: No such file")):
        settings = load(None, [f"ask.token_file={chosen}"], {})
        with pytest.raises(SettingsError, match=rf"^ask\.token_file: .*{words}"):
            Authorizer(settings.ask, "127.0.0.1")
