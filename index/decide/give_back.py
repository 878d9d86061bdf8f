"""Giving back: a person reverses a drop, and the document counts as unique from then on.

The drop stays as decided. The document enters again with the verdict GIVEN_BACK, under its own source
(`entry.given_back_source`). A position enters there once, so nothing is given back twice. Later documents equal or
near to it are its duplicates.

Until the given-back document is forgotten or expires, a record with its id is a DUPLICATE only of its own earlier
versions, and otherwise UNIQUE, however near other documents are.

An earlier version is an entry with the same id whose root has that id too. Versions match like any entries:

- NEAR: within the distance, by the second look and the root limits if configured; the nearest, then the earliest.
- EXACT: if equal.

The look-up is by id, so bands miss no version: all that were given back, and those among the last 64 records with the
id. Pages whose text is that of their last version need none. Guard and policies treat such a duplicate as any other.

The key `giving back` names a decided batch until its delivery is settled, and blocks other batches meanwhile.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide import find
from index.decide.batch import Batch
from index.decide.lookup import nearest_of_matches
from index.decide.prepare import Prepared, stored_form
from index.decide.restore import NO_ENDS, enter_again, numbers_at, positions_of
from index.decide.rule import WATCHED
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Position, Source, Verdict, given_back_source
from index.errors import GivingBack
from index.frames.hosts import with_frames
from index.matching.distance import Matches, joined, nearest
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import documents, journal, log
from index.storage.layout import GIVING_BACK_KEY, LOG_KEY, Table
from index.storage.parameters import Parameters
from index.storage.sources import streams_of
from index.stories.fold import recount
from index.versions.history import ROWS_OF_ID_MAX


def give_back(session: WriteSession, entries: Entries, *, delivered: bool) -> npt.NDArray[np.bool_]:
    """Implementation of `Index.give_back`."""
    # The host's sample took the page in when the filter dropped it.
    entries = stored_form(entries, session.parameters)
    entries = with_frames(session, entries, np.arange(len(entries)), are_known=True)
    roots = numbers_at(session, positions_of(entries, np.arange(len(entries))))
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
    enter_again(session, batch, entries, new, outcome, (), NO_ENDS, leaving=np.zeros_like(new))
    recount(session, roots[new])
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


def nearest_versions(session: ReadSession, portion: Prepared, apart: npt.NDArray[np.bool_]) -> Matches:
    """The nearest earlier version in the index that counts, for each of these rows, bool [n].

    Also, at the distance WATCHED, other documents: an entry near the row is a version once this root is lost.
    """
    entries, rows = portion.entries, np.flatnonzero(apart).tolist()
    roots_of = _roots_of(session, {entries.ids[row] for row in rows})
    pairs = [(row, number, root) for row in rows for number, root in roots_of[entries.ids[row]]]
    of_rows, numbers, roots = np.array(pairs, np.uint64).reshape(-1, 3).T
    stored = log.documents(session.transaction, numbers, session.words)
    counts, distances = _compared(entries, session.parameters, of_rows, stored.rows["kind"], stored.fingerprints)
    matches, foreign = Matches(of_rows.astype(np.int64), distances, numbers), roots != NO_NUMBER
    near, versions = entries.kinds[matches.rows] == Kind.NEAR, counts & ~foreign
    best = nearest_of_matches(session, matches.take(versions & near), entries)
    watched = Matches(matches.rows, np.full(len(roots), WATCHED, np.int16), roots).take(counts & foreign)
    return joined([best, nearest(matches.take(versions & ~near), 1), watched])


def pairs_of_versions(portion: Prepared, parameters: Parameters, apart: npt.NDArray[np.bool_]) -> Matches:
    """Match these rows, bool [n], with earlier rows that have their id."""
    entries, rows_of = portion.entries, defaultdict[str, list[int]](list)
    for row, id_ in enumerate([] if portion.alone else entries.ids):
        rows_of[id_].append(row)
    # Rows [3, 5, 8] of one id: the pairs are (5, 3), (8, 3) and (8, 5).
    pairs = [np.array(rows)[np.array(np.tril_indices(len(rows), -1))] for rows in rows_of.values() if len(rows) > 1]
    rows, earlier = np.concatenate([np.empty((2, 0), np.int64), *pairs], axis=1)
    rows, earlier = rows[apart[rows]], earlier[apart[rows]]
    counts, distances = _compared(entries, parameters, rows, entries.kinds[earlier], entries.fingerprints[earlier])
    looks, near = entries.look_rows, entries.kinds[rows] == Kind.NEAR
    judged = parameters.second_look.judge(distances, looks[rows], looks[earlier])
    distances = np.where(near, judged.distances, distances).astype(np.int16)
    return Matches(rows, distances, earlier.astype(np.uint64)).take(counts & (judged.counts | ~near))


def _compared(
    entries: Entries,
    parameters: Parameters,
    rows: npt.NDArray[np.integer],
    kinds: npt.NDArray[np.uint8],
    fingerprints: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int16]]:
    """Whether rows, [m], match others of these kinds and fingerprints, bool [m]; and their distances."""
    own, is_near = entries.fingerprints[rows], kinds == Kind.NEAR
    distances = np.where(is_near, parameters.distances(own, fingerprints), 0).astype(np.int16)
    counts = (distances <= parameters.distance_max) & (is_near | (own == fingerprints).all(axis=1))
    return counts & (entries.kinds[rows] == kinds), distances


def _roots_of(session: ReadSession, ids: Collection[str]) -> dict[str, list[tuple[int, int]]]:
    """By id, the numbers of its entries, ascending; each with its root if that has another id, or NO_NUMBER."""
    noted = documents.given_back_of(session.transaction, ids)["number"].astype(np.uint64)
    numbers = np.union1d(find.numbers(session, ids, ROWS_OF_ID_MAX), noted)
    numbers = numbers[session.visibility.visible(numbers)]
    root_of = documents.roots if session.parameters.root is None else documents.counting_roots
    roots = root_of(session.visibility, numbers)
    origins = documents.origins(session.transaction, np.union1d(numbers, roots[roots != NO_NUMBER]), session.words)
    roots_of: dict[str, list[tuple[int, int]]] = {id_: [] for id_ in ids}
    for number, root in zip(numbers.tolist(), roots.tolist(), strict=True):
        id_ = origins[number].id
        if id_ in roots_of and root in origins:
            roots_of[id_].append((number, int(NO_NUMBER) if origins[root].id == id_ else root))
    return roots_of
