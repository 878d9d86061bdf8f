"""Test handshake that shows why a connection fails: certificate, listener, password.

The client hides all three: it retries until its timeout. This module takes the client's steps once:

    connect -> TLS -> ApiVersions -> SASL -> Metadata

An error that a setting causes names the setting. A silent broker proves nothing: that may pass.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka.errors import IllegalSaslStateError, KafkaError, KafkaProtocolError, UnsupportedSaslMechanismError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.settings.kafka import Kafka
from streamer.settings.named_files import no_password, usable

STEP_SECONDS_MAX = 5.0
"""Longest wait in one step; an answer takes milliseconds."""

LOOK_SECONDS_MAX = 10.0
"""No further broker is asked after this time or kafka.request_timeout_ms: the caller's watchdog is running."""

_PROTOCOL = "kafka.security_protocol"
_EXPIRED, _NOT_YET_VALID, _OTHER_HOST = {10}, {9}, {62, 64}
"""OpenSSL's certificate errors (X509_V_ERR_...)."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """A broker's answer.

    brokers              advertised addresses, host:port, in order
    certificate_expires  end of the broker's certificate, in seconds since 1970; None without TLS

    >>> Greeting(("broker:9092",), certificate_expires=None).brokers
    ('broker:9092',)
    """

    brokers: tuple[str, ...]
    certificate_expires: float | None


def greetings(kafka: Kafka) -> Iterator[tuple[str, Greeting | SettingsError | BrokerUnavailable]]:
    """Address, and greeting or error, for every configured broker, then for every advertised one."""
    waiting = list(kafka.bootstrap_servers)
    for address in waiting:
        answer: Greeting | SettingsError | BrokerUnavailable
        try:
            answer = greet(kafka, address)
        except (SettingsError, BrokerUnavailable) as error:
            answer = error
        else:
            waiting += [broker for broker in answer.brokers if broker not in waiting]
        yield address, answer


def require_login(kafka: Kafka, *, everywhere: bool = False) -> None:
    """Raise SettingsError if the first answering broker refuses these settings; `everywhere`: if any does.

    Returns if no broker answers: the client does the waiting.
    """
    until = time.monotonic() + min(LOOK_SECONDS_MAX, kafka.request_timeout_ms / 1000)
    for _, answer in greetings(kafka):
        if isinstance(answer, SettingsError):
            raise answer
        if (isinstance(answer, Greeting) and not everywhere) or time.monotonic() > until:
            return


def greet(kafka: Kafka, address: str) -> Greeting:
    """Greet the broker at `address`, host:port.

    Raises SettingsError for unsuitable settings, and BrokerUnavailable without an answer.
    """
    context = tls_context(kafka)
    with _connected(kafka, address) as connection, _explained(kafka, address):
        if context is None:
            return Greeting(_Conversation(kafka, connection, address).whole(), None)
        host = _host_and_port(address)[0].rstrip(".")
        with context.wrap_socket(connection, server_hostname=host) as encrypted:
            return Greeting(_Conversation(kafka, encrypted, address).whole(), _expiry(encrypted))


def tls_context(kafka: Kafka) -> ssl.SSLContext | None:
    """The client's TLS context; None without TLS. Raises SettingsError for an unusable file."""
    if not kafka.security_protocol.endswith("SSL"):
        return None
    # The client's defaults; others could refuse what it accepts.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if kafka.ssl_cafile is None:
        context.load_default_certs()
    else:
        with usable("kafka.ssl_cafile", kafka.ssl_cafile, "certificates of authorities in PEM"):
            context.load_verify_locations(kafka.ssl_cafile)
    if kafka.ssl_certfile is not None and kafka.ssl_keyfile is not None:
        with usable("kafka.ssl_certfile", kafka.ssl_certfile, "a certificate in PEM"):
            # The library does not name the faulty file, so each is tried alone first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(kafka.ssl_certfile)
        with usable("kafka.ssl_keyfile", kafka.ssl_keyfile, "the certificate's key in PEM, without a password"):
            kafka.ssl_keyfile.open("rb").close()
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile, password=no_password)
    return context


