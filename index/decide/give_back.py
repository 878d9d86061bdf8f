"""Giving back: a person reverses a drop, and the document counts as unique from then on.

The drop stays as decided. The document enters again with the verdict GIVEN_BACK, under its own source
(`entry.given_back_source`). A position enters there once, so nothing is given back twice. Later documents equal or
near to it are its duplicates.

Until the given-back document is forgotten or expires, a record with its id is a DUPLICATE only of its own earlier
versions, and otherwise UNIQUE, however near other documents are.

An earlier version is an entry with the same id whose root has that id too. Versions match like any entries:

- NEAR: within the distance, by the second look and the root limits if configured; the nearest, then the earliest.
- EXACT: if equal.

The look-up is by id, so bands miss no version. Guard and policies treat such a duplicate as any other.

The key `giving back` names a decided batch until its delivery is settled, and blocks other batches meanwhile.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide import find
from index.decide.batch import Batch
from index.decide.lookup import Answer, nearest_of_matches, nearest_visible
from index.decide.prepare import Prepared, prepared, stored_form
from index.decide.restore import NO_ENDS, enter_again
from index.entry import (
    NO_DISTANCE,
    NO_NUMBER,
    Entries,
    Kind,
    Position,
    Source,
    Verdict,
    given_back_source,
)
from index.errors import GivingBack
from index.frames.hosts import with_frames
from index.lsm.exact_lookup import exact_lookup_of
from index.matching.distance import Matches
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import documents, journal, log
from index.storage.layout import GIVING_BACK_KEY, LOG_KEY, Table
from index.storage.sources import streams_of
from index.versions.texts import stored


def give_back(session: WriteSession, entries: Entries, *, delivered: bool) -> npt.NDArray[np.bool_]:
    """Implementation of `Index.give_back`."""
    # The host's sample took the page in when the filter dropped it.
    entries = stored_form(entries, session.parameters)
    entries = with_frames(session, entries, np.arange(len(entries)), are_known=True)
    # The reason stays with the drop.
    sources, reasons = tuple(map(given_back_source, entries.sources)), np.zeros_like(entries.reasons)
    entries = replace(entries, sources=sources, reasons=reasons)
    batch, counters = Batch(session, entries), session.counters
    new = ~batch.journaled.known
    if not new.any():
        return new
    if not delivered:
        if undelivered(session):
            raise GivingBack("Another batch is being given back, and its delivery is not settled.")
        session.transaction.put(Table.META, GIVING_BACK_KEY, LOG_KEY.pack(counters.next_number, counters.journal_rows))
    entering = new & (entries.kinds <= Kind.EXACT)
    verdicts, unnamed = np.full(len(new), Verdict.GIVEN_BACK, np.uint8), np.full(len(new), NO_NUMBER, np.uint64)
    distances = np.full(len(new), NO_DISTANCE, np.int16)
    outcome = Outcome(verdicts, distances, entering, counters.next_number, unnamed)
    enter_again(session, batch, entries, new, outcome, (), NO_ENDS)
    return new


def are_known(session: ReadSession, positions: Sequence[Position]) -> npt.NDArray[np.bool_]:
    """Implementation of `Index.are_given_back`."""
    given_back = [position._replace(source=given_back_source(position.source)) for position in positions]
    known = np.zeros(len(positions), np.bool_)
    for _, _, places in journal.at_positions(session.transaction, given_back, session.words):
        known[places] = True
    return known


def settle(session: WriteSession, positions: Collection[Position]) -> bool:
    """Implementation of `Index.settle`."""
    # Another command may have settled it and decided the next batch.
    theirs = set(undelivered(session)) != set(positions)
    return not theirs and session.transaction.delete(Table.META, GIVING_BACK_KEY)


def undelivered(session: ReadSession) -> list[Position]:
    """Positions in the unsettled batch; empty without one, or if all its entries have expired."""
    transaction, key = session.transaction, session.transaction.get(Table.META, GIVING_BACK_KEY)
    if key is None or transaction.get(Table.LOG, key) is None:
        return []
    batch = log.copied(transaction, key, session.words)
    of_rows = batch.sources[batch.rows["source"]]
    streams = streams_of(transaction, of_rows["stream"].tolist())
    columns = of_rows["stream"].tolist(), of_rows["partition"].tolist(), batch.rows["offset"].tolist()
    return [Position(Source(streams[stream], partition), at) for stream, partition, at in zip(*columns, strict=True)]


def split_given_back(
    session: ReadSession,
    entries: Entries,
    new: npt.NDArray[np.bool_],
    portions: list[Prepared],
    *,
    alone: bool = False,
) -> Iterator[tuple[Prepared, bool]]:
    """Split new rows, bool [n], into portions, each with whether it is one row with a given-back document's id.

    Such a row gets its own portion, because matches within a portion do not separate versions from other documents.
    Without such rows the prepared portions come back unchanged.

    alone  as in `prepared`
    """
    again = new & documents.are_given_back(session.visibility, entries.ids)
    if not again.any():
        yield from ((portion, False) for portion in portions)
        return
    rows = np.flatnonzero(new)
    # Rows again = [F, T, F, F]: edges are [1, 2], so the parts have rows [0], [1] and [2, 3].
    edges = np.flatnonzero(again[rows][1:] | again[rows][:-1]) + 1
    for part in np.split(rows, edges):
        yield from (
            (portion, bool(again[part[0]])) for portion in prepared(entries, part, session.parameters, alone=alone)
        )


def nearest_version(session: ReadSession, portion: Prepared) -> Answer:
    """Look up one NEAR row like `nearest_visible`, among its earlier versions only."""
    row, parameters = portion.entries, session.parameters
    # Equal entries, of any document, decide how the row is filed.
    equals = nearest_visible(session, exact_lookup_of(row.fingerprints, parameters))
    numbers = _versions(session, row.ids[0])
    kinds, fingerprints, _ = stored(session, numbers)
    distances = parameters.distances(np.repeat(row.fingerprints, len(numbers), axis=0), fingerprints)
    matches = Matches(np.zeros(len(numbers), np.int64), distances, numbers)
    matches = matches.take((kinds == Kind.NEAR) & (distances <= parameters.distance_max))
    best = nearest_of_matches(session, matches, row)
    return Answer(best, np.array([len(numbers)], np.int64), equals.stale, equals.equal)


def equal_version(session: ReadSession, portion: Prepared) -> npt.NDArray[np.uint64]:
    """Number of the earliest version equal to a portion's one EXACT row, uint64 [1], or NO_NUMBER."""
    numbers = _versions(session, portion.entries.ids[0])
    kinds, fingerprints, _ = stored(session, numbers)
    counts = (kinds == Kind.EXACT) & (fingerprints == portion.entries.fingerprints).all(axis=1)
    return numbers[counts][:1] if counts.any() else np.array([NO_NUMBER], np.uint64)


def _versions(session: ReadSession, id_: str) -> npt.NDArray[np.uint64]:
    """Numbers of the earlier versions with this id, uint64 [n] ascending."""
    transaction, words = session.transaction, session.words
    numbers = find.numbers(session, {id_})
    numbers = numbers[session.visibility.visible(numbers)]
    root_of = documents.roots if session.parameters.root is None else documents.counting_roots
    roots = root_of(session.visibility, numbers)
    origins = documents.origins(transaction, roots[roots != NO_NUMBER], words)
    own = np.array([root in origins and origins[root].id == id_ for root in roots.tolist()], np.bool_)
    return numbers[own]
