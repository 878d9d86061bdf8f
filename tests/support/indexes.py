"""Indexes to look after: filled with some of everything, and all that can be asked of one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import xxhash

from index.entry import Kind
from index.index import Index, internals_of
from index.lsm.compaction import TreeSizes
from index.session import Result
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools import Finding, Record, snapshot, verify
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of

MAP_BYTES_MAX = 2**30
SMALL = TreeSizes(memtable_entries=8, segment_bytes=64)
"""Entries move on all the time."""


def opened(directory: Path, parameters: Parameters | None = None, **options: Any) -> Index:
    """For writing with these parameters, the default ones if None."""
    return Index.open(directory, parameters or Parameters(), map_bytes_max=MAP_BYTES_MAX, **options)


def looked_at(directory: Path) -> Index:
    """For reading, with whatever parameters it was made."""
    return Index.open(directory, None, map_bytes_max=MAP_BYTES_MAX, read_only=True)


def make_older(directory: Path, version: int = 1) -> None:
    """Stamp an index as one of an older format version, with the checksum that versions 3 to 7 have."""
    stamp = b'{"format": %d, "bits": 64}' % version
    if version > 2:
        digest = xxhash.xxh3_64_intdigest
        stamp += digest(stamp, digest(b"stamp", digest(b"meta"))).to_bytes(8, "little")
    with lmdb.open(str(directory), max_dbs=20) as environment:
        handle = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"stamp", stamp, db=handle)


def mixed_rows(seed: int, count: int, bits: int = 64, *, repeated: float = 0.0) -> list[Row]:
    """Near and exact documents with many duplicates, undecidable ones and dead letters, from two sources.

    repeated  this share of the near ones has a fingerprint that one before had
    """
    generator = np.random.default_rng(seed)
    fingerprints = clustered_fingerprints(generator, count, bits, centres=max(2, count // 8))
    for place in np.flatnonzero(generator.random(count) < repeated).tolist():
        fingerprints[place] = fingerprints[int(generator.integers(place + 1))]
    kinds = generator.choice(4, size=count, p=[0.7, 0.15, 0.1, 0.05])
    return [
        Row(
            offset,
            offset % 7 if kind == Kind.EXACT else fingerprint,
            (ONE, TWO)[int(generator.integers(2))],
            Kind(int(kind)),
            reason=offset % 5,
            time_ms=offset - 3,
            id=f"id {offset}",
        )
        for offset, (fingerprint, kind) in enumerate(zip(fingerprints, kinds, strict=True))
    ]


def filled(
    directory: Path, rows: list[Row], parameters: Parameters | None = None, batch_rows: int = 40, **options: Any
) -> None:
    parameters = parameters or Parameters()
    with opened(directory, parameters, **options) as index:
        index.begin(ONE, "news", 0)
        for begin in range(0, len(rows), batch_rows):
            part = rows[begin : begin + batch_rows]
            ends = ends_of(part)
            index.admit(entries_of(part, parameters.bits), ends, {source: b"%d" % end for source, end in ends.items()})


def everything(index: Index) -> tuple[object, ...]:
    """All that an index can be asked."""
    statistics = index.statistics()
    count = len(index.find({f"id {number}" for number in range(10_000)}))
    return (
        statistics.entries,
        statistics.exact_entries,
        statistics.journal_rows,
        statistics.forgotten,
        index.documents(range(count + 1)),
        index.applied(),
        index.stream_names(),
    )


def made(folder: Path, rows: list[Row], parameters: Parameters | None = None, **options: Any) -> str:
    """Let an index in this folder admit rows of ONE; returns its identity."""
    with opened(folder, parameters, **options) as index:
        index.begin(ONE, "pages.jsonl", 0)
        index.admit(entries_of(rows), ends_of(rows))
        return index.identity


def inspected(index: Index, operation: Callable[[Transaction], Result]) -> Result:
    """What an operation finds in the tables of one moment."""
    return internals_of(index).read(lambda session: operation(session.transaction))


def changed(index: Index, operation: Callable[[Transaction], Result]) -> Result:
    """What an operation returns that changes the tables, in a write session."""
    return internals_of(index).write(lambda session: operation(session.transaction))


def all_records(index: Index) -> list[Record]:
    """Everything that an index knows of any position."""
    return snapshot(index, lambda taken: list(taken.records()))


def findings(directory: Path) -> dict[str, Finding]:
    """What verification says, check by check."""
    with looked_at(directory) as index:
        return {finding.check: finding for finding in verify(index)}


def wrong(directory: Path) -> dict[str, list[str]]:
    """Only the checks that found something, with what they found."""
    return {check: finding.examples for check, finding in findings(directory).items() if finding.wrong}
