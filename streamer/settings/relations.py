"""Rules between settings, as data: tables of pairs by kind, and the rules that need more than two values."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from streamer.settings.ask import is_loopback
from streamer.settings.values import Relation

HEADERS_BYTES_MAX = 64 * 2**10
"""Room in an output record beyond its value: the key, the input's headers and the added ones."""

_UNUSED = "has no use and must not be set with"
_REQUIRED = "must be set, as required by"
_TOGETHER = "must be set together with"
_AT_MOST = "must not exceed"

_LESS = (
    # The client refuses a delivery timeout that a single request could use up.
    ("kafka.request_timeout_ms", "kafka.delivery_timeout_ms"),
    # A lost batch must be noticed while its transaction is still open.
    ("kafka.delivery_timeout_ms", "kafka.transaction_timeout_ms"),
    # The watchdog waits out a slow delivery, and kills before the broker aborts the transaction.
    ("kafka.delivery_timeout_ms", "workers.progress_timeout_ms"),
    ("workers.progress_timeout_ms", "kafka.transaction_timeout_ms"),
    ("kafka.session_timeout_ms", "kafka.max_poll_interval_ms"),
    # A document that passes its trial must not cost a worker that is alone with it.
    ("workers.document_timeout_ms", "workers.progress_timeout_ms"),
)
_NOT_MORE = (
    ("workers.restart_backoff_ms", "workers.restart_backoff_max_ms"),
    ("decode.value_bytes_max", "batch.bytes_max"),
)
_PAIRS = (
    ("observe.tls_certificate_file", "observe.tls_key_file"),
    ("observe.user", "observe.password_file"),
    ("kafka.ssl_certfile", "kafka.ssl_keyfile"),
    ("decode.registry_user", "decode.registry_password"),
)
_TOPICS = tuple(
    f"topics.{key}"
    for key in ("input", "unique", "duplicate", "dead_letter", "fingerprints", "verdicts", "stories", "protected")
)

Lookup = Callable[[str], Any]
"""A setting's value by its key, `section.key`."""


def relations(value: Lookup, *, over_files: bool = False) -> list[Relation]:
    """All rules between settings, held or broken; with `over_files`, without those for Kafka's message sizes."""
    return [
        *(Relation(value(one) < value(other), (one, other), "must be less than") for one, other in _LESS),
        *(Relation(value(one) <= value(other), (one, other), _AT_MOST) for one, other in _NOT_MORE),
        *(Relation((value(one) is None) == (value(other) is None), (one, other), _TOGETHER) for one, other in _PAIRS),
        *(
            Relation(value(one) != value(other) or value(one) is None, (one, other), "must differ from")
            for one, other in combinations(_TOPICS, 2)
        ),
        Relation(
            value("topics.stories") is None or value("index.insert") == "root",
            ("topics.stories", "index.insert"),
            'needs the duplicates\' roots (index.insert = "root"), and must not be set with',
        ),
        Relation(
            value("topics.protected") is None or bool(value("index.protected")),
            ("topics.protected", "index.protected"),
            "gets what protected sets report, and must be unset without",
        ),
        # A scope salts fingerprints, so a set would match documents of its own scopes only.
        Relation(
            not value("index.protected") or value("decode.scope") is None,
            ("index.protected", "decode.scope"),
            "compares texts of all scopes, which never resemble each other, and must not be set with",
        ),
        *_kafka(value, over_files=over_files),
        *_decode(value),
        *_fingerprint(value),
        *_root(value),
        *_ask(value),
        # A suspect is an entry, or its copies would pass after it.
        Relation(
            value("guard.policy") == "alert" or value("index.insert") != "unique",
            ("guard.policy", "index.insert"),
            "passes documents only if duplicates enter the index, and must not be set with",
        ),
    ]


