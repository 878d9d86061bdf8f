from pathlib import Path

from streamer.flink.client_properties import client_properties
from streamer.settings.kafka import Kafka


def test_a_plain_connection_needs_addresses_alone() -> None:
    assert client_properties(Kafka(bootstrap_servers=["one:1", "two:2"])) == {
        "bootstrap.servers": "one:1,two:2",
        "security.protocol": "PLAINTEXT",
    }


def test_a_password_goes_along_quoted() -> None:
    found = client_properties(
        Kafka(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="streamer",
            sasl_password='a"b\\c',  # type: ignore[arg-type]
        )
    )
    assert found["sasl.mechanism"] == "SCRAM-SHA-512"
    assert found["sasl.jaas.config"].endswith('ScramLoginModule required username="streamer" password="a\\"b\\\\c";')


def test_certificates_go_along_as_text(tmp_path: Path) -> None:
    for name in ("authority", "certificate", "key"):
        (tmp_path / name).write_text(f"-- {name} --")
    found = client_properties(
        Kafka(
            security_protocol="SSL",
            ssl_cafile=tmp_path / "authority",
            ssl_certfile=tmp_path / "certificate",
            ssl_keyfile=tmp_path / "key",
        )
    )
    assert found["ssl.truststore.certificates"] == "-- authority --"
    assert found["ssl.keystore.certificate.chain"] == "-- certificate --"
    assert found["ssl.keystore.key"] == "-- key --"
    assert found["ssl.truststore.type"] == found["ssl.keystore.type"] == "PEM"
