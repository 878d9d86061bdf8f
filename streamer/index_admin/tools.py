"""An operator's answers, as plain values: an index's size and soundness, and documents similar to another.

The index is opened read-only, even next to a running service.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import (
    Decided,
    Document,
    Index,
    Kind,
    Match,
    Parameters,
    Source,
    base_of,
    errors,
    minhash,
    plain_source,
    room_of,
    second_look,
)
from index.tools import Age, BucketSizes, Finding, readers, survey
from streamer.errors import SettingsError
from streamer.explain.positions import place_as_json, position_text, time_text
from streamer.explain.texts import comparable_scheme
from streamer.fingerprint.fingerprints import from_hexadecimal, hexadecimal
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.scheme import Scheme, key_for, knows_key
from streamer.records.names import bounded_id, scope_named
from streamer.service.wiring import open_with_scheme, usable_directory
from streamer.settings.settings import Settings

SOURCES_SHOWN = 20
"""Most names of inputs in a message."""

GROWTH_ROWS_MIN = 10_000
"""A smaller index is mostly what every index has."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query's target: kind and fingerprint, uint64 [1, words]; for an id, a decision on it.

    A record that entered nothing has no known fingerprint.

    >>> from index import Index, Parameters
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     seek_fingerprint(index, "000000000000f00d").fingerprint
    array([[61453]], dtype=uint64)
    """

    kind: Kind
    fingerprint: npt.NDArray[np.uint64] | None
    decided: Decided | None = None


def open_for_reading(settings: Settings) -> Index:
    """Open the configured index read-only, with its own parameters. Raises NeardupIndexError, SettingsError."""
    with usable_directory(settings):
        return Index.open(settings.index.directory, None, map_bytes_max=settings.index.map_bytes_max, read_only=True)


def open_for_writing(settings: Settings) -> Index:
    """Open the existing index for writing. Raises NeardupIndexError, SettingsError."""
    with open_for_reading(settings) as index:
        parameters = index.parameters
    with usable_directory(settings):
        return Index.open(settings.index.directory, parameters, map_bytes_max=settings.index.map_bytes_max)


def open_to_forget(settings: Settings, *, dry_run: bool) -> Index:
    """Open the existing index to forget documents, or to see which. Raises NeardupIndexError, SettingsError."""
    return open_for_reading(settings) if dry_run else open_for_writing(settings)


def source_names(index: Index) -> dict[str, str]:
    """Names of all inputs by stream, without the streams of what was given back and of base sets."""
    return {
        stream: name
        for stream, name in index.stream_names().items()
        if plain_source(Source(stream, 0)).stream == stream and base_of(stream) is None
    }


def unknown_source(source: str, names: Mapping[str, str]) -> str:
    """What to say about a source that is none of these `names`."""
    known = sorted({name or stream for stream, name in names.items()})
    shown = [*known[:SOURCES_SHOWN], *([f"{len(known) - SOURCES_SHOWN:,} more"] if len(known) > SOURCES_SHOWN else [])]
    return f"no source of this index has the name {source}; it has {', '.join(shown) or 'none'}"


def open_to_decide(settings: Settings) -> tuple[Index, Scheme]:
    """Open the existing index for deciding, as the service does. Raises NeardupIndexError, SettingsError."""
    open_for_reading(settings).close()
    return open_with_scheme(settings)


def key_in_place(settings: Settings) -> tuple[HashKey, bytes | None]:
    """The current index's key and stored secret; without a key, the public one. Raises NeardupIndexError, SettingsError."""
    secret = None
    with suppress(errors.IndexMissingError), open_for_reading(settings) as index:
        secret = index.secret
    return (PUBLIC if secret is None and not knows_key(settings) else key_for(settings, secret)), secret


def key_of_export(settings: Settings, exported: Parameters, name: str) -> tuple[HashKey, bytes | None]:
    """As `key_in_place`. Raises SettingsError for an export, `name`, hashed with another key."""
    key, secret = key_in_place(settings)
    theirs = exported.fingerprint.get("key", "")
    if key.digest != theirs:
        remedy = (
            "set fingerprint.key_file to a file with that key, which `streamer index key` prints where the export was made"
            if theirs
            else 'set fingerprint.key = "public"'
        )
        raise SettingsError(
            f"{name}: its entries were hashed with key {theirs or 'public'}, not {key.digest or 'public'}: {remedy}."
        )
    return key, secret


def statistics(index: Index, settings: Settings, committed: Mapping[Source, int] | None) -> dict[str, Any]:
    """An index's size, fill and readers, and applied offset per source.

    committed  the group's committed offset per source; None without a broker
    """
    counted = index.statistics()
    surveyed = survey(index)
    room = room_of(settings.index.directory, settings.index.map_bytes_max)
    entries = counted.entries + counted.exact_entries
    table_bytes = {**counted.table_bytes, "free": counted.used_bytes - sum(counted.table_bytes.values())}
    return {
        "directory": str(settings.index.directory),
        "parameters": parameters_as_json(index.parameters),
        "entries": counted.entries,
        "exact_entries": counted.exact_entries,
        "expired_below": counted.expired_below,
        "forgotten": counted.forgotten,
        "journal_rows": counted.journal_rows,
        "used_bytes": counted.used_bytes,
        "bytes_max": room.bytes_max,
        "disk_free_bytes": room.free_bytes,
        "bytes_per_million": (
            1e6 * counted.used_bytes / counted.journal_rows if counted.journal_rows >= GROWTH_ROWS_MIN else None
        ),
        "table_bytes": table_bytes,
        "bytes_per_entry": {name: size / entries for name, size in table_bytes.items() if entries},
        "compaction": surveyed.stats._asdict(),
        "buckets": _histogram(surveyed.buckets),
        "sources": _sources(index, surveyed.ages, committed),
        "readers": [
            {"process": process, "transaction": transaction}
            for process, transaction in readers(index)
            if process != os.getpid()
        ],
    }


