"""Admission: look up a batch, decide it by the rule, and write it, in one transaction.

`prepare` does all work without storage first, outside the writer lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from index.decide import give_back, retention
from index.decide.batch import Batch
from index.decide.forget import remove
from index.decide.guard import guarded
from index.decide.lookup import (
    nearest_and_all,
    nearest_judged,
    nearest_visible,
    resembling,
    stored,
    with_equals,
)
from index.decide.prepare import Prepared, prepared, prepared_batch
from index.decide.reasons import with_reasons
from index.decide.recrawl import decide_versions
from index.decide.rule import Matched, Outcome, Roots, decide
from index.entry import NO_DISTANCE, NO_NUMBER, Decisions, Entries, HostShare, Position, Source, Verdict
from index.frames.hosts import learn_frames, note_kept
from index.frames.rule import FrameRule
from index.lsm.exact_lookup import exact_lookup_of
from index.lsm.minhash_lookup import MinhashLookup
from index.matching.distance import Matches, no_matches
from index.matching.root import RootRule
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, sources
from index.storage.layout import Table
from index.storage.log import Origin
from index.versions.history import Versions, versions_of


def admit(opened: OpenIndex, entries: Entries, ends: Mapping[Source, int], marks: Mapping[Source, bytes]) -> Decisions:
    """Implementation of `Index.admit`."""
    stored, portions = prepared_batch(entries, opened.parameters)
    return opened.write(lambda session: _admitted(session, stored, portions, ends, marks))


def _admitted(
    session: WriteSession,
    entries: Entries,
    portions: list[Prepared],
    ends: Mapping[Source, int],
    marks: Mapping[Source, bytes],
) -> Decisions:
    batch = Batch(session, entries)
    known = batch.journaled.known
    framed = learn_frames(session, entries, np.flatnonzero(~known))
    if framed is not entries or known.any():
        entries = framed
        portions = prepared(entries, np.flatnonzero(~known), session.parameters)
    retention.move_horizons(session, batch, ~known)
    candidates = np.zeros(len(entries), np.int64)
    crossings: list[HostShare] = []
    for portion, comes_again in give_back.told_apart(session, entries, ~known, portions):
        versions = versions_of(session, portion.entries)
        found = look_up(session, portion, settle=versions is None, comes_again=comes_again)
        outcome = decided(session, portion, found, versions, session.counters.next_number)
        outcome, crossed = guarded(session, portion, outcome, found.equal)
        crossings += crossed
        portion = with_reasons(session, portion, outcome, session.counters.next_number)
        origins = _enter(session, batch, portion, outcome, found)
        note_kept(session, portion.hosts[outcome.verdicts == Verdict.TEMPLATE])
        candidates[portion.rows] = found.comparisons()
        of_batch = portion.rows.tolist()
        batch.journaled.origins.update((of_batch[row], origin) for row, origin in origins.items())
        _fill_in(batch, portion, outcome)
    retention.note_ages_and_clean(session, batch)
    sources.move_applied(session.transaction, ends, marks)
    return _decisions(session, batch, known, candidates, crossings)


def decided(
    session: ReadSession, portion: Prepared, found: "Found", versions: Versions | None, next_number: int
) -> Outcome:
    """Decide prepared rows: by the rule, or by versions if any id is known."""
    if versions is None:
        return decide(found.matched, session.parameters.insert, next_number, found.roots, found.framed)

    def again(rows: npt.NDArray[np.int64], gone: npt.NDArray[np.uint64]) -> Matched:
        session.visibility.note_retired(gone)
        (some,) = prepared(portion.entries, rows, session.parameters)
        anew = look_up(session, some)
        found.compared[rows] += anew.compared
        return anew.matched

    return decide_versions(session, portion, found.matched, versions, next_number, again, found.framed)


def _enter(
    session: WriteSession, batch: Batch, portion: Prepared, outcome: Outcome, found: "Found"
) -> dict[int, Origin]:
    """Enter decided rows, as `Batch.enter`, and retire the older versions they replace."""
    equal = found.equal
    if found.framed is not None:
        # Equal signatures in different frames have different bands, so an equal row may still need its own.
        equal = equal & _equal_to_entries(session, portion, equal & outcome.entering)
    former = {row: batch.origin_of(portion.entries, where) for row, where in outcome.former.items()}
    enter = partial(batch.enter, session, portion.entries, outcome, replaced=former, hashes=portion.hashes)
    if outcome.replaced is None:
        return enter(equal, found.stale)
    # Versions to replace are entries, which leave first, or rows of this batch, which enter and leave at once.
    leaving = outcome.entering & np.isin(outcome.numbers, outcome.replaced)
    first = np.uint64(session.counters.next_number)
    in_index = np.unique(outcome.replaced[outcome.replaced < first])
    if len(in_index):
        remove(session, in_index)
        # A row's equal may just have left; the row then enters the blocks itself.
        equal = equal & _equal_to_entries(session, portion, equal & outcome.entering)
    origins = enter(equal, found.stale, leaving=leaving)
    if leaving.any():
        remove(session, outcome.numbers[leaving])
    return origins


def _equal_to_entries(session: WriteSession, portion: Prepared, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether the asked rows, bool [n], still equal a visible entry: bool [n]; True for all others."""
    rows = np.flatnonzero(asked)
    equal = np.ones(len(asked), np.bool_)
    if len(rows):
        lookup = exact_lookup_of(portion.entries.fingerprints[rows], session.parameters)
        equal[rows] = nearest_visible(session, lookup).equal
    return equal


