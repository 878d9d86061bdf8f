"""Settings that a broker refuses are told from brokers that are away, against a real broker with every kind of listener."""

import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.settings import Kafka, Settings
from streamer.transports.kafka import handshake
from streamer.transports.kafka.handshake import greet, require_login, tls_context
from streamer.transports.kafka.topics import require_topics
from tests.support.secure_kafka import MECHANISMS, PLAIN_USER, Certificates, SecureKafka
from tests.support.transport_worlds import make_settings

# The client leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Changed = Mapping[str, object]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


def with_kafka(changed: Changed) -> Settings:
    settings = make_settings()
    return settings.model_copy(update={"kafka": Kafka(**(settings.kafka.model_dump() | dict(changed)))})


@pytest.fixture(scope="module")
def user(secure_kafka: SecureKafka) -> str:
    """A user of both mechanisms of SCRAM."""
    return secure_kafka.make_user(*MECHANISMS[1:])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
def test_the_right_password_is_taken(secure_kafka: SecureKafka, user: str, listener: str, mechanism: str) -> None:
    name = PLAIN_USER if mechanism == "PLAIN" else user
    settings = with_kafka(secure_kafka.connection(listener, name, mechanism))
    assert greet(settings.kafka, secure_kafka.address(listener)).brokers == (secure_kafka.address(listener),)
    require_login(settings.kafka)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL"])
def test_the_right_certificate_is_taken_and_its_end_is_known(secure_kafka: SecureKafka, listener: str) -> None:
    settings = with_kafka(secure_kafka.connection(listener))
    greeting = greet(settings.kafka, secure_kafka.address(listener))
    assert greeting.certificate_expires is not None
    assert greeting.certificate_expires > time.time()


def wrong_password(mechanism: str) -> Callable[[SecureKafka, str], Changed]:
    def make(secure_kafka: SecureKafka, user: str) -> Changed:
        name = PLAIN_USER if mechanism == "PLAIN" else user
        return {**secure_kafka.connection("SASL", name, mechanism), "sasl_password": "wrong-password"}

    return make


def on(listener: str, **changed: object) -> Callable[[SecureKafka, str], Changed]:
    return lambda secure_kafka, user: {**secure_kafka.connection(listener, user), **changed}


def showing(certificate: str, key: str) -> Callable[[SecureKafka, str], Changed]:
    def make(secure_kafka: SecureKafka, user: str) -> Changed:
        held: Certificates = secure_kafka.certificates
        return {
            **secure_kafka.connection("MUTUAL"),
            "ssl_certfile": getattr(held, certificate),
            "ssl_keyfile": getattr(held, key),
        }

    return make


def speaking(listener: str, as_if: str) -> Callable[[SecureKafka, str], Changed]:
    """Settings that are right for the listener `as_if`, at the address of another."""

    def make(secure_kafka: SecureKafka, user: str) -> Changed:
        right = secure_kafka.connection(as_if, user) if as_if != "PLAINTEXT" else {}
        return {**right, "bootstrap_servers": [secure_kafka.address(listener)]}

    return make


def trusting_another(secure_kafka: SecureKafka, user: str) -> Changed:
    return {**secure_kafka.connection("TLS"), "ssl_cafile": secure_kafka.certificates.other_authority}


def by_the_name_of_its_certificate(secure_kafka: SecureKafka, user: str) -> Changed:
    """The first broker is right, but tells of one that is not."""
    port = secure_kafka.address("ELSEWHERE").rpartition(":")[2]
    return {**secure_kafka.connection("ELSEWHERE"), "bootstrap_servers": [f"localhost:{port}"]}