def _sources(index: Index, ages: Mapping[Source, Age], committed: Mapping[Source, int] | None) -> list[dict[str, Any]]:
    names, applied = index.stream_names(), index.applied()
    return [
        {
            "name": names.get(source.stream, ""),
            "stream": source.stream,
            "partition": source.partition,
            "applied": applied[source].offset if source in applied else None,
            **({} if committed is None else {"committed": committed.get(source)}),
            **(
                {"time": time_text(ages[source].watermark_ms), "expired_below": ages[source].expired_below}
                if source in ages
                else {}
            ),
        }
        for source in sorted({*applied, *(committed or {})})
    ]


def _histogram(buckets: BucketSizes) -> dict[str, Any]:
    """Sampled buckets by size: 0, 1, 2 to 3, 4 to 7, and so on in powers of two."""
    levels = np.where(buckets.sizes > 0, np.frexp(buckets.sizes)[1], 0)
    counts = np.bincount(levels)
    return {
        "count": buckets.buckets,
        "looked_at": len(buckets.sizes),
        "mean": float(buckets.sizes.mean()) if len(buckets.sizes) else 0.0,
        "largest": buckets.largest,
        "histogram": [
            {"from": (1 << level) >> 1, "to": max(0, (1 << level) - 1), "buckets": int(count)}
            for level, count in enumerate(counts)
        ],
    }


def parameters_as_json(parameters: Parameters) -> dict[str, Any]:
    """Parameters for machines, with the scheme's measure."""
    by_similarity = {"similarity_min": minhash.similarity_of(parameters.distance_max)}
    return {
        "scheme": parameters.scheme,
        "bits": parameters.bits,
        **(by_similarity if parameters.scheme == "minhash" else {"distance_max": parameters.distance_max}),
        "insert": parameters.insert,
        "fingerprint": dict(parameters.fingerprint),
        **({} if parameters.look is None else {"look": second_look.look_fields(parameters.look)}),
    }


def seek_text(index: Index, settings: Settings, text: str, scope: str = "") -> Query:
    """A text's fingerprint, as in the service. Raises ParametersDifferError if the settings give others than the index has."""
    if scope and settings.decode.scope is None:
        raise SettingsError("--scope: documents have no scopes: set decode.scope as for the service.")
    fingerprints = comparable_scheme(index, settings).fingerprint([text], scopes=[scope_named(scope)])
    return Query(Kind(int(fingerprints.kinds[0])), fingerprints.fingerprints)


def seek_fingerprint(index: Index, text: str) -> Query:
    """Target of a hexadecimal fingerprint. Raises ValueError."""
    return Query(Kind.NEAR, from_hexadecimal(text, index.parameters.bits))


def seek_id(index: Index, id_: str) -> list[Query]:
    """Decisions on an id, oldest first."""
    return [
        Query(each.kind, None if each.document is None else np.array([each.document.fingerprint], np.uint64), each)
        for each in index.decided([bounded_id(id_)])
    ]


def answer(query: Query, matches: list[Match], names: Mapping[str, str], parameters: Parameters) -> dict[str, Any]:
    """Target and matches for machines, with the scheme's measure."""
    by_similarity = parameters.scheme == "minhash"
    fields: dict[str, Any] = {"kind": query.kind.name.lower(), "fingerprint": None}
    if query.fingerprint is not None:
        fields["fingerprint"] = hexadecimal(np.array([query.kind], np.uint8), query.fingerprint)[0]
    if query.decided is not None:
        fields["document"] = _decided(query.decided, names, parameters)
    fields["matches"] = [
        {
            **_measured(match.distance, by_similarity=by_similarity),
            **_described(match.document, names),
            "number": match.document.number,
        }
        for match in matches
    ]
    return fields


def _measured(distance: int, *, by_similarity: bool) -> dict[str, float]:
    return {"similarity": round(minhash.similarity_of(distance), 4)} if by_similarity else {"distance": distance}


def _described(record: Document | Decided, names: Mapping[str, str]) -> dict[str, Any]:
    return place_as_json(record.id, record.position, position_text(record.position, names), record.time_ms)


def _decided(decided: Decided, names: Mapping[str, str], parameters: Parameters) -> dict[str, Any]:
    fields = _described(decided, names)
    if decided.document is not None:
        fields["number"] = decided.document.number
    fields["verdict"] = decided.verdict.label
    if decided.original_position is not None:
        at = decided.original_position
        fields["original"] = {
            "id": decided.original_id,
            "position": position_text(at, names),
            "stream": at.source.stream,
        }
    if decided.distance is not None:
        fields |= _measured(decided.distance, by_similarity=parameters.by_similarity)
    return fields


def verdict(findings: list[Finding]) -> dict[str, Any]:
    """Findings for machines."""
    return {
        "sound": not any(finding.wrong for finding in findings),
        "checks": [finding.as_json() for finding in findings],
    }
