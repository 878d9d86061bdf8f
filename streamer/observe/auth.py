"""Authentication and TLS for the HTTP port."""

import base64
import binascii
import hmac
import ssl
from pathlib import Path

import structlog

from streamer.errors import SettingsError
from streamer.settings.named_files import no_password, read_named, usable
from streamer.settings.settings import Observe

log = structlog.get_logger(__name__)


class _Encryption:
    """TLS that reloads changed certificate files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._read_at = self._changed_at()
        self._newest = self._loaded()
        self.context = self._loaded()
        # OpenSSL calls this in every handshake, even without a server name.
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _server: str | None, _context: ssl.SSLContext) -> None:
        self._renew()
        connection.context = self._newest

    def _loaded(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key, password=no_password)
        return context

    def _renew(self) -> None:
        try:
            changed_at = self._changed_at()
            if changed_at != self._read_at:
                self._newest = self._loaded()
                self._read_at = changed_at
                log.info("port certificate reloaded", file=str(self._files[0]))
        except (OSError, ValueError) as error:
            # A renewal writes the second file a moment later; until then the old certificate serves.
            log.warning("cannot reload the port certificate", reason=str(error))

    def _changed_at(self) -> tuple[int, ...]:
        return tuple(file.stat().st_mtime_ns for file in self._files)


class PortAuth:
    """TLS and basic authentication, both optional.

    >>> PortAuth().admits("")
    True
    """

    def __init__(self, encryption: _Encryption | None = None, login: tuple[str, str] | None = None) -> None:
        self.context = None if encryption is None else encryption.context
        self._login = None if login is None else ":".join(login).encode()
        self.scheme = "http" if encryption is None else "https"

    def admits(self, authorization: str) -> bool:
        """Whether an `Authorization` header (empty if missing) has the user and password."""
        if self._login is None:
            return True
        kind, _, credentials = authorization.partition(" ")
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(decoded, self._login)


OPEN = PortAuth()
"""No TLS and no password."""


def port_auth(observe: Observe) -> PortAuth:
    """TLS and authentication from the settings. Raises SettingsError for an unusable file."""
    return PortAuth(_encryption(observe), _login(observe))


def _encryption(observe: Observe) -> _Encryption | None:
    certificate, key = observe.tls_certificate_file, observe.tls_key_file
    if certificate is None or key is None:
        return None
    for name, file in (("tls_certificate_file", certificate), ("tls_key_file", key)):
        read_named(f"observe.{name}", file)
    files = f"{certificate}, observe.tls_key_file: {key}"
    with usable("observe.tls_certificate_file", files, "a certificate and its key in PEM, without a password"):
        return _Encryption(certificate, key)


def _login(observe: Observe) -> tuple[str, str] | None:
    if observe.user is None or observe.password_file is None:
        return None
    key = "observe.password_file"
    try:
        password = read_named(key, observe.password_file).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{key}: {observe.password_file}: is not UTF-8") from error
    if not password:
        raise SettingsError(f"{key}: {observe.password_file}: is empty: write the password to it")
    return observe.user, password
