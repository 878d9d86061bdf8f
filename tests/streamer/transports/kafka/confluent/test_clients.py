"""confluent-kafka's errors in the words of the other client, and the membership that it tells."""

import os
import struct
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from pydantic import SecretStr
from trustme import CA

from streamer.errors import BrokerUnavailable, SettingsError, StreamerError
from streamer.transports.kafka.confluent.clients import (
    Lines,
    Membership,
    client_errors,
    is_passing,
    make_consumer,
    make_transactional_producer,
    parse_membership,
)
from tests.support.transport_worlds import make_settings


def told(generation: int, member: str) -> bytes:
    """What librdkafka serialises of a static member "0" of a group "group"."""
    return b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member.encode() + b"\0\1" + b"0\0"


def test_a_member_is_told_by_its_generation_and_id() -> None:
    assert parse_membership(told(7, "0-some-id")) == Membership(7, "0-some-id")
    assert parse_membership(told(0, "m")) == Membership(0, "m")


@pytest.mark.parametrize(("generation", "member"), [(-1, ""), (-1, "0-some-id"), (3, "")])
def test_without_a_generation_or_an_id_there_is_no_member(generation: int, member: str) -> None:
    assert parse_membership(told(generation, member)) is None


def test_the_client_tells_its_membership_in_the_form_that_is_read() -> None:
    settings = make_settings()
    consumer = make_consumer(settings, "0", lambda _: None, Lines())
    told_by_client: bytes = consumer.consumer_group_metadata()
    assert told_by_client.startswith(b"CGMDv2:")
    assert settings.kafka.group.encode() in told_by_client
    assert parse_membership(told_by_client) is None
    consumer.close()


def test_a_new_form_is_not_taken_for_a_membership() -> None:
    with pytest.raises(AssertionError, match="new form"):
        parse_membership(b"CGMDv3:whatever")


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError._TIMED_OUT, BrokerUnavailable, "no answer from 127.0.0.1:1 while reading"),
        (KafkaError._TRANSPORT, BrokerUnavailable, "no answer"),
        (KafkaError._AUTHENTICATION, BrokerUnavailable, "no answer"),
        (KafkaError._INVALID_ARG, SettingsError, "refuses its settings while reading"),
        (KafkaError.NOT_COORDINATOR, BrokerUnavailable, "no answer"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, SettingsError, r"READ on group 'group-.*docs/running.md, Rights"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SettingsError, r"docs/running.md, Rights"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SettingsError, "WRITE on transactional-id"),
        (KafkaError.INVALID_SESSION_TIMEOUT, SettingsError, r"kafka.session_timeout_ms \(2000\)"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, SettingsError, r"kafka.transaction_timeout_ms \(10000\)"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, SettingsError, "refuses kafka.sasl_username and kafka.sasl_password"),
    ],
)
def test_errors_are_told_in_the_words_of_the_other_client(code: int, kind: type[StreamerError], words: str) -> None:
    with pytest.raises(kind, match=words), client_errors(make_settings(), "reading"):
        raise KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    ("code", "passing"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.INVALID_SESSION_TIMEOUT, False),
    ],
)
def test_what_the_client_tries_again_by_itself_passes(code: int, passing: bool) -> None:
    assert is_passing(KafkaError(code)) is passing


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("PLAINTEXT", None),
        ("SSL", None),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
    ],
)
def test_the_client_takes_every_kind_of_security_from_the_same_settings(
    protocol: str, mechanism: str | None, tmp_path: Path
) -> None:
    chosen: dict[str, object] = {"security_protocol": protocol}
    if mechanism:
        chosen |= {"sasl_mechanism": mechanism, "sasl_username": "reader", "sasl_password": SecretStr("secret")}
    if protocol.endswith("SSL"):
        chosen["ssl_cafile"] = tmp_path / "authority.pem"
        CA().cert_pem.write_to_path(tmp_path / "authority.pem")
    settings = make_settings()
    settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update=chosen)})
    make_consumer(settings, "0", lambda _: None, Lines()).close()
    make_transactional_producer(settings, "0", 1_000_000, Lines()).purge()


def test_a_certificate_of_the_systems_authorities_is_trusted_where_no_other_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python's own default, which the other client goes by; a file that is no certificate shows that it is read."""
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(nonsense))
    kafka = make_settings().kafka.model_copy(update={"security_protocol": "SSL"})
    settings = make_settings().model_copy(update={"kafka": kafka})
    with pytest.raises(KafkaException, match=r"ssl\.ca\.location"):
        make_consumer(settings, "0", lambda _: None, Lines())
