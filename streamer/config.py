"""The settings: every one with its type, bounds, default and meaning; frozen once read.

This is the only module that reads the environment. `load` takes, weakest first: the defaults here and in
`method_settings`, one TOML file,
variables STREAMER_<SECTION>__<KEY>, and `--set section.key=value`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator

from streamer.errors import SettingsError
from streamer.method_settings import Fingerprint as Fingerprint
from streamer.method_settings import Minhash as Minhash
from streamer.setting_types import File, Milliseconds, Name, Pointer, Port, Section, Server, Topic
from streamer.setting_values import Relation, RelationsBroken, gather, nested, problem_lines

HEADERS_BYTES_MAX = 64 * 2**10
"""Room that an output record needs beside its value: the key, the headers that it came with and those it gains."""


class Kafka(Section):
    """How the broker is reached."""

    bootstrap_servers: list[Server] = Field(
        ["127.0.0.1:9092"], min_length=1, description="Brokers to ask first, host:port."
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
        45_000, description="The group drops a worker that is silent for this long."
    )
    max_poll_interval_ms: Milliseconds = Field(
        300_000, description="The group drops a worker that does not read for this long."
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
        description="Largest record that is sent, before compression. Nothing larger can be delivered, not even as a "
        "dead letter: keep it above the largest record of the input topic.",
    )


class Topics(Section):
    """The topics read and written. The service creates none; `streamer topics create` does."""

    input: Topic = Field("documents", description="What the crawler writes.")
    unique: Topic = Field("documents-unique", description="Unique and undecidable documents.")
    duplicate: Topic = Field("documents-duplicate", description="Near-duplicates.")
    dead_letter: Topic = Field("documents-dead-letter", description="What could not be decoded.")


class Batching(Section):
    """How much is decided and delivered at once."""

    records_max: int = Field(1_000, ge=1, le=100_000, description="Records in a batch at most.")
    bytes_max: int = Field(
        16 * 2**20, ge=1, description="Bytes of values in a batch at most (one record may exceed it)."
    )
    wait_ms: Milliseconds = Field(200, description="Wait for new records at most this long.")


class Decode(Section):
    """How a record becomes a document. Fields are JSON pointers (RFC 6901)."""

    preset: Literal["plain", "scrapy-cluster", "nutch"] = Field(
        "plain", description="Fields of a known crawler; a pointer named below wins over the preset's."
    )
    format: Literal["json", "text"] = Field("json", description="What a value is: JSON, or the text itself (UTF-8).")
    text: Pointer | None = Field(None, description="Pointer to the text.")
    title: Pointer | None = Field(None, description="Pointer to the title.")
    id: Pointer | None = Field(
        None, description="Pointer to the id; where there is none the record's key, then its position, is the id."
    )
    time: Pointer | None = Field(
        None,
        description="Pointer to the time: ISO 8601, or seconds or milliseconds since 1970; where there is none the "
        "record's timestamp.",
    )
    host: Pointer | None = Field(None, description="Pointer to the host or URL that the document came from.")
    metadata: list[Pointer] | None = Field(None, description="Pointers to keywords, tags, references.")
    value_bytes_max: int = Field(8 * 2**20, ge=1, description="A larger value is a dead letter.")


class Index(Section):
    """The index on disk."""

    directory: File = Field(
        Path("index-data"), description="Folder of the index; one index serves many workers of one host."
    )
    distance_max: int = Field(
        4, ge=0, le=7, description="Documents this many bits apart or nearer are near-duplicates (SimHash)."
    )
    insert: Literal["unique", "all"] = Field("unique", description="Which documents later ones are compared with.")
    map_bytes_max: int = Field(2**40, ge=2**20, description="The index file never grows beyond this.")
    entries_max: int | None = Field(None, ge=1, description="Only the newest so many documents count.")
    age_max_hours: float | None = Field(
        None, ge=0.001, description="Documents count until the record time of their partition is this much further on."
    )


class Recovery(Section):
    """What to do in a state that has more than one right answer."""

    first_start: Literal["earliest", "latest"] = Field("earliest", description="Where a new group begins to read.")
    committed_missing: Literal["stop", "applied", "earliest"] = Field(
        "stop", description="The index has decided, but the group has no committed offset: stop, or read on from there."
    )
    index_behind: Literal["restore", "stop"] = Field(
        "restore", description="The group is ahead of the index: restore the index from the unique topic, or stop."
    )
    topic_recreated: Literal["stop", "continue"] = Field(
        "stop", description="The input topic was deleted and made again: stop, or read the new one from its start."
    )
    offsets_gone: Literal["stop", "skip"] = Field(
        "stop", description="Undelivered records were deleted by retention: stop, or skip and count them."
    )


class Workers(Section):
    """Processes and their supervision."""

    count: int = Field(1, ge=1, le=64, description="Worker processes; they share the group and the index.")
    progress_timeout_ms: Milliseconds = Field(
        60_000, description="A worker whose loop makes no progress for this long is killed and started anew."
    )
    restart_backoff_ms: Milliseconds = Field(500, description="Wait before a restart; doubled up to the maximum.")
    restart_backoff_max_ms: Milliseconds = Field(15_000, description="Longest wait before a restart.")


class Observe(Section):
    """Metrics, health and logs."""

    host: str = Field("127.0.0.1", description="Address of /metrics, /healthz and /readyz.")
    port: Port = Field(9464, description="Their port; 0 picks a free one.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["console", "json"] = Field("console", description="Form of a log line on standard error.")


class Settings(Section):
    """All settings of the service."""

    kafka: Kafka = Kafka()
    topics: Topics = Topics()
    batch: Batching = Batching()
    decode: Decode = Decode()
    fingerprint: Fingerprint = Fingerprint()
    minhash: Minhash = Minhash()
    index: Index = Index()
    recovery: Recovery = Recovery()
    workers: Workers = Workers()
    observe: Observe = Observe()

    @model_validator(mode="after")
    def _relations_hold(self) -> Self:
        broken = [relation for relation in relations(self) if not relation.holds]
        if broken:
            raise RelationsBroken(broken)
        return self


def relations(settings: Settings) -> list[Relation]:
    """Every rule that binds settings to each other, held or broken."""
    return [*_timeout_relations(settings), *_security_relations(settings.kafka), *_size_relations(settings)]


def _timeout_relations(settings: Settings) -> list[Relation]:
    kafka, workers = settings.kafka, settings.workers
    delivery, transaction = "kafka.delivery_timeout_ms", "kafka.transaction_timeout_ms"
    request, session, poll = "kafka.request_timeout_ms", "kafka.session_timeout_ms", "kafka.max_poll_interval_ms"
    progress, backoff, backoff_max = (
        "workers.progress_timeout_ms",
        "workers.restart_backoff_ms",
        "workers.restart_backoff_max_ms",
    )
    return [
        # The client refuses a delivery timeout that one request could use up.
        Relation(kafka.request_timeout_ms < kafka.delivery_timeout_ms, (request, delivery), "must be less than"),
        # A batch must be known to be lost while its transaction is still ours to leave open.
        Relation(
            kafka.delivery_timeout_ms < kafka.transaction_timeout_ms, (delivery, transaction), "must be less than"
        ),
        # The watchdog outwaits a slow delivery, and kills before the broker aborts the transaction behind our back.
        Relation(kafka.delivery_timeout_ms < workers.progress_timeout_ms, (delivery, progress), "must be less than"),
        Relation(
            workers.progress_timeout_ms < kafka.transaction_timeout_ms, (progress, transaction), "must be less than"
        ),
        # No batch outlives the watchdog, so none may cost the worker its membership.
        Relation(
            kafka.max_poll_interval_ms > 3 * workers.progress_timeout_ms, (poll, progress), "must be over three times"
        ),
        Relation(kafka.session_timeout_ms < kafka.max_poll_interval_ms, (session, poll), "must be less than"),
        Relation(
            workers.restart_backoff_ms <= workers.restart_backoff_max_ms, (backoff, backoff_max), "must not exceed"
        ),
    ]


def _security_relations(kafka: Kafka) -> list[Relation]:
    protocol = "kafka.security_protocol"
    sasl, ssl = kafka.security_protocol.startswith("SASL"), kafka.security_protocol.endswith("SSL")
    by_sasl = {key: getattr(kafka, key) for key in ("sasl_mechanism", "sasl_username", "sasl_password")}
    by_ssl = {key: getattr(kafka, key) for key in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
    need = "must be set, as required by" if sasl else "has no use and must not be set with"
    return [
        *(Relation((value is not None) == sasl, (f"kafka.{key}", protocol), need) for key, value in by_sasl.items()),
        *(
            Relation(ssl or value is None, (f"kafka.{key}", protocol), "has no use and must not be set with")
            for key, value in by_ssl.items()
        ),
        Relation(
            (kafka.ssl_certfile is None) == (kafka.ssl_keyfile is None),
            ("kafka.ssl_certfile", "kafka.ssl_keyfile"),
            "must be set together with",
        ),
    ]


def _size_relations(settings: Settings) -> list[Relation]:
    decode, topics = settings.decode, settings.topics
    names = list(Topics.model_fields)
    mapped = ("text", "title", "id", "time", "host", "metadata")
    return [
        *(
            Relation(
                getattr(topics, one) != getattr(topics, other), (f"topics.{one}", f"topics.{other}"), "must differ from"
            )
            for number, one in enumerate(names)
            for other in names[number + 1 :]
        ),
        Relation(
            decode.value_bytes_max <= settings.batch.bytes_max,
            ("decode.value_bytes_max", "batch.bytes_max"),
            "must not exceed",
        ),
        Relation(
            settings.kafka.request_bytes_max >= decode.value_bytes_max + HEADERS_BYTES_MAX,
            ("kafka.request_bytes_max", "decode.value_bytes_max"),
            f"must leave room for {HEADERS_BYTES_MAX} bytes of key and headers beyond",
        ),
        *(
            Relation(
                decode.format == "json" or getattr(decode, key) is None,
                (f"decode.{key}", "decode.format"),
                "has no use and must not be set with",
            )
            for key in mapped
        ),
        Relation(
            settings.fingerprint.markers is None or settings.fingerprint.marker_factor > 1,
            ("fingerprint.markers", "fingerprint.marker_factor"),
            "has no use and must not be set with",
        ),
        Relation(
            decode.format == "json" or decode.preset == "plain",
            ("decode.preset", "decode.format"),
            "has no use and must not be set with",
        ),
    ]


def load(
    file: Path | None = None, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of this run.

    file         a TOML file; None: the one that STREAMER_CONFIG names, if any
    overrides    `section.key=value`, as given with --set
    environment  None: the process's own

    Texts from variables and overrides are parsed by the setting's type: a list is a JSON array or is separated by
    commas, and an empty text unsets a setting that may be unset. Raises SettingsError with one line per problem.
    """
    variables = os.environ if environment is None else environment
    if file is None and variables.get("STREAMER_CONFIG"):
        file = Path(variables["STREAMER_CONFIG"])
    values, problems = gather(Settings, file, overrides, variables)
    try:
        settings = Settings.model_validate(nested(values))
    except ValidationError as error:
        problems += problem_lines(Settings, error, values)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings
