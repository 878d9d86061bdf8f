"""The port answers three paths, and passes on exactly what the process behind it says."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from streamer.errors import SettingsError
from streamer.observe import http as port
from streamer.observe import metrics
from streamer.observe.http import HttpServer, Request, Response, Route


class Process:
    """The process behind the server, with answers that a test changes."""

    def __init__(self) -> None:
        self.health = (True, "ok")
        self.ready = (False, "worker 0 is starting")
        self.measures = metrics.Metrics()


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def server(process: Process) -> Iterator[HttpServer]:
    with HttpServer(
        "127.0.0.1", 0, process.measures.exposition, lambda: process.health, lambda: process.ready
    ) as running:
        yield running


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


def test_port_0_picks_a_free_port(server: HttpServer) -> None:
    assert server.port > 0


def test_metrics_are_served_in_the_format_they_claim(server: HttpServer, process: Process) -> None:
    process.measures.restored(3)
    status, content_type, body = ask(server, "/metrics")
    assert status == 200
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert "neardup_restored_total 3.0" in body


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize(("well", "status"), [(True, 200), (False, 503)])
def test_a_check_answers_with_its_status_and_its_words(
    server: HttpServer, process: Process, path: str, well: bool, status: int
) -> None:
    answers = {"/healthz": (not well, "other"), "/readyz": (not well, "other"), path: (well, "Wörter für Menschen")}
    process.health, process.ready = answers["/healthz"], answers["/readyz"]
    assert ask(server, path) == (status, "text/plain; charset=utf-8", "Wörter für Menschen\n")


def test_a_query_string_changes_nothing(server: HttpServer) -> None:
    assert ask(server, "/healthz?verbose=1")[0] == 200


@pytest.mark.parametrize("path", ["/", "/metricsx", "/healthz/", "/favicon.ico"])
def test_an_unknown_path_is_not_found(server: HttpServer, path: str) -> None:
    status, _, body = ask(server, path)
    assert status == 404
    assert "/metrics, /healthz, /readyz" in body


def test_head_answers_without_a_body_and_other_methods_are_refused(server: HttpServer) -> None:
    assert ask(server, "/readyz", "HEAD") == (503, "text/plain; charset=utf-8", "")
    assert ask(server, "/metrics", "POST")[0] == 405


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    """asyncio turns Nagle's algorithm off only for sockets that name their protocol; on, an answer takes 40 ms."""
    with port._listening("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_connection_over_which_no_request_comes_is_closed(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as silent:
        silent.sendall(b"GET /heal")
        assert silent.recv(1) == b""


def test_questions_that_wait_hold_up_no_probe_and_too_many_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "WAITING_MAX", 1)
    begun, answered = threading.Event(), threading.Event()

    def slow(_: Request) -> Response:
        begun.set()
        assert answered.wait(10)
        return Response(HTTPStatus.OK, "text/plain", b"at last")

    routes = [Route("/slow", "GET", slow, queue="slow")]
    with HttpServer("127.0.0.1", 0, lambda: b"", lambda: (True, "ok"), lambda: (True, "ok"), routes=routes) as running:
        first: list[int] = []
        asking = threading.Thread(target=lambda: first.append(ask(running, "/slow")[0]))
        asking.start()
        assert begun.wait(10)
        assert ask(running, "/slow")[0] == 503
        assert ask(running, "/healthz")[0] == 200
        answered.set()
        asking.join()
    assert first == [200]


def test_a_silent_client_holds_up_nobody_else(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5):
        assert ask(server, "/healthz")[0] == 200


def test_a_port_in_use_is_an_error_that_names_the_setting(server: HttpServer, process: Process) -> None:
    second = HttpServer(
        "127.0.0.1", server.port, process.measures.exposition, lambda: process.health, lambda: process.ready
    )
    with pytest.raises(SettingsError, match=rf"observe\.port: cannot listen on 127\.0\.0\.1:{server.port}: Address"):
        second.start()


def test_a_host_that_is_not_ours_is_an_error_that_names_the_setting(process: Process) -> None:
    for host, message in (("no-such-host.invalid", r"observe\.host"), ("192.0.2.1", r"observe\.(host|port)")):
        server = HttpServer(host, 0, process.measures.exposition, lambda: process.health, lambda: process.ready)
        with pytest.raises(SettingsError, match=message):
            server.start()


def test_after_close_no_thread_is_left(server: HttpServer) -> None:
    assert ask(server, "/healthz")[0] == 200
    assert any(thread.name.startswith("http") for thread in threading.enumerate())
    server.close()
    deadline = time.monotonic() + 10
    while any(thread.name.startswith("http") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def test_after_close_nobody_listens_and_the_port_can_be_had_again(server: HttpServer, process: Process) -> None:
    port = server.port
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    again = HttpServer("127.0.0.1", port, process.measures.exposition, lambda: process.health, lambda: process.ready)
    with again:
        assert ask(again, "/healthz")[0] == 200
