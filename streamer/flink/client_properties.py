"""Broker connection as properties of Kafka's Java client, for Flink."""

from streamer.settings.kafka import Kafka

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_properties(kafka: Kafka) -> dict[str, str]:
    """Source and sink properties by name, with certificate contents. Raises OSError for unreadable files.

    >>> client_properties(Kafka(bootstrap_servers=["broker:9092"]))
    {'bootstrap.servers': 'broker:9092', 'security.protocol': 'PLAINTEXT'}
    """
    properties = {"bootstrap.servers": ",".join(kafka.bootstrap_servers), "security.protocol": kafka.security_protocol}
    if kafka.sasl_mechanism is not None and kafka.sasl_password is not None:
        user, password = (_quoted(each) for each in (kafka.sasl_username or "", kafka.sasl_password.get_secret_value()))
        properties["sasl.mechanism"] = kafka.sasl_mechanism
        properties["sasl.jaas.config"] = (
            f"{_MODULES[kafka.sasl_mechanism]} required username={user} password={password};"
        )
    if kafka.ssl_cafile is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": kafka.ssl_cafile.read_text()}
    if kafka.ssl_certfile is not None and kafka.ssl_keyfile is not None:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": kafka.ssl_certfile.read_text(),
            "ssl.keystore.key": kafka.ssl_keyfile.read_text(),
        }
    return properties


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