def own_certificate_expires(kafka: Kafka) -> float | None:
    """End of kafka.ssl_certfile, in seconds since 1970; None if absent or unknown.

    A local server verifies the certificate: `ssl` describes only verified ones. Raises SettingsError for an unusable or expired
    one.
    """
    showing = tls_context(kafka)
    if showing is None or kafka.ssl_certfile is None or kafka.ssl_keyfile is None:
        return None
    showing.check_hostname, showing.verify_mode = False, ssl.CERT_NONE
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile)
    asking.load_verify_locations(kafka.ssl_certfile)
    asking.verify_mode, asking.verify_flags = ssl.CERT_REQUIRED, ssl.VERIFY_X509_PARTIAL_CHAIN
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = showing.wrap_bio(back, there), asking.wrap_bio(there, back, server_side=True)
    try:
        waiting = [client, server]
        while waiting:
            side = waiting.pop(0)
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(side)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _EXPIRED | _NOT_YET_VALID:
            raise SettingsError(f"kafka.ssl_certfile: {kafka.ssl_certfile}: {error.verify_message}") from error
        return None
    return _expiry(server)


@contextmanager
def _connected(kafka: Kafka, address: str) -> Iterator[socket.socket]:
    host, port = _host_and_port(address)
    seconds = min(STEP_SECONDS_MAX, kafka.request_timeout_ms / 1000)
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            yield connection
    except OSError as error:
        raise BrokerUnavailable(f"no answer from {address}: {error}") from error


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


