"""Search by id or position."""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import sets
from index.entry import NO_DISTANCE, Kind, Position, Source, Verdict, naming_originals
from index.matching.host_sketch import host_keys
from index.session import ReadSession
from index.storage import documents, journal, log
from index.storage.documents import Document
from index.storage.layout import Filing
from index.storage.sources import streams_of
from index.versions.by_id import rows_in_batches

BATCHES_LOOKED_AT_MAX = 100
"""Most batches that `newest_near` reads: a stream without near-duplicates must not cost a walk over the whole log."""


class EntryState(StrEnum):
    """Whether an entry still counts.

    >>> f"This entry {EntryState.COUNTS}; the other one is {EntryState.EXPIRED}."
    'This entry counts; the other one is expired.'
    """

    COUNTS = "counts"
    EXPIRED = "expired"
    FORGOTTEN = "forgotten"


class Decided(NamedTuple):
    """One decision on a record.

    distance     to the match, as in `Decisions`; None without a match
    original_id  id of the original that the verdict names, else None
    document     the document that entered, or None
    next_number  number of the next document at that time: the index had exactly those below

    >>> position = Position(Source("topic", 0), 17)
    >>> one = Decided("a", position, 0, Verdict.DUPLICATE, 0, Kind.NEAR, 2, "b", position, document=None, next_number=9)
    >>> f"{one.id} is a {one.verdict.label} that resembles {one.original_id} and is no entry: {one.document}"
    'a is a duplicate that resembles b and is no entry: None'
    """

    id: str
    position: Position
    time_ms: int
    verdict: Verdict
    reason: int
    kind: Kind
    distance: int | None
    original_id: str | None
    original_position: Position | None
    document: Document | None
    next_number: int


def find(session: ReadSession, ids: Collection[str]) -> list[Document]:
    """Implementation of `Index.find`."""
    return [
        document
        for batch, rows in rows_in_batches(session, session.ids.find(session.transaction, {*ids}).rows)
        for document in documents.in_batch(session.transaction, batch, np.flatnonzero(np.isin(batch.entered(), rows)))
    ]


def decided(session: ReadSession, ids: Collection[str]) -> list[Decided]:
    """Implementation of `Index.decided`."""
    found = session.ids.find(session.transaction, {*ids})
    return [each for batch, rows in rows_in_batches(session, found.rows) for each in _decided(session, batch, rows)]


def decided_at(session: ReadSession, positions: Sequence[Position]) -> list[Decided | None]:
    """Implementation of `Index.decided_at`."""
    decisions: list[Decided | None] = [None] * len(positions)
    for batch, rows, places in journal.at_positions(session.transaction, positions, session.words):
        for place, each in zip(places.tolist(), _decided(session, batch, rows), strict=True):
            decisions[place] = each
    return decisions


def standings(session: ReadSession, asked: Sequence[int]) -> list[EntryState]:
    """Implementation of `Index.standings`."""
    numbers, visibility = np.array(asked, np.uint64), session.visibility
    columns = visibility.are_retired(numbers), sets.visible(session, numbers)
    return [
        # Forgotten entries are invisible too, so that test comes first.
        EntryState.FORGOTTEN if forgotten else EntryState.COUNTS if visible else EntryState.EXPIRED
        for forgotten, visible in zip(*columns, strict=True)
    ]


def states_at(session: ReadSession, positions: Sequence[Position]) -> list[EntryState | None]:
    """Implementation of `Index.states_at`."""
    states: list[EntryState | None] = [None] * len(positions)
    entered: list[int] = []
    numbers: list[int] = []
    for batch, rows, places in journal.at_positions(session.transaction, positions, session.words):
        have_entered = batch.rows["filing"][rows] != Filing.NOTHING
        for place in places[~have_entered].tolist():
            states[place] = EntryState.COUNTS
        entered += places[have_entered].tolist()
        numbers += (batch.first_number + np.searchsorted(batch.entered(), rows[have_entered])).tolist()
    for place, state in zip(entered, standings(session, numbers), strict=True):
        states[place] = state
    return states


def newest_near(session: ReadSession, limit: int, host: str) -> list[Decided]:
    """Implementation of `Index.newest_near`."""
    newest: list[Decided] = []
    digest = host_keys([host]).astype(np.uint32)
    for batch in islice(log.backwards(session.transaction, session.words), BATCHES_LOOKED_AT_MAX):
        columns = batch.rows
        near = naming_originals(columns["verdict"]) & (columns["kind"] == Kind.NEAR) & (columns["distance"] > 0)
        if host:
            near &= columns["host"] == digest
        # The last rows of the batch, newest first: rows [3, 8] with limit 1 give 8.
        newest += reversed(list(_decided(session, batch, np.flatnonzero(near)[len(newest) - limit :])))
        if len(newest) == limit:
            break
    return newest


def _decided(session: ReadSession, batch: log.Batch, rows: npt.NDArray[np.int64]) -> Iterator[Decided]:
    transaction, columns = session.transaction, batch.rows[rows]
    sources = batch.sources[columns["source"]]
    naming = rows[naming_originals(columns["verdict"])]
    origins = dict(zip(naming.tolist(), batch.origins(naming), strict=True))
    streams = streams_of(transaction, {*sources["stream"].tolist(), *(origin.stream for origin in origins.values())})
    entered = np.isin(batch.entered(), rows)
    entries = documents.in_batch(transaction, batch, np.flatnonzero(entered))
    document_of = dict(zip(batch.entered()[entered].tolist(), entries, strict=True))
    next_numbers = batch.first_number + np.searchsorted(batch.entered(), rows)
    columns_of_rows = (rows.tolist(), batch.ids(rows), columns, sources.tolist(), next_numbers.tolist())
    for row, id_, own, source, next_number in zip(*columns_of_rows, strict=True):
        origin, distance = origins.get(row), int(own["distance"])
        at = None if origin is None else Position(Source(streams[origin.stream], origin.partition), origin.offset)
        yield Decided(
            id=id_,
            position=Position(Source(streams[source[0]], source[1]), int(own["offset"])),
            time_ms=int(own["time_ms"]),
            verdict=Verdict(int(own["verdict"])),
            reason=int(own["reason"]),
            kind=Kind(int(own["kind"])),
            distance=None if distance == NO_DISTANCE else distance,
            original_id=None if origin is None else origin.id,
            original_position=at,
            document=document_of.get(row),
            next_number=next_number,
        )