def _kafka(value: Lookup, *, over_files: bool) -> Iterator[Relation]:
    # A batch takes at most as long as the watchdog waits, and must not cost the worker its membership.
    poll, progress = "kafka.max_poll_interval_ms", "workers.progress_timeout_ms"
    yield Relation(value(poll) > 3 * value(progress), (poll, progress), "must be over three times")
    protocol = "kafka.security_protocol"
    sasl, ssl = value(protocol).startswith("SASL"), value(protocol).endswith("SSL")
    for key in ("kafka.sasl_mechanism", "kafka.sasl_username", "kafka.sasl_password"):
        yield Relation((value(key) is not None) == sasl, (key, protocol), _REQUIRED if sasl else _UNUSED)
    for key in ("kafka.ssl_cafile", "kafka.ssl_certfile", "kafka.ssl_keyfile"):
        yield Relation(ssl or value(key) is None, (key, protocol), _UNUSED)
    request, largest = "kafka.request_bytes_max", "decode.value_bytes_max"
    if not over_files:
        yield Relation(
            value(request) >= value(largest) + HEADERS_BYTES_MAX,
            (request, largest),
            f"must leave room for {HEADERS_BYTES_MAX} bytes of key and headers beyond",
        )


def _decode(value: Lookup) -> Iterator[Relation]:
    form = "decode.format"
    is_text, is_avro = value(form) == "text", value(form) == "avro"
    for key in ("text", "title", "id", "time", "host", "scope", "metadata"):
        yield Relation(not is_text or value(f"decode.{key}") is None, (f"decode.{key}", form), _UNUSED)
    yield Relation(not is_text or value("decode.preset") == "plain", ("decode.preset", form), _UNUSED)
    url = "decode.registry_url"
    yield Relation(not is_avro or value(url) is not None, (url, form), _REQUIRED)
    for key in (url, "decode.registry_user", "decode.registry_password", "decode.registry_cafile"):
        yield Relation(is_avro or value(key) is None, (key, form), _UNUSED)


def _fingerprint(value: Lookup) -> Iterator[Relation]:
    markers, factor = "fingerprint.markers", "fingerprint.marker_factor"
    yield Relation(value(markers) is None or value(factor) > 1, (markers, factor), _UNUSED)
    file, key = "fingerprint.key_file", "fingerprint.key"
    yield Relation(value(file) is None or value(key) == "secret", (file, key), _UNUSED)
    kind, scheme = "fingerprint.second_look", "fingerprint.scheme"
    yield Relation(value(kind) == "none" or value(scheme) == "simhash", (kind, scheme), _UNUSED)
    if value(scheme) != "simhash" or value(kind) != "metadata":
        return
    from index import DISTANCE_MAX, second_look

    yield Relation(bool(value("decode.metadata")), (kind, "decode.metadata"), _UNUSED)
    least, weight = "second_look.similarity_min", "second_look.content_weight"
    look = second_look.MetadataLook(value("second_look.metadata_functions"), value(weight), value(least))
    is_narrow = look.reach <= DISTANCE_MAX
    larger = f"must be larger, so that nothing over {DISTANCE_MAX} bits apart matches, with"
    yield Relation(is_narrow, (least, weight), larger)
    follows = f"must be {look.reach}, or better be left out, as it follows from"
    distance = "index.distance_max"
    yield Relation(value(distance) == look.reach or not is_narrow, (distance, least), follows)


def _root(value: Lookup) -> Iterator[Relation]:
    """A root may be farther from a document than its match, never nearer."""
    if value("index.insert") != "root":
        return
    if value("fingerprint.scheme") == "minhash":
        root, match = "index.root_similarity_min", "minhash.similarity_min"
        yield Relation(value(root) <= value(match), (root, match), _AT_MOST)
        return
    match, root, bits = "index.distance_max", "index.root_distance_max", "fingerprint.bits"
    farthest = value(bits) if value(root) is None else value(root)
    yield Relation(value(match) <= farthest, (match, root), _AT_MOST)
    yield Relation(farthest <= value(bits), (root, bits), _AT_MOST)


def _ask(value: Lookup) -> Iterator[Relation]:
    token, file, host = "ask.token", "ask.token_file", "observe.host"
    has_token = value(token) is not None or value(file) is not None
    yield Relation(
        not value("ask.enabled") or has_token or is_loopback(value(host)),
        (file, host),
        "must be set, as ask.enabled lets other machines ask, by",
    )
    yield Relation(value(token) is None or value(file) is None, (token, file), "must not be set together with")
