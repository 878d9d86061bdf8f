"""Search by id or position."""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import (
    NO_DISTANCE,
    Kind,
    Position,
    Source,
    Verdict,
    naming_originals,
)
from index.session import OpenIndex, ReadSession
from index.storage import documents, journal, log
from index.storage.documents import Document
from index.storage.sources import known_number, streams_of

BATCHES_LOOKED_AT_MAX = 100
"""Most batches that `newest_near` reads: a stream without near-duplicates must not cost a walk over the whole log."""


class EntryState(StrEnum):
    """Whether an entry still counts."""

    COUNTS = "counts"
    EXPIRED = "expired"
    FORGOTTEN = "forgotten"


class Decided(NamedTuple):
    """One decision on a record.

    distance     to the match, as in `Decisions`; None without a match
    original_id  id of the original that the verdict names, else None
    document     the document that entered, or None
    next_number  number of the next document at that time: the index had exactly those below
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


def find(opened: OpenIndex, ids: Collection[str]) -> list[Document]:
    """Implementation of `Index.find`."""

    def operation(session: ReadSession) -> list[Document]:
        found: list[Document] = []
        for batch, rows in _rows(session, ids):
            entered = batch.entered()
            places = np.flatnonzero(np.isin(entered, rows))
            found += documents.of_batch(session.transaction, batch, places)
        return found

    return opened.read(operation)


def decided(opened: OpenIndex, ids: Collection[str]) -> list[Decided]:
    """Implementation of `Index.decided`."""

    def operation(session: ReadSession) -> list[Decided]:
        return [each for batch, rows in _rows(session, ids) for each in _decided(session, batch, rows)]

    return opened.read(operation)


def decided_at(opened: OpenIndex, positions: Sequence[Position]) -> list[Decided | None]:
    """Implementation of `Index.decided_at`."""
    by_source: dict[Source, dict[int, list[int]]] = {}
    for place, position in enumerate(positions):
        by_source.setdefault(position.source, {}).setdefault(position.offset, []).append(place)

    def operation(session: ReadSession) -> list[Decided | None]:
        found: list[Decided | None] = [None] * len(positions)
        for source, places_of in by_source.items():
            stream = known_number(session.transaction, source.stream)
            if stream is None:
                continue
            offsets = np.array(sorted(places_of), np.uint64)
            for batch, rows, at in journal.holding(
                session.transaction, stream, source.partition, offsets, session.words
            ):
                for offset, each in zip(offsets[at].tolist(), _decided(session, batch, rows), strict=True):
                    for place in places_of[offset]:
                        found[place] = each
        return found

    return opened.read(operation)


def standings(opened: OpenIndex, asked: Sequence[int]) -> list[EntryState]:
    """Implementation of `Index.standings`."""
    of_asked = np.array(asked, np.uint64)

    def operation(session: ReadSession) -> list[EntryState]:
        visibility = session.visibility
        columns = visibility.are_retired(of_asked), visibility.visible(session.transaction, of_asked)
        return [
            # Forgotten entries are invisible too, so that test comes first.
            EntryState.FORGOTTEN if forgotten else EntryState.COUNTS if visible else EntryState.EXPIRED
            for forgotten, visible in zip(*columns, strict=True)
        ]

    return opened.read(operation)


def newest_near(opened: OpenIndex, limit: int) -> list[Decided]:
    """Implementation of `Index.newest_near`."""

    def operation(session: ReadSession) -> list[Decided]:
        found: list[Decided] = []
        for batch in islice(log.backwards(session.transaction, session.words), BATCHES_LOOKED_AT_MAX):
            columns = batch.rows
            rows = np.flatnonzero(
                naming_originals(columns["verdict"]) & (columns["kind"] == Kind.NEAR) & (columns["distance"] > 0)
            )[-(limit - len(found)) :]
            # The last rows of the batch, newest first: rows [3, 8] with limit 1 give 8.
            found += reversed(list(_decided(session, batch, rows)))
            if len(found) == limit:
                break
        return found

    return opened.read(operation)


def numbers(session: ReadSession, ids: Collection[str]) -> npt.NDArray[np.uint64]:
    """Numbers for the documents with one of these ids, uint64 [n], ascending."""
    found = [np.empty(0, np.uint64)]
    for batch, rows in _rows(session, ids):
        found.append(batch.numbers()[np.isin(batch.entered(), rows)])
    return np.concatenate(found)


def _rows(session: ReadSession, ids: Collection[str]) -> Iterator[tuple[log.Batch, npt.NDArray[np.int64]]]:
    """Log batches with the rows, int64 [n], that have one of these ids; both ascending."""
    places = session.ids.find(session.transaction, ids)
    for key, of_batch in groupby(places, lambda place: place.batch):
        rows = np.array([place.row for place in of_batch], np.int64)
        yield log.read(session.transaction, key, session.words), rows


def _decided(session: ReadSession, batch: log.Batch, rows: npt.NDArray[np.int64]) -> Iterator[Decided]:
    transaction, columns = session.transaction, batch.rows[rows]
    of_rows = batch.sources[columns["source"]]
    naming = rows[naming_originals(columns["verdict"])]
    origins = dict(zip(naming.tolist(), batch.origins(naming), strict=True))
    streams = streams_of(transaction, {*of_rows["stream"].tolist(), *(origin.stream for origin in origins.values())})
    entered = np.isin(batch.entered(), rows)
    entries = documents.of_batch(transaction, batch, np.flatnonzero(entered))
    document_of = dict(zip(batch.entered()[entered].tolist(), entries, strict=True))
    next_numbers = batch.first_number + np.searchsorted(batch.entered(), rows)
    columns_of_rows = (rows.tolist(), batch.ids(rows), columns, of_rows.tolist(), next_numbers.tolist())
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