@contextmanager
def _explained(kafka: Kafka, address: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise SettingsError(_untrusted(kafka, address, error)) from error
    except (ssl.SSLError, ConnectionError, _HungUp) as error:
        # With TLS 1.3 a client learns only after its handshake whether its certificate is accepted.
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            raise SettingsError(_refused_tls(kafka, address, error)) from error
        _explain_listener(kafka, address)
        raise BrokerUnavailable(f"{address} broke off: {error}") from error


def _untrusted(kafka: Kafka, address: str, error: ssl.SSLCertVerificationError) -> str:
    host = _host_and_port(address)[0]
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    if error.verify_code in _EXPIRED | _NOT_YET_VALID:
        state = "has expired" if error.verify_code in _EXPIRED else "is not valid yet"
        return (
            f"kafka.bootstrap_servers: the certificate of {address} {state}: renew it at the broker; if it is right, this "
            f"machine's clock is not ({now})"
        )
    if error.verify_code in _OTHER_HOST:
        return (
            f"kafka.bootstrap_servers: the certificate of {address} is not made out to {host!r}: name the broker as its "
            "certificate does (where no setting names it so: correct advertised.listeners at the broker)"
        )
    trusted = kafka.ssl_cafile or "unset, so the system's authorities count"
    return (
        f"kafka.ssl_cafile ({trusted}): does not hold the authority that the certificate of {address} comes from "
        f"({error.verify_message})"
    )


def _refused_tls(kafka: Kafka, address: str, error: ssl.SSLError) -> str:
    reason = (error.reason or "").lower().replace("_", " ")
    if "certificate" in reason or "unknown ca" in reason:
        shown = kafka.ssl_certfile or "unset"
        return (
            f"kafka.ssl_certfile ({shown}): {address} refuses this client's certificate ({reason}): it must come from an "
            "authority that the broker trusts, be valid now, and be set with kafka.ssl_keyfile"
        )
    return f"{_PROTOCOL}: {address} refuses the TLS handshake ({reason}): it must allow TLS 1.2 or 1.3 to this client"


def _expiry(speaker: ssl.SSLSocket | ssl.SSLObject) -> float | None:
    until = (speaker.getpeercert() or {}).get("notAfter")
    return ssl.cert_time_to_seconds(until) if isinstance(until, str) else None


class _HungUp(Exception):
    """The broker hung up, or does not speak Kafka's protocol."""


class _Conversation:
    """Kafka's requests and answers over one connection, in sequence."""

    def __init__(self, kafka: Kafka, connection: socket.socket, address: str) -> None:
        self._kafka = kafka
        self._connection = connection
        self._address = address
        self._protocol = KafkaProtocol(client_id=f"{kafka.group}-handshake")

    def ask(self, request: Any) -> Any:
        """Answer to a request. Raises _HungUp, and the connection's errors."""
        self._protocol.send_request(request)
        self._connection.sendall(self._protocol.send_bytes())
        while data := self._connection.recv(2**16):
            try:
                answers = self._protocol.receive_bytes(data)
            except KafkaProtocolError as error:
                raise _HungUp(str(error)) from error
            if answers:
                return answers[0][1]
        raise _HungUp("it closed the connection")

    def whole(self) -> tuple[str, ...]:
        """Run all steps; returns all brokers' addresses. Raises SettingsError, _HungUp and the connection's errors."""
        self.ask(ApiVersionsRequest(version=0))
        if self._kafka.sasl_mechanism is not None:
            self._log_in(self._kafka.sasl_mechanism)
        answer = self.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False, version=4))
        return tuple(f"{_bracketed(broker.host)}:{broker.port}" for broker in answer.brokers)

    def _log_in(self, mechanism: str) -> None:
        kafka, address = self._kafka, self._address
        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism, version=1))
        if answer.error_code == IllegalSaslStateError.errno:
            raise SettingsError(
                f"{_PROTOCOL} ({kafka.security_protocol}): the listener at {address} takes no password: set "
                f"{kafka.security_protocol.removeprefix('SASL_')}, or name another port in kafka.bootstrap_servers"
            )
        if answer.error_code == UnsupportedSaslMechanismError.errno:
            raise SettingsError(
                f"kafka.sasl_mechanism ({mechanism}): {address} does not take it, but {', '.join(answer.mechanisms)}"
            )
        assert kafka.sasl_password is not None
        speaking = get_sasl_mechanism(mechanism)(
            host=_host_and_port(address)[0],
            sasl_mechanism=mechanism,
            sasl_plain_username=kafka.sasl_username,
            sasl_plain_password=kafka.sasl_password.get_secret_value(),
        )
        while not speaking.is_done():
            answer = self.ask(SaslAuthenticateRequest(speaking.auth_bytes(), version=0))
            if answer.error_code:
                raise SettingsError(
                    f"kafka.sasl_username ({kafka.sasl_username}) and kafka.sasl_password: {address} refuses them for "
                    f"{mechanism}: {answer.error_message}"
                )
            try:
                speaking.receive(answer.auth_bytes)
            except ValueError as error:
                raise SettingsError(
                    f"kafka.bootstrap_servers: {address} does not know the password of {kafka.sasl_username!r} itself, as "
                    f"{mechanism} wants it to: {error}"
                ) from error


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _explain_listener(kafka: Kafka, address: str) -> None:
    """Raise SettingsError if another kind of listener answers; return otherwise."""
    encrypted, sasl = kafka.security_protocol.endswith("SSL"), kafka.security_protocol.startswith("SASL")
    other = f"{_PROTOCOL} ({kafka.security_protocol}): the listener at {address}"
    if encrypted and _answers(kafka, address, _speaks_openly):
        raise SettingsError(f"{other} is not encrypted: set PLAINTEXT or SASL_PLAINTEXT, or name the port of another")
    if not encrypted and _answers(kafka, address, _speaks_tls):
        raise SettingsError(f"{other} wants TLS: set SSL or SASL_SSL, or name the port of another")
    if not sasl and _answers(kafka, address, _wants_password):
        raise SettingsError(f"{other} wants a password: set SASL_{kafka.security_protocol}")


def _answers(kafka: Kafka, address: str, speaks: Callable[[Kafka, socket.socket, str], bool]) -> bool:
    try:
        with _connected(kafka, address) as connection:
            return speaks(kafka, connection, address)
    except (BrokerUnavailable, KafkaError, _HungUp):
        return False


def _speaks_openly(kafka: Kafka, connection: socket.socket, address: str) -> bool:
    return bool(_Conversation(kafka, connection, address).ask(ApiVersionsRequest(version=0)).api_keys)


def _speaks_tls(_kafka: Kafka, connection: socket.socket, _address: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The probe only detects the protocol, and sends no secrets.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    return True


def _wants_password(kafka: Kafka, connection: socket.socket, address: str) -> bool:
    context = tls_context(kafka)
    speaker: socket.socket = connection
    if context is not None:
        speaker = context.wrap_socket(connection, server_hostname=_host_and_port(address)[0])
    with speaker:
        asked = _Conversation(kafka, speaker, address).ask(SaslHandshakeRequest(mechanism="PLAIN", version=1))
    return bool(asked.error_code in (0, UnsupportedSaslMechanismError.errno))
