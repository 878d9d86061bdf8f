"""Settings for the broker connection."""

from typing import Literal

from pydantic import Field, SecretStr

from streamer.settings.types import File, Milliseconds, Name, Section, Server


class Kafka(Section):
    """Connection to the brokers."""

    client: Literal["kafka-python", "confluent-kafka"] = Field(
        "kafka-python",
        description="Client that reads the input and writes the outputs. confluent-kafka takes less than half of the time, and "
        'needs `pip install "neardup-streamer[confluent]"`.',
    )
    bootstrap_servers: list[Server] = Field(
        ["127.0.0.1:9092"], min_length=1, description="Brokers to contact first, host:port."
    )
    group: str = Field(
        "neardup", min_length=1, description="Consumer group; with the instance it names the transactions."
    )
    instance: Name = Field(
        "0",
        description="Name of this service within the group, stable over restarts; no two may run under one name.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Transport security, in Kafka's words."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism."
    )
    sasl_username: str | None = Field(None, min_length=1, description="SASL user.")
    sasl_password: SecretStr | None = Field(None, description="SASL password; never printed.")
    ssl_cafile: File | None = Field(None, description="Certificates of the authorities to trust.")
    ssl_certfile: File | None = Field(None, description="This client's certificate.")
    ssl_keyfile: File | None = Field(None, description="This client's key.")
    session_timeout_ms: Milliseconds = Field(
        45_000, description="The group drops a worker after this long without a heartbeat."
    )
    max_poll_interval_ms: Milliseconds = Field(
        300_000, description="The group drops a worker after this long without a read."
    )
    delivery_timeout_ms: Milliseconds = Field(30_000, description="A batch not delivered within this time is in doubt.")
    transaction_timeout_ms: Milliseconds = Field(
        90_000, description="The broker aborts a transaction that stays open for this long."
    )
    request_timeout_ms: Milliseconds = Field(
        15_000, description="A request without an answer for this long has failed."
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "lz4", description="Codec of the output records."
    )
    request_bytes_max: int = Field(
        64 * 2**20,
        ge=2**10,
        description="Largest record to send, before compression. A larger one cannot be delivered, not even as a dead "
        "letter: keep it above the largest record of the input topic.",
    )