WRONG: dict[str, tuple[Callable[[SecureKafka, str], Changed], str]] = {
    **{
        f"a wrong password of {mechanism}": (
            wrong_password(mechanism),
            "kafka.sasl_username .* and kafka.sasl_password: ",
        )
        for mechanism in MECHANISMS
    },
    "an unknown user": (on("SECURE", sasl_username="nobody"), r"kafka.sasl_username \(nobody\)"),
    "another authority": (trusting_another, r"kafka.ssl_cafile \(.*other.pem\): does not hold the authority"),
    "no authority": (on("TLS", ssl_cafile=None), r"kafka.ssl_cafile \(unset, so the system's"),
    "a broker's certificate that expired": (on("EXPIRED"), "the certificate of .* has expired: renew it"),
    "a certificate of another host": (on("ELSEWHERE"), "kafka.bootstrap_servers: .* is not made out to '127.0.0.1'"),
    "one only behind the first broker": (by_the_name_of_its_certificate, "correct advertised.listeners"),
    "no certificate to show": (
        on("MUTUAL", ssl_certfile=None, ssl_keyfile=None),
        r"kafka.ssl_certfile \(unset\): .* refuses this client's certificate .*required",
    ),
    "a certificate of another authority": (
        showing("client_of_other", "client_of_other_key"),
        "kafka.ssl_certfile .* refuses this client's",
    ),
    "a certificate to show that expired": (
        showing("expired_client", "expired_client_key"),
        "kafka.ssl_certfile .* be valid now",
    ),
    "plain words to TLS": (speaking("TLS", "PLAINTEXT"), r"kafka.security_protocol \(PLAINTEXT\): .* wants TLS"),
    "a plain password to TLS": (speaking("SECURE", "SASL"), r"security_protocol \(SASL_PLAINTEXT\): .* wants TLS"),
    "TLS to plain words": (speaking("SASL", "TLS"), r"kafka.security_protocol \(SSL\): .* is not encrypted"),
    "no password where one is wanted": (speaking("SASL", "PLAINTEXT"), "wants a password: set SASL_PLAINTEXT"),
    "no password over TLS": (speaking("SECURE", "TLS"), "wants a password: set SASL_SSL"),
    "a password where none is taken": (speaking("TLS", "SECURE"), "takes no password: set SSL"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_broker_refuses_needs_a_person_and_names_the_setting(
    secure_kafka: SecureKafka, user: str, case: str
) -> None:
    make, message = WRONG[case]
    settings = with_kafka(make(secure_kafka, user))
    started = time.monotonic()
    with pytest.raises(SettingsError, match=message) as refused:
        require_topics(settings)
    assert refused.value.exit_code == os.EX_CONFIG
    assert "wrong-password" not in str(refused.value)
    assert "\n" not in str(refused.value)
    # The client alone would repeat itself until its timeout.
    assert case == "one only behind the first broker" or time.monotonic() - started < 3


def test_a_mechanism_that_the_broker_does_not_take_is_named_beside_those_that_it_takes(
    secure_kafka: SecureKafka, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_kafka(secure_kafka.connection("SASL", user))
    unknown = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"sasl_mechanism": "GSSAPI"})})
    with pytest.raises(SettingsError, match=r"kafka.sasl_mechanism \(GSSAPI\): .*SCRAM-SHA-256"):
        require_login(unknown.kafka)


@pytest.mark.parametrize("key", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"", "must hold"), (b"rubbish", "must hold")],
    ids=["missing", "empty", "rubbish"],
)
def test_a_file_that_cannot_be_used_is_named(
    secure_kafka: SecureKafka, tmp_path: Path, key: str, content: bytes | None, message: str
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_bytes(content)
    settings = with_kafka({**secure_kafka.connection("MUTUAL"), key: file})
    with pytest.raises(SettingsError, match=f"^kafka.{key}: {file}: {message}"):
        tls_context(settings.kafka)


def test_a_folder_is_no_certificate(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    settings = with_kafka({**secure_kafka.connection("TLS"), "ssl_cafile": tmp_path})
    with pytest.raises(SettingsError, match=r"kafka.ssl_cafile: .*: cannot be read: Is a directory"):
        tls_context(settings.kafka)


def test_a_key_that_is_encrypted_is_refused_and_nobody_is_asked(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    key = load_pem_private_key(secure_kafka.certificates.client_key.read_bytes(), None)
    file = tmp_path / "encrypted.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
        )
    )
    settings = with_kafka({**secure_kafka.connection("MUTUAL"), "ssl_keyfile": file})
    with pytest.raises(SettingsError, match=r"kafka.ssl_keyfile: .*without a password .the key is encrypted"):
        tls_context(settings.kafka)


def test_a_key_of_another_certificate_is_refused(secure_kafka: SecureKafka) -> None:
    other = secure_kafka.certificates.client_of_other_key
    with pytest.raises(SettingsError, match=r"kafka.ssl_keyfile: .*MISMATCH"):
        tls_context(with_kafka({**secure_kafka.connection("MUTUAL"), "ssl_keyfile": other}).kafka)


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """Address of somebody who takes connections and hangs up, after `answer`; who says nothing for None."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(2**16)
                    connection.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield "{}:{}".format(*server.getsockname())
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "closed", "other"])
def test_one_who_breaks_off_without_a_reason_may_come_back(
    monkeypatch: pytest.MonkeyPatch, protocol: str, answer: bytes | None
) -> None:
    monkeypatch.setattr(handshake, "STEP_SECONDS_MAX", 0.2)
    password = {"sasl_mechanism": "PLAIN", "sasl_username": "one", "sasl_password": "two"}
    with listening(answer) as address:
        settings = with_kafka(
            {
                "bootstrap_servers": [address],
                "security_protocol": protocol,
                **(password if protocol.startswith("SASL") else {}),
            }
        )
        with pytest.raises(BrokerUnavailable, match=address):
            greet(settings.kafka, address)
        require_login(settings.kafka)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_one_who_is_away_or_has_no_name_yet_may_come_back(secure_kafka: SecureKafka, address: str) -> None:
    settings = with_kafka(
        {**secure_kafka.connection("SECURE"), "bootstrap_servers": [address], "request_timeout_ms": 300}
    )
    with pytest.raises(BrokerUnavailable) as away:
        require_topics(settings)
    assert away.value.exit_code == os.EX_TEMPFAIL


def test_the_first_broker_that_answers_decides(secure_kafka: SecureKafka, user: str) -> None:
    right = secure_kafka.connection("SASL", user)
    several = {**right, "bootstrap_servers": ["127.0.0.1:1", secure_kafka.address("SASL")]}
    require_login(with_kafka(several).kafka)
    with pytest.raises(SettingsError, match=r"kafka.sasl_password"):
        require_login(with_kafka({**several, "sasl_password": "wrong"}).kafka)
