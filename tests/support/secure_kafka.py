"""A real broker that asks who is there and what they may do; its certificates, users and rights are made here.

One broker has a listener for every kind of security:

    PLAINTEXT   open to all; who comes here may do everything, so that tests can prepare
    TLS         encrypted, with a certificate that is right
    EXPIRED     ... that expired yesterday
    ELSEWHERE   ... made out to localhost, not to the address that the broker gives itself
    MUTUAL      ... and clients have to show a certificate
    SASL        passwords over an open connection
    SECURE      passwords over an encrypted connection
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.admin import UserScramCredentialUpsertion as Credential

from deploy.local_kafka import HOST, LocalKafka, free_port
from streamer.errors import SettingsError
from streamer.settings.settings import Kafka
from streamer.transports.kafka.handshake import greet
from tests.support.paths import ROOT

PROTOCOLS = {
    "TLS": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SECURE": "SASL_SSL",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "right-password"
PLAIN_USER = "plain-user"
"""The one user of mechanism PLAIN; those of SCRAM are made while the broker runs."""

_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Certificates:
    """PEM files: what clients trust, what they show, and what they should not."""

    trusted: Path
    other_authority: Path
    client: Path
    client_key: Path
    client_of_other: Path
    client_of_other_key: Path
    expired_client: Path
    expired_client_key: Path


def _write(leaf: trustme.LeafCert, folder: Path, name: str) -> tuple[Path, Path]:
    """Certificate and key; and, for the broker, both in one file, the key in the form that Java reads."""
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    certificate.write_bytes(chain)
    key_file.write_bytes(key)
    (folder / f"{name}.both").write_bytes(key + chain)
    return certificate, key_file


def make_certificates(folder: Path, authority: trustme.CA) -> Certificates:
    other = trustme.CA()
    yesterday = datetime.now(UTC) - timedelta(days=1)
    _write(authority.issue_cert(HOST, "localhost"), folder, "right")
    _write(authority.issue_cert("localhost"), folder, "elsewhere")
    expired = {"not_before": yesterday - timedelta(days=9), "not_after": yesterday}
    _write(authority.issue_cert(HOST, **expired), folder, "expired")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    other.cert_pem.write_to_path(str(folder / "other.pem"))
    return Certificates(
        folder / "authority.pem",
        folder / "other.pem",
        *_write(authority.issue_cert("client.example"), folder, "client"),
        *_write(other.issue_cert("client.example"), folder, "client-of-other"),
        *_write(authority.issue_cert("client.example", **expired), folder, "expired-client"),
    )


def _settings(folder: Path) -> dict[str, str]:
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Who comes by the open listener, the controller among them.
        "super.users": "User:ANONYMOUS",
        # Certificates name their user as common name.
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "group.max.session.timeout.ms": "60000",
        "transaction.max.timeout.ms": "120000",
    }
    keys = {"TLS": "right", "SECURE": "right", "MUTUAL": "right", "EXPIRED": "expired", "ELSEWHERE": "elsewhere"}
    for listener, key in keys.items():
        prefix = f"listener.name.{listener.lower()}.ssl"
        settings |= {
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.location": str(folder / f"{key}.both"),
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.location": str(folder / "authority.pem"),
            f"{prefix}.client.auth": "required" if listener == "MUTUAL" else "none",
        }
    for listener in ("sasl", "secure"):
        prefix = f"listener.name.{listener}"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{_LOGIN}.scram.ScramLoginModule required;"
        settings[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{_LOGIN}.plain.PlainLoginModule required user_{PLAIN_USER}="{PASSWORD}";'
        )
    return settings


@dataclass(frozen=True)
class Right:
    """An operation on a resource, as `kafka-acls.sh` names them: `WRITE` on `topic` of a name, or all that begin with it."""

    operation: str
    kind: str
    name: str
    prefixed: bool = False

    def acl(self, user: str) -> ACL:
        pattern = ResourcePattern(
            ResourceType[self.kind.upper()],
            self.name,
            ACLResourcePatternType.PREFIXED if self.prefixed else ACLResourcePatternType.LITERAL,
        )
        return ACL(f"User:{user}", "*", ACLOperation[self.operation], ACLPermissionType.ALLOW, pattern)


def documented_rights() -> set[Right]:
    """Rights that the commands of docs/running.md allow, in the words of the default settings."""
    page = (ROOT / "docs" / "running.md").read_text()
    commands = page.partition("\n## Rights\n")[2].partition("```sh\n")[2].partition("```")[0]
    rights: set[Right] = set()
    for command in re.findall(r"^acls (.*)$", commands, re.MULTILINE):
        given = re.findall(r"--([a-z-]+) (\S+)", command)
        prefixed = ("resource-pattern-type", "prefixed") in given
        resources = [(kind, name) for kind, name in given if kind in ("topic", "group", "transactional-id")]
        operations = [name for key, name in given if key == "operation"]
        rights |= {
            Right(operation, kind.replace("-", "_"), name, prefixed)
            for operation in operations
            for kind, name in resources
        }
    return rights


START_SECONDS = 180
"""Four certificates and six listeners take their time where the machine is busy."""


class SecureKafka:
    """The broker, its certificates, and what a test does to users and rights."""

    def __init__(self, folder: Path) -> None:
        (folder / "certificates").mkdir()
        self._authority = trustme.CA()
        self.certificates = make_certificates(folder / "certificates", self._authority)
        self._ports = {name: free_port() for name in PROTOCOLS}
        self.broker = LocalKafka(folder / "broker", overrides=_settings(folder / "certificates"), listeners=self._ports)

    @property
    def open_address(self) -> str:
        """Where everybody may do everything."""
        return self.broker.bootstrap_servers

    def address(self, listener: str) -> str:
        return f"{HOST}:{self._ports[listener]}"

    def client_certificate(self, folder: Path, user: str, expires: datetime) -> tuple[Path, Path]:
        """A user's certificate and key."""
        leaf = self._authority.issue_cert("client.example", common_name=user, not_after=expires)
        return _write(leaf, folder, f"{user}-until-{expires:%d-%H-%M-%S}")

    def connection(self, listener: str, user: str = PLAIN_USER, mechanism: str = "SCRAM-SHA-512") -> dict[str, object]:
        """Settings of the section kafka that are right for a listener."""
        protocol = PROTOCOLS[listener]
        settings: dict[str, object] = {"bootstrap_servers": [self.address(listener)], "security_protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl_cafile"] = self.certificates.trusted
        if listener == "MUTUAL":
            settings |= {"ssl_certfile": self.certificates.client, "ssl_keyfile": self.certificates.client_key}
        if protocol.startswith("SASL"):
            mechanism = "PLAIN" if user == PLAIN_USER else mechanism
            settings |= {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": PASSWORD}
        return settings

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        with KafkaAdminClient(bootstrap_servers=self.open_address) as admin:
            yield admin

    def restart(self) -> None:
        """End every connection."""
        self.broker.stop()
        self.broker.start(timeout_seconds=START_SECONDS)

    def make_user(self, *mechanisms: str) -> str:
        """A user of mechanisms of SCRAM who may do nothing; the password is PASSWORD."""
        user = f"user-{uuid.uuid4().hex[:8]}"
        for mechanism in mechanisms or ("SCRAM-SHA-512",):
            self.change_password(user, PASSWORD, mechanism)
        return user

    def change_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Give a user a password. Connections that are open stay."""
        with self.admin() as admin:
            assert admin.alter_user_scram_credentials([Credential(user, mechanism, password)]) == {user: None}
        # The broker takes new users and rights up a moment after it has answered.
        self._until(lambda: self._logs_in(user, password, mechanism))

    def _logs_in(self, user: str, password: str, mechanism: str) -> bool:
        connection = {**self.connection("SASL", user, mechanism), "sasl_password": password}
        kafka = Kafka(**{**Kafka().model_dump(), **connection})
        try:
            greet(kafka, self.address("SASL"))
        except SettingsError:
            return False
        return True

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "the broker does not take it up"
            time.sleep(0.02)

    def _may(self, admin: KafkaAdminClient, user: str, right: Right) -> bool:
        acl = right.acl(user)
        chosen = ACLFilter(acl.principal, None, acl.operation, acl.permission_type, _exactly(acl))
        return bool(admin.describe_acls(chosen)[0])

    def allow(self, user: str, rights: Iterable[Right]) -> None:
        wanted = list(rights)
        with self.admin() as admin:
            made = admin.create_acls([right.acl(user) for right in wanted])
            assert not made["failed"], made
            self._until(lambda: all(self._may(admin, user, right) for right in wanted))

    def withdraw(self, user: str, right: Right) -> None:
        acl = right.acl(user)
        with self.admin() as admin:
            [(_, gone, error)] = admin.delete_acls(
                [ACLFilter(acl.principal, "*", acl.operation, acl.permission_type, _exactly(acl))]
            )
            assert len(gone) == 1, error
            self._until(lambda: not self._may(admin, user, right))


def _exactly(acl: ACL) -> ResourcePatternFilter:
    pattern = acl.resource_pattern
    return ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


@contextmanager
def running(folder: Path) -> Iterator[SecureKafka]:
    made = SecureKafka(folder)
    made.broker.start(timeout_seconds=START_SECONDS)
    with made.broker:
        yield made
