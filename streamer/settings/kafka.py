"""Settings for the broker connection."""

from typing import Literal

from pydantic import Field, SecretStr

from streamer.settings.types import File, Milliseconds, Name, Section, Server


class Kafka(Section):
    """Connection to the brokers."""

    client: Literal["kafka-python", "confluent-kafka"] = "kafka-python"
    """Client that reads the input and writes the outputs. confluent-kafka takes less than half of the time, and needs its
    package (`.venv/bin/pip install -e '.[confluent]'`).
    """
    bootstrap_servers: list[Server] = Field(["127.0.0.1:9092"], min_length=1)
    """Brokers to contact first, host:port."""
    group: str = Field("neardup", min_length=1)
    """Consumer group; with the instance it names the transactions."""
    instance: Name = "0"
    """Name of this service within the group, stable over restarts; no two may run under one name."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Transport security, in Kafka's words."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """SASL mechanism."""
    sasl_username: str | None = Field(None, min_length=1)
    """SASL user."""
    sasl_password: SecretStr | None = None
    """SASL password; never printed."""
    ssl_cafile: File | None = None
    """Certificates of the authorities to trust."""
    ssl_certfile: File | None = None
    """This client's certificate."""
    ssl_keyfile: File | None = None
    """This client's key."""
    session_timeout_ms: Milliseconds = 45_000
    """The group drops a worker without a heartbeat for this long."""
    max_poll_interval_ms: Milliseconds = 300_000
    """The group drops a worker that reads nothing for this long."""
    delivery_timeout_ms: Milliseconds = 30_000
    """A batch not delivered within this time is in doubt."""
    transaction_timeout_ms: Milliseconds = 90_000
    """The broker aborts a transaction that stays open for this long."""
    request_timeout_ms: Milliseconds = 15_000
    """A request without an answer for this long has failed."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """Codec of the output records."""
    request_bytes_max: int = Field(64 * 2**20, ge=2**10)
    """Largest record to send, before compression. A larger one cannot be delivered, not even as a dead letter: keep it
    above the input topic's largest record.
    """
