"""The port by TLS and with a password, asked as Prometheus and Kubernetes ask."""

import base64
import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import trustme
from structlog.testing import capture_logs

from streamer.errors import SettingsError
from streamer.observe import http as http_port
from streamer.observe.auth import PortAuth, port_auth
from streamer.observe.http import HttpServer
from streamer.settings.settings import Observe, Settings, load

AUTHORITY = trustme.CA()


def write_certificate(folder: Path, authority: trustme.CA = AUTHORITY) -> tuple[Path, Path]:
    leaf = authority.issue_cert("127.0.0.1")
    certificate, key = folder / "port.pem", folder / "port.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    return certificate, key


def with_auth(folder: Path) -> Observe:
    certificate, key = write_certificate(folder)
    password = folder / "password"
    password.write_text("päss:word\n", encoding="utf-8")
    return Observe(tls_certificate_file=certificate, tls_key_file=key, user="prometheus", password_file=password)


@pytest.fixture
def serve() -> Iterator[Callable[[PortAuth], int]]:
    """Factory of servers with this auth; returns their ports."""
    servers: list[HttpServer] = []

    def make(auth: PortAuth) -> int:
        servers.append(
            HttpServer("127.0.0.1", 0, lambda: b"neardup 1\n", lambda: (True, "ok"), lambda: (True, "ok"), auth)
        )
        servers[-1].start()
        return servers[-1].port

    yield make
    for server in servers:
        server.close()


def trusting(authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def ask(
    port: int, path: str, login: str | None = None, context: ssl.SSLContext | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    )
    headers = {} if login is None else {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_the_user_reads_the_metrics_by_tls_with_his_password(tmp_path: Path, serve: Callable[[PortAuth], int]) -> None:
    port = serve(port_auth(with_auth(tmp_path)))
    assert ask(port, "/metrics", "prometheus:päss:word", trusting())[:2] == (200, "neardup 1\n")


@pytest.mark.parametrize("login", [None, "prometheus:wrong", "other:päss:word", "prometheus", "prometheus:päss:word\n"])
def test_nobody_else_reads_them(tmp_path: Path, serve: Callable[[PortAuth], int], login: str | None) -> None:
    status, body, headers = ask(serve(port_auth(with_auth(tmp_path))), "/metrics", login, trusting())
    assert status == 401
    assert "neardup" not in body
    assert headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize("authorization", ["", "Basic", "Basic !", "Bearer " + base64.b64encode(b"a:b").decode()])
def test_what_is_no_basic_authentication_is_not_admitted(authorization: str) -> None:
    assert not PortAuth(login=("a", "b")).admits(authorization)
    assert PortAuth(login=("a", "b")).admits("basic " + base64.b64encode(b"a:b").decode())
    assert PortAuth().admits(authorization)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_password(tmp_path: Path, serve: Callable[[PortAuth], int], path: str) -> None:
    assert ask(serve(port_auth(with_auth(tmp_path))), path, None, trusting())[0] == 200


def test_the_certificate_can_be_held_against_its_authority(tmp_path: Path, serve: Callable[[PortAuth], int]) -> None:
    port = serve(port_auth(with_auth(tmp_path)))
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(port, "/healthz", None, trusting(trustme.CA()))


def test_clients_that_speak_no_tls_or_nothing_hold_up_no_other(
    tmp_path: Path, serve: Callable[[PortAuth], int], capfd: pytest.CaptureFixture[str]
) -> None:
    port = serve(port_auth(with_auth(tmp_path)))
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as rude:
        rude.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"neardup" not in rude.recv(4096)
        assert ask(port, "/healthz", None, trusting())[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_client_that_begins_no_handshake_is_cut_off(
    tmp_path: Path, serve: Callable[[PortAuth], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "HEAD_SECONDS", 0.2)
    port = serve(port_auth(with_auth(tmp_path)))
    with socket.create_connection(("127.0.0.1", port), timeout=5) as silent:
        assert silent.recv(1) == b""


def test_600_connections_without_a_handshake_do_not_keep_a_probe_from_its_answer(
    tmp_path: Path, serve: Callable[[PortAuth], int]
) -> None:
    port = serve(port_auth(with_auth(tmp_path)))
    with ExitStack() as clients:
        for _ in range(600):
            clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        assert ask(port, "/healthz", None, trusting())[0] == 200
        found = psutil.Process().net_connections("tcp")
        assert sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found) <= 65


def test_a_certificate_that_is_renewed_is_shown_without_a_restart(
    tmp_path: Path, serve: Callable[[PortAuth], int]
) -> None:
    port = serve(port_auth(with_auth(tmp_path)))
    renewed = trustme.CA()
    certificate, key = write_certificate(tmp_path, renewed)
    for file in (certificate, key):
        os.utime(file, (1, 1))
    assert ask(port, "/healthz", None, trusting(renewed))[0] == 200


def test_a_certificate_that_is_half_written_leaves_the_former_one(
    tmp_path: Path, serve: Callable[[PortAuth], int]
) -> None:
    observe = with_auth(tmp_path)
    port = serve(port_auth(observe))
    assert observe.tls_certificate_file is not None
    observe.tls_certificate_file.write_bytes(b"")
    with capture_logs() as logs:
        assert ask(port, "/healthz", None, trusting())[0] == 200
    assert "cannot reload" in logs[0]["event"]


@pytest.mark.parametrize("key", ["tls_certificate_file", "tls_key_file", "password_file"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, key: str) -> None:
    observe = with_auth(tmp_path).model_copy(update={key: tmp_path / "none"})
    with pytest.raises(SettingsError, match=f"^observe.{key}: .*none: cannot be read: No such file"):
        port_auth(observe)


@pytest.mark.parametrize("key", ["tls_certificate_file", "tls_key_file", "password_file"])
def test_a_file_that_is_empty_is_named(tmp_path: Path, key: str) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(SettingsError, match=f"observe.{key}: .*empty"):
        port_auth(with_auth(tmp_path).model_copy(update={key: tmp_path / "empty"}))


def test_a_password_that_is_no_text_is_told_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"secret\xff")
    with pytest.raises(SettingsError, match=r"observe.password_file: .*: is not UTF-8$"):
        port_auth(with_auth(tmp_path).model_copy(update={"password_file": tmp_path / "bytes"}))


@pytest.mark.parametrize(("one", "other"), [("tls_certificate_file", "tls_key_file"), ("user", "password_file")])
def test_half_an_auth_setting_is_refused(one: str, other: str) -> None:
    for key in (one, other):
        with pytest.raises(SettingsError, match=rf"observe.{one} .*must be set together with observe.{other}"):
            load(None, [f"observe.{key}=given"])


def test_without_settings_the_port_is_open() -> None:
    auth = port_auth(Settings().observe)
    assert auth.scheme == "http"
    assert auth.admits("")
