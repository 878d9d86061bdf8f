"""Batches for the index, built from rows that a person can read."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from index.entry import Entries, Kind, Source

ONE = Source("stream-one", 0)
TWO = Source("stream-two", 3)


class Row(NamedTuple):
    """One row of a batch; the fingerprint is a number of `bits` bits, block 0 its highest bits."""

    offset: int
    fingerprint: int
    source: Source = ONE
    kind: Kind = Kind.NEAR
    reason: int = 0
    time_ms: int = 0
    id: str = ""
    look: bytes = b""
    host: str = ""
    digests: tuple[int, int] | None = None
    """Of its text, and of the text's substance."""
    length: int = 0


def entries_of(rows: Sequence[Row], bits: int = 64) -> Entries:
    sources = tuple(dict.fromkeys(row.source for row in rows))
    return Entries(
        sources=sources,
        source_numbers=np.array([sources.index(row.source) for row in rows], np.uint32),
        offsets=np.array([row.offset for row in rows], np.uint64),
        kinds=np.array([row.kind for row in rows], np.uint8),
        reasons=np.array([row.reason for row in rows], np.uint8),
        fingerprints=fingerprints_of([row.fingerprint for row in rows], bits),
        times_ms=np.array([row.time_ms for row in rows], np.int64),
        ids=[row.id or f"{row.source.stream}/{row.source.partition}/{row.offset}" for row in rows],
        looks=looks_of([row.look for row in rows]),
        hosts=[row.host for row in rows] if any(row.host for row in rows) else None,
        digests=digests_of(rows),
        lengths=np.array([row.length for row in rows], np.uint32) if any(row.length for row in rows) else None,
    )


def digests_of(rows: Sequence[Row]) -> np.ndarray | None:
    digests = [row.digests for row in rows if row.digests is not None]
    assert len(digests) in (0, len(rows)), "all rows have digests, or none has"
    return np.array(digests, np.uint64).reshape(-1, 2) if digests else None


def looks_of(looks: Sequence[bytes]) -> np.ndarray | None:
    """Of one length; None where none has any."""
    if not any(looks):
        return None
    return np.frombuffer(b"".join(looks), np.uint8).reshape(len(looks), -1)


def fingerprints_of(fingerprints: Iterable[int], bits: int) -> np.ndarray:
    raw = b"".join(fingerprint.to_bytes(bits // 8, "big") for fingerprint in fingerprints)
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, bits // 64)


def ends_of(rows: Iterable[Row]) -> dict[Source, int]:
    ends: dict[Source, int] = {}
    for row in rows:
        ends[row.source] = max(ends.get(row.source, 0), row.offset + 1)
    return ends


def clustered_fingerprints(generator: np.random.Generator, count: int, bits: int, *, centres: int) -> list[int]:
    """Fingerprints 0 to 9 bits away from a few random centres: plenty of near and of nearly near ones."""
    middles = [int.from_bytes(generator.bytes(bits // 8), "big") for _ in range(centres)]
    found = []
    for _ in range(count):
        flipped = generator.choice(bits, size=int(generator.integers(0, 10)), replace=False)
        found.append(middles[int(generator.integers(centres))] ^ sum(1 << int(bit) for bit in flipped))
    return found
