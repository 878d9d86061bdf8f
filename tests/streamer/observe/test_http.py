"""The port answers three paths, and passes on exactly what the process behind it says."""

import http.client
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http import HTTPStatus

import orjson
import psutil
import pytest

from streamer.errors import SettingsError
from streamer.observe import application, connections, definitions, metrics
from streamer.observe import http as port
from streamer.observe.application import TEXT, Response, Route, respond
from streamer.observe.connections import ADDRESS_CONNECTIONS_MAX
from streamer.observe.http import HttpServer


class Process:
    """The process behind the server, with answers that a test changes."""

    def __init__(self) -> None:
        self.health = (True, "ok")
        self.ready = (False, "worker 0 is starting")
        self.measures = metrics.Metrics()


@pytest.fixture
def process() -> Process:
    return Process()


def serving(process: Process, routes: Sequence[Route] = ()) -> HttpServer:
    exposition = process.measures.exposition
    return HttpServer("127.0.0.1", 0, exposition, lambda: process.health, lambda: process.ready, routes=routes)


@pytest.fixture
def server(process: Process) -> Iterator[HttpServer]:
    with serving(process) as running:
        yield running


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /refuses HTTP/1.1\r\nHost: a\r\n"
AFTER_THE_LAST = {
    "a chunk that is none": ([POST + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\nabc\r\n"], [b"415"]),
    "a body that is too long": ([POST + b"Connection: close\r\nContent-Length: 3\r\n\r\n", b"abcdef"], [b"415"]),
    "junk at once": ([GET + b"Connection: close\r\n\r\nJUNK\r\n\r\n"], [b"200"]),
    "junk later": ([GET + b"Connection: close\r\n\r\n", b"JUNK\r\n\r\n"], [b"200"]),
    "a request": ([GET + b"Connection: close\r\n\r\n", GET + b"\r\n"], [b"200"]),
    "a request of HTTP/1.0": ([b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n"], [b"200"]),
    "junk after one that goes on": ([GET + b"\r\n", b"JUNK\r\n\r\n", b"JUNK\r\n\r\n"], [b"200", b"400"]),
    "a head that is too long": ([GET + b"\r\n" + GET + b"A: " + b"a" * 100_000], [b"200", b"400"]),
    "junk twice": ([b"JUNK\r\n\r\n", b"JUNK\r\n\r\n"], [b"400"]),
}


@pytest.mark.parametrize("case", AFTER_THE_LAST)
@pytest.mark.parametrize("ending", ["waits", "shuts down", "resets"])
def test_what_follows_a_request_that_ends_its_connection_leaves_no_traceback(
    process: Process, caplog: pytest.LogCaptureFixture, case: str, ending: str
) -> None:
    def refuse(_: object) -> Response:
        return respond(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, TEXT, b"no")

    pieces, statuses = AFTER_THE_LAST[case]
    with serving(process, [Route("/refuses", "POST", refuse, refuse, body_bytes_max=100)]) as server:
        for pause_seconds in (0, 0.05):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            # The server may have closed the connection already.
            with connection, suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(pause_seconds)
                if ending == "resets":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    continue
                if ending == "shuts down":
                    connection.shutdown(socket.SHUT_WR)
                answer = b""
                with suppress(ConnectionResetError):
                    while part := connection.recv(65_536):
                        answer += part
                given = [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]
                # Half a request may become none before it is refused.
                assert given in (statuses, statuses[:1], [b"400"])
        assert ask(server, "/healthz")[0] == 200
    assert not caplog.records


def test_metrics_are_served_in_the_format_they_claim(server: HttpServer, process: Process) -> None:
    process.measures.count(definitions.RESTORED, 3)
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


@pytest.mark.parametrize("path", ["/", "/metricsx", "/healthz/", "/favicon.ico"])
def test_an_unknown_path_is_not_found(server: HttpServer, path: str) -> None:
    status, content_type, body = ask(server, path)
    assert (status, content_type) == (404, "application/json")
    message = orjson.loads(body)["error"]["message"]
    assert "/metrics, /healthz, /readyz" in message
    assert "/ needs ask.enabled" in message


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://127.0.0.1:9464/healthz", b"200"),
        (b"HTTP://127.0.0.1/healthz?verbose=1", b"200"),
        (b"http://127.0.0.1", b"404"),
        (b"http://[::1/healthz", b"404"),
        (b"*", b"404"),
    ],
)
def test_a_target_that_is_a_whole_url_names_the_same_path(server: HttpServer, target: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
        assert client.recv(4096).split()[1] == status


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
    monkeypatch.setattr(port, "HEAD_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as silent:
        silent.sendall(b"GET /heal")
        assert silent.recv(1) == b""


def test_a_second_request_that_does_not_come_whole_closes_the_connection_as_well(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "HEAD_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /heal")
        while client.recv(4096):
            pass


def flood(server: HttpServer, count: int, sent: bytes) -> ExitStack:
    """`count` connections at once, over each of which a client sends `sent`, and then nothing."""
    clients = ExitStack()
    for _ in range(count):
        client = clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
        with suppress(ConnectionError):
            client.sendall(sent)
    return clients


def accepted(server: HttpServer) -> int:
    """Connections that the server has open."""
    found = psutil.Process().net_connections("tcp")
    return sum(each.laddr.port == server.port and each.status == psutil.CONN_ESTABLISHED for each in found)


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"POST /asked HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"])
def test_600_silent_connections_do_not_keep_a_probe_from_its_answer(process: Process, sent: bytes) -> None:
    routes = [Route("/asked", "POST", lambda _: respond(HTTPStatus.OK, TEXT, b""), body_bytes_max=9)]
    with serving(process, routes) as server:
        for _ in range(2):
            with flood(server, 600, sent):
                for path in ("/healthz", "/readyz"):
                    assert ask(server, path)[0] == {"/healthz": 200, "/readyz": 503}[path]
                assert accepted(server) <= ADDRESS_CONNECTIONS_MAX


def test_without_the_limits_600_silent_connections_stay_open(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("ADDRESS_CONNECTIONS_MAX", "CONNECTIONS_MAX"):
        monkeypatch.setattr(connections, limit, 1_000)
    monkeypatch.setattr(port, "HEAD_SECONDS", 30)
    with flood(server, 600, b""):
        assert ask(server, "/healthz")[0] == 200
        assert accepted(server) > ADDRESS_CONNECTIONS_MAX


def test_clients_that_do_not_read_their_answers_count_as_silent(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ADDRESS_CONNECTIONS_MAX", 4)
    large = respond(HTTPStatus.OK, TEXT, bytes(8 * 2**20))
    with (
        serving(process, [Route("/large", "GET", lambda _: large)]) as server,
        flood(server, 12, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"),
    ):
        deadline = time.monotonic() + 20
        while accepted(server) > 4:
            assert ask(server, "/healthz")[0] == 200
            assert time.monotonic() < deadline, "not in time"


def test_a_process_without_free_file_descriptors_answers_a_probe_after_a_moment(server: HttpServer) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, timeout=5), socket.socket() as probe:
        probe.settimeout(10)
        deadline = time.monotonic() + 10
        while not accepted(server):
            assert time.monotonic() < deadline, "not in time"
        held = [os.dup(0) for _ in range(64)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, limits[1]))
        try:
            probe.connect(address)
            probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert probe.recv(4096).startswith(b"HTTP/1.1 200")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for descriptor in held:
                os.close(descriptor)


def test_600_requests_that_wait_do_not_keep_a_probe_from_its_answer(process: Process) -> None:
    answered = threading.Event()

    def slow(_: bytes) -> Response:
        assert answered.wait(30)
        return respond(HTTPStatus.OK, TEXT, b"")

    with (
        serving(process, [Route("/slow", "GET", slow)]) as server,
        flood(server, 600, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"),
    ):
        assert ask(server, "/healthz")[0] == 200
        status, _, body = ask(server, "/slow")
        assert (status, "try again" in body) == (503, True)
        answered.set()


def test_a_connection_that_waits_for_its_answer_outlives_a_flood_of_silent_ones(process: Process) -> None:
    begun, answered = threading.Event(), threading.Event()

    def slow(_: bytes) -> Response:
        begun.set()
        assert answered.wait(30)
        return respond(HTTPStatus.OK, TEXT, b"at last")

    with serving(process, [Route("/slow", "GET", slow)]) as server, ThreadPoolExecutor(1) as client:
        asked = client.submit(ask, server, "/slow")
        assert begun.wait(10)
        with flood(server, 600, b""):
            answered.set()
            assert asked.result(10)[::2] == (200, "at last")


def test_questions_that_wait_hold_up_no_probe_and_too_many_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "WAITING_MAX", 1)
    begun, answered = threading.Event(), threading.Event()

    def slow(_: bytes) -> Response:
        begun.set()
        assert answered.wait(10)
        return respond(HTTPStatus.OK, "text/plain", b"at last")

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
