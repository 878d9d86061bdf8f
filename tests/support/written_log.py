"""Batches written into a log row by row, and the same kept as plain rows for a test to compare with."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from index.entry import Entries, Kind, Source, Verdict
from index.storage import log
from index.storage.layout import Filing, Table
from index.storage.log import Origin
from index.storage.store import Transaction

WORDS = 2
LOOK_BYTES = 3
STREAMS = ((7, 0), (7, 1), (2**32 - 1, 5))
"""Stream number and partition of the sources that rows are of."""


class LogRow(NamedTuple):
    """One decided row; what identifies a document follows from its place."""

    source: int = 0
    filing: Filing = Filing.BLOCKS
    origin: Origin | None = None
    id: str = ""


IDS = ("", "a", "plain", "é", "名前", "\ud800x")


def some_batches(random: Random) -> list[list[LogRow]]:
    """Up to nine batches of up to five rows, some of them empty, some with no row that entered."""
    return [
        [some_row(random, random.choice([0.2, 0.8, 1.0])) for _ in range(random.randrange(6))]
        for _ in range(random.randrange(10))
    ]


def some_row(random: Random, entering: float) -> LogRow:
    filing = random.choice([Filing.ASIDE, Filing.BLOCKS]) if random.random() < entering else Filing.NOTHING
    origin = Origin(random.choice(IDS), random.randrange(2**32), random.randrange(2**32), random.randrange(2**64))
    return LogRow(random.randrange(3), filing, random.choice([None, origin]), random.choice(IDS))


RANDOMS = st.integers(0, 2**64).map(Random)
"""A source of chance: batches drawn one by one would mostly be empty."""


class Document(NamedTuple):
    """A row that entered."""

    number: int
    batch: int
    row: LogRow
    fingerprint: list[int]
    look: list[int]


class WrittenLog(NamedTuple):
    """Keys of the batches, with the key that a next one would have, and all documents by number."""

    keys: list[bytes]
    batches: Sequence[Sequence[LogRow]]
    documents: dict[int, Document]


def written(transaction: Transaction, batches: Sequence[Sequence[LogRow]]) -> WrittenLog:
    """Write the batches one behind the other; a batch names the sources of its rows alone."""
    keys, documents, number, journal_rows = [], {}, 0, 0
    for place, rows in enumerate(batches):
        keys.append(log.key_of(number, journal_rows))
        used = sorted({row.source for row in rows})
        generator = np.random.default_rng(place)
        fingerprints = generator.integers(0, 2**64, (len(rows), WORDS), dtype=np.uint64)
        looks = generator.integers(0, 256, (len(rows), LOOK_BYTES), dtype=np.uint8)
        entries = Entries(
            sources=tuple(Source(str(STREAMS[source][0]), STREAMS[source][1]) for source in used),
            source_numbers=np.array([used.index(row.source) for row in rows], np.uint32),
            offsets=np.arange(journal_rows, journal_rows + len(rows), dtype=np.uint64),
            kinds=np.full(len(rows), Kind.NEAR, np.uint8),
            reasons=np.zeros(len(rows), np.uint8),
            fingerprints=fingerprints,
            times_ms=np.arange(len(rows), dtype=np.int64) - 3,
            ids=[row.id for row in rows],
            looks=looks,
        )
        verdicts = [Verdict.UNIQUE if row.origin is None else Verdict.DUPLICATE for row in rows]
        sources = log.sources_of(*(np.array([STREAMS[source][part] for source in used], np.uint32) for part in (0, 1)))
        columns: dict[str, np.ndarray] = {
            "verdict": np.array(verdicts, np.uint8),
            "filing": np.array([row.filing for row in rows], np.uint8),
        }
        log.write(transaction, keys[-1], entries, sources, columns, [row.origin for row in rows if row.origin])
        for at, row in enumerate(rows):
            if row.filing is not Filing.NOTHING:
                documents[number] = Document(number, place, row, fingerprints[at].tolist(), looks[at].tolist())
                number += 1
        journal_rows += max(1, len(rows))
    return WrittenLog([*keys, log.key_of(number, journal_rows)], batches, documents)


def delete(transaction: Transaction, keys: Sequence[bytes]) -> None:
    for key in keys:
        transaction.delete(Table.LOG, key)
