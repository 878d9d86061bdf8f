"""Admission: look up a batch, decide it by the rule, and write it, in one transaction.

`prepare` computes beforehand, without the writer lock, all that needs no storage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.decide import give_back, retention
from index.decide.batch import Batch
from index.decide.guard import guarded
from index.decide.lookup import nearest_judged, nearest_visible, stored
from index.decide.prepare import Prepared, prepared, prepared_batch
from index.decide.rule import Matched, Outcome, Roots, decide
from index.entry import NO_DISTANCE, NO_NUMBER, Decisions, Entries, HostShare, Position, Source
from index.matching.distance import Matches, no_matches
from index.matching.root import RootRule
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, sources
from index.storage.layout import Table
from index.storage.log import Origin


def admit(opened: OpenIndex, entries: Entries, ends: Mapping[Source, int], marks: Mapping[Source, bytes]) -> Decisions:
    """Implementation of `Index.admit`."""
    portions = prepared_batch(entries, opened.parameters)
    return opened.write(lambda session: _admitted(session, entries, portions, ends, marks))


def _admitted(
    session: WriteSession,
    entries: Entries,
    portions: list[Prepared],
    ends: Mapping[Source, int],
    marks: Mapping[Source, bytes],
) -> Decisions:
    batch = Batch(session, entries)
    known = batch.journaled.known
    if known.any():
        portions = prepared(entries, np.flatnonzero(~known), session.parameters)
    retention.move_horizons(session, batch, ~known)
    candidates = np.zeros(len(entries), np.int64)
    crossings: list[HostShare] = []
    for portion, comes_again in give_back.told_apart(session, entries, ~known, portions):
        found = look_up(session, portion, comes_again=comes_again)
        outcome = decide(found.matched, session.parameters.insert, session.counters.next_number, found.roots)
        outcome, crossed = guarded(session, portion, outcome, found.equal)
        crossings += crossed
        origins = batch.enter(session, portion.entries, outcome, found.equal, found.stale)
        candidates[portion.rows] = found.compared
        batch.journaled.origins.update((int(portion.rows[row]), origin) for row, origin in origins.items())
        _fill_in(batch, portion, outcome)
    retention.note_ages_and_clean(session, batch)
    sources.move_applied(session.transaction, ends, marks)
    return _decisions(session, batch, known, candidates, crossings)


@dataclass(frozen=True, slots=True)
class Found:
    """Matches of prepared rows, in the index and among themselves.

    matched   input of the rule
    roots     roots of the matches, for the rule, where insert = "root"
    compared  int64 [n], comparisons made for each row
    stale     retired entries still in the tables whose fingerprint equals that of a NEAR row, by row
    equal     bool [n], NEAR rows whose fingerprint equals that of an entry that is not retired
    """

    matched: Matched
    roots: Roots | None
    compared: npt.NDArray[np.int64]
    stale: Matches
    equal: npt.NDArray[np.bool_]


def look_up(session: ReadSession, portion: Prepared, *, comes_again: bool = False) -> Found:
    """Look up prepared rows.

    comes_again  whether the portion is one row with the id of a given-back document
    """
    parameters, count = session.parameters, len(portion.rows)
    compared, stale = portion.compared.copy(), no_matches()
    distances, originals = np.full(count, NO_DISTANCE, np.int16), np.full(count, NO_NUMBER, np.uint64)
    equal = np.zeros(count, np.bool_)
    if len(portion.near):
        if comes_again:
            answer = give_back.nearest_version(session, portion)
        elif parameters.look is None and parameters.root is None:
            answer = nearest_visible(session, portion.lookup)
        else:
            near = portion.entries.take(portion.near)
            answer = nearest_judged(session, portion.lookup, near.fingerprints, near.look_rows)
        equal[portion.near] = answer.equal
        compared[portion.near] += answer.compared
        distances[portion.near[answer.best.rows]] = answer.best.distances
        originals[portion.near[answer.best.rows]] = answer.best.numbers
        stale = Matches(portion.near[answer.stale.rows], answer.stale.distances, answer.stale.numbers)
    if len(portion.exact):
        if comes_again:
            numbers = give_back.equal_version(session, portion)
        else:
            fingerprints = portion.entries.fingerprints[portion.exact]
            numbers = documents.earliest_equals(session.transaction, session.visibility, Table.EXACT, fingerprints)
        originals[portion.exact] = numbers
        distances[portion.exact[numbers != NO_NUMBER]] = 0
    matched = originals != NO_NUMBER
    if parameters.insert != "unique" and matched.any():
        originals[matched] = documents.roots(session.transaction, session.visibility, originals[matched], session.words)
    found = Matched(portion.entries.kinds, distances, originals, portion.pairs, portion.firsts)
    roots = None if parameters.root is None else _roots(session, parameters.root, portion.entries, originals)
    return Found(found, roots, compared, stale, equal)


def _roots(session: ReadSession, rule: RootRule, rows: Entries, originals: npt.NDArray[np.uint64]) -> Roots:
    """Roots of these rows: the rows themselves, and their originals in the index, uint64 [n]."""
    distinct = np.unique(originals[originals != NO_NUMBER])
    fingerprints, looks = stored(session, distinct)
    places = len(rows) + np.searchsorted(distinct, originals)
    return Roots(
        session.parameters.root_distances,
        rule.apart,
        np.concatenate([rows.fingerprints, fingerprints]),
        np.concatenate([rows.look_rows, looks]),
        np.where(originals != NO_NUMBER, places, np.arange(len(rows))),
    )


def _fill_in(batch: Batch, portion: Prepared, outcome: Outcome) -> None:
    """Add new verdicts to those of the journal."""
    rows = batch.journaled.rows
    rows["offset"][portion.rows] = portion.entries.offsets
    rows["number"][portion.rows] = outcome.originals
    rows["distance"][portion.rows] = outcome.distances
    rows["verdict"][portion.rows] = outcome.verdicts
    rows["reason"][portion.rows] = portion.entries.reasons


def _decisions(
    session: WriteSession,
    batch: Batch,
    replayed: npt.NDArray[np.bool_],
    candidates: npt.NDArray[np.int64],
    crossings: Sequence[HostShare],
) -> Decisions:
    rows, origins = batch.journaled.rows, batch.journaled.origins
    ids, positions = named(session, origins, len(rows))
    return Decisions(
        verdicts=rows["verdict"].astype(np.uint8),
        reasons=rows["reason"].astype(np.uint8),
        distances=rows["distance"].astype(np.int16),
        originals=rows["number"].astype(np.uint64),
        original_ids=ids,
        original_positions=positions,
        replayed=replayed,
        candidates=candidates,
        crossings=crossings,
    )


def named(
    session: ReadSession, origins: Mapping[int, Origin], count: int
) -> tuple[list[str | None], list[Position | None]]:
    """Id and position of the original of each of `count` rows, by row; None where there is none."""
    ids: list[str | None] = [None] * count
    positions: list[Position | None] = [None] * count
    streams = sources.streams_of(session.transaction, {origin.stream for origin in origins.values()})
    for row, origin in origins.items():
        ids[row] = origin.id
        positions[row] = Position(Source(streams[origin.stream], origin.partition), origin.offset)
    return ids, positions