@dataclass(frozen=True, slots=True)
class Found:
    """Matches of prepared rows, in the index and among themselves.

    matched   input of the rule
    roots     roots of the matches, with insert = "root"
    framed    the rows' candidates, if frames are learnt
    compared  int64 [n], comparisons so far for each row; see `comparisons`
    stale     retired entries, still in the tables, whose fingerprint equals that of a NEAR row
    equal     bool [n], NEAR rows whose fingerprint equals that of an entry that is not retired
    """

    matched: Matched
    roots: Roots | None
    framed: FrameRule | None
    compared: npt.NDArray[np.int64]
    stale: Matches
    equal: npt.NDArray[np.bool_]

    def comparisons(self) -> npt.NDArray[np.int64]:
        """Comparisons for each row, int64 [n]; complete once the rows are decided."""
        return self.compared if self.framed is None else self.compared + self.framed.compared


def look_up(session: ReadSession, portion: Prepared, *, settle: bool = True, comes_again: bool = False) -> Found:
    """Look up prepared rows.

    settle       with frames: equality with a root decides a row at once
    comes_again  the portion is one row with a given-back document's id
    """
    if session.parameters.frames is not None and not comes_again:
        return _look_up_framed(session, portion, settle=settle)
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
    if comes_again and len(portion.exact):
        originals[portion.exact] = give_back.equal_version(session, portion)
        distances[portion.exact[originals[portion.exact] != NO_NUMBER]] = 0
    else:
        _look_up_exact(session, portion, distances, originals)
    matched = originals != NO_NUMBER
    # A match that is a duplicate passes its original on.
    if parameters.insert != "unique" and matched.any():
        originals[matched] = documents.roots(session.transaction, session.visibility, originals[matched], session.words)
    found = Matched(portion.entries.kinds, distances, originals, portion.pairs, portion.firsts)
    roots = None if parameters.root is None else _roots(session, parameters.root, portion.entries, originals)
    return Found(found, roots, None, compared, stale, equal)


def _look_up_exact(
    session: ReadSession,
    portion: Prepared,
    distances: npt.NDArray[np.int16],
    originals: npt.NDArray[np.uint64],
) -> None:
    """Look up the EXACT rows; changes the columns in place."""
    if len(portion.exact):
        fingerprints = portion.entries.fingerprints[portion.exact]
        numbers = documents.earliest_equals(session.transaction, session.visibility, Table.EXACT, fingerprints)
        originals[portion.exact] = numbers
        distances[portion.exact[numbers != NO_NUMBER]] = 0


def _look_up_framed(session: ReadSession, portion: Prepared, *, settle: bool) -> Found:
    """Look up rows like `look_up`, with learnt frames."""
    count, near = len(portion.rows), portion.near
    compared = portion.compared.copy()
    distances, originals = np.full(count, NO_DISTANCE, np.int16), np.full(count, NO_NUMBER, np.uint64)
    _look_up_exact(session, portion, distances, originals)
    equal = np.zeros(count, np.bool_)
    answer, seen = nearest_and_all(session, portion.lookup)
    equal[near] = answer.equal
    compared[near] += answer.compared
    stale = Matches(near[answer.stale.rows], answer.stale.distances, answer.stale.numbers)
    # A row that equals a root needs no further candidates; only the rest take part in the walk over frames.
    best = answer.best
    settled = (best.distances == 0) & settle
    equals = best.numbers[settled]
    settled[settled] = equals == documents.counting_roots(
        session.transaction, session.visibility, equals, session.words
    )
    distances[near[best.rows[settled]]], originals[near[best.rows[settled]]] = 0, best.numbers[settled]
    left = best.rows[~settled]
    if seen is not None:
        found = with_equals(session, seen.take(np.isin(seen.rows, left)))
        matches = Matches(near[found.rows], found.distances, found.numbers)
    else:
        assert isinstance(portion.lookup, MinhashLookup), "frames are learnt from MinHash signatures"
        signatures, hashes = portion.lookup.signatures[left], portion.lookup.hashes[left]
        found, comparisons = resembling(session, replace(portion.lookup, signatures=signatures, hashes=hashes))
        compared[near[left]] += comparisons
        matches = Matches(near[left[found.rows]], found.distances, found.numbers)
    assert portion.framed is not None
    framed = FrameRule(session, portion.framed, matches)
    matched = Matched(portion.entries.kinds, distances, originals, portion.pairs, portion.firsts)
    return Found(matched, None, framed, compared, stale, equal)


def _roots(session: ReadSession, rule: RootRule, rows: Entries, originals: npt.NDArray[np.uint64]) -> Roots:
    """Roots of these rows: the rows themselves, and their originals in the index, uint64 [n]."""
    distinct = np.unique(originals[originals != NO_NUMBER])
    fingerprints, looks = stored(session, distinct)
    # Two rows, originals [NO_NUMBER, 7]: distinct is [7], and the rows' roots are at places [0, 2].
    places = len(rows) + np.searchsorted(distinct, originals)
    return Roots(
        session.parameters.root_distances,
        rule.apart,
        np.concatenate([rows.fingerprints, fingerprints]),
        np.concatenate([rows.look_rows, looks]),
        np.where(originals != NO_NUMBER, places, np.arange(len(rows))),
    )


def _fill_in(batch: Batch, portion: Prepared, outcome: Outcome) -> None:
    """Add new verdicts to the journaled ones."""
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
    """Id and position of each row's original, for `count` rows; None without an original."""
    ids: list[str | None] = [None] * count
    positions: list[Position | None] = [None] * count
    source_of: dict[tuple[int, int], Source] = {}
    for row, (id_, stream, partition, offset) in origins.items():
        ids[row] = id_
        source = source_of.get((stream, partition))
        if source is None:
            (name,) = sources.streams_of(session.transaction, {stream}).values()
            source = source_of[stream, partition] = Source(name, partition)
        positions[row] = Position(source, offset)
    return ids, positions
