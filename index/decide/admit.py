"""Admission: look up a batch, decide it by the rule, and write it, in one transaction.

`prepare` first does all work without storage, outside the writer lock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide import give_back, retention
from index.decide.batch import Batch
from index.decide.guard import guarded
from index.decide.lookup import Answer, nearest_and_all, nearest_judged, nearest_visible, resembling, with_equals
from index.decide.prepare import Prepared, prepared, prepared_batch
from index.decide.recrawl import decide_versions, pairs_of_versions
from index.decide.retire import remove
from index.decide.rule import Rows, Walk
from index.entry import NO_NUMBER, Decisions, Entries, HostShare, Position, Source, Verdict
from index.frames.hosts import learn_frames, note_kept
from index.frames.rule import add_framed
from index.kernels.minhash import UNMEASURED
from index.lsm.exact_lookup import exact_lookup_of
from index.matching.candidates import ROW_ORDER, CandidateSet
from index.matching.distance import Matches, joined, no_matches
from index.matching.outcome import Outcome
from index.matching.root import limits_of
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, sources
from index.storage.journal import JournaledDecisions
from index.storage.layout import Table
from index.storage.log import Origin
from index.stories.fold import fold
from index.versions.history import versions_of
from index.versions.reasons import with_ratios, with_reasons
from index.versions.texts import add_documents


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
    # Learnt frames change fingerprints, and replayed rows match nothing: both invalidate what was prepared.
    if framed is not entries or known.any():
        entries = framed
        portions = prepared(entries, np.flatnonzero(~known), session.parameters)
    retention.move_horizons(session, batch, ~known)
    candidates = np.zeros(len(entries), np.int64)
    crossings: list[HostShare] = []
    for portion, answer, outcome in decided_portions(session, entries, portions):
        outcome, crossed = guarded(session, portion, with_ratios(session, portion.entries, outcome), answer.equal)
        crossings += crossed
        reasoned = with_reasons(session, portion.entries, outcome)
        portion = portion if reasoned is portion.entries else replace(portion, entries=reasoned)
        origins = _enter(session, batch, portion, outcome, answer)
        note_kept(session, portion.hosts[outcome.verdicts == Verdict.TEMPLATE])
        candidates[portion.rows] = answer.compared
        fill_in(batch.journaled, portion, outcome, origins)
    retention.note_ages_and_clean(session, batch)
    sources.move_applied(session.transaction, ends, marks)
    fold(session)
    return decisions(session, batch.journaled, candidates, crossings)


def decided_portions(
    session: ReadSession, entries: Entries, portions: list[Prepared]
) -> Iterator[tuple[Prepared, Answer, Outcome]]:
    """Decide rows prepared as `portions`; enter each portion before taking the next."""
    given_back = documents.are_given_back(session.visibility, entries.ids)
    for portion in portions:
        yield portion, *_decided(session, portion, given_back[portion.rows])


def _decided(session: ReadSession, portion: Prepared, given_back: npt.NDArray[np.bool_]) -> tuple[Answer, Outcome]:
    """Decide prepared rows by the rule, and known ids by versions.

    given_back  bool [n], rows with a given-back document's id
    """
    versions, parameters = versions_of(session, portion.entries), session.parameters
    # Rows that match earlier versions alone.
    apart = given_back if versions is None else given_back & ~versions.settled
    answer, any_apart = look_up(session, portion, apart, settle=versions is None), bool(apart.any())
    framed, measured = answer.measured is not None, answer.measured or no_matches()
    lengths = portion.entries.letters.astype(np.int64)
    candidates = CandidateSet(portion.entries.fingerprints, portion.entries.look_rows, lengths)
    by_root = parameters.root is not None and (any_apart or not framed)
    with_texts = by_root or (session.longer > 0 and not framed)

    def again(rows: npt.NDArray[np.int64], gone: npt.NDArray[np.uint64]) -> Matches:
        session.visibility.note_retired(gone)
        # At most ROWS_AT_ONCE rows, as in the portion: one result.
        (some,) = prepared(portion.entries, rows, parameters)
        renewed = look_up(session, some, apart[rows], settle=False)
        answer.compared[rows] += renewed.compared
        add_documents(session, candidates, renewed.best.numbers, with_texts=with_texts)
        return renewed.best

    if framed:
        add_framed(session, candidates, measured.numbers)
    add_documents(session, candidates, answer.best.numbers, with_texts=with_texts)
    needs_all = versions is not None or any_apart or (not framed and _length_decides(session, portion))
    pairs = pairs_of_versions(session, portion) if needs_all else portion.pairs
    if any_apart:
        pairs = joined([pairs.take(~apart[pairs.rows]), give_back.pairs_of_versions(portion, parameters, apart)])
    hashes = portion.hashes if framed and not portion.alone else None
    rows = Rows(portion.entries.kinds, candidates, answer.best, pairs, measured, hashes, apart, answer.compared)
    bin_bits = 0 if parameters.banding is None else parameters.banding.bin_bits
    limits = limits_of(parameters.insert, parameters.root, parameters.distance_max, bin_bits, session.longer)
    walk = Walk(rows, limits, parameters.root_distances if by_root else None, again)
    next_number = session.counters.next_number
    if versions is not None:
        return answer, decide_versions(session, portion, walk, versions, next_number, with_texts=with_texts)
    return answer, walk.decide(next_number)


def _length_decides(session: ReadSession, portion: Prepared) -> bool:
    """Whether a row may have another match than its nearest one, for its length."""
    letters = portion.entries.letters
    of_equals = bool((letters != letters[portion.firsts]).any())
    return session.longer > 0 and (of_equals or session.parameters.insert == "all")


def _enter(
    session: WriteSession, batch: Batch, portion: Prepared, outcome: Outcome, answer: Answer
) -> dict[int, Origin]:
    """Enter decided rows, as `Batch.enter`, and retire the versions they replace."""
    replaced, leaving = outcome.replaced, np.zeros(len(outcome.entering), np.bool_)
    # Versions to replace are entries, which leave first, or rows of this batch, which enter and leave at once.
    of_rows = replaced >= np.uint64(ROW_ORDER)
    # Orders [9, ROW_ORDER + 2]: entry 9 is in the index, row 2 in this batch.
    leaving[(replaced[of_rows] - np.uint64(ROW_ORDER)).astype(np.int64)] = True
    in_index = np.unique(replaced[~of_rows])
    if len(in_index):
        remove(session, in_index)
    if answer.measured is not None or len(in_index):
        # Equal signatures in different frames have different bands, and a row's equal may just have left: the row may then
        # need bands or blocks of its own.
        equal = answer.equal & _equal_to_entries(session, portion, answer.equal & outcome.entering)
        answer = replace(answer, equal=equal)
    origins = batch.enter(session, portion.entries, outcome, answer, leaving=leaving, hashes=portion.hashes)
    if leaving.any():
        remove(session, outcome.numbers[leaving])
    return origins


def _equal_to_entries(session: WriteSession, portion: Prepared, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether asked rows, bool [n], still equal a visible entry: bool [n]; True for others."""
    rows = np.flatnonzero(asked)
    equal = np.ones(len(asked), np.bool_)
    if len(rows):
        lookup = exact_lookup_of(portion.entries.fingerprints[rows], session.parameters)
        equal[rows] = nearest_visible(session, lookup).equal
    return equal


def look_up(session: ReadSession, portion: Prepared, apart: npt.NDArray[np.bool_], *, settle: bool) -> Answer:
    """Look up prepared rows, NEAR and EXACT; `best` names the roots of matches.

    apart   bool [n], rows that match earlier versions alone
    settle  with frames: equality with a root decides a row at once
    """
    near, framed = portion.near, session.parameters.frames is not None
    if framed:
        answer = _look_up_framed(session, portion, settle=settle)
    elif session.parameters.look is None and session.parameters.root is None and not session.longer:
        answer = nearest_visible(session, portion.lookup)
    else:
        answer = nearest_judged(session, portion.lookup, portion.entries.take(near))
    compared, equal = portion.compared.copy(), np.zeros(len(portion.rows), np.bool_)
    compared[near] += answer.compared
    equal[near] = answer.equal
    exact, measured, fingerprints = portion.exact, answer.measured, portion.entries.fingerprints[portion.exact]
    numbers = documents.earliest_equals(session.visibility, Table.EXACT, fingerprints)
    equals = Matches(exact, np.zeros(len(exact), np.int16), numbers).take(numbers != NO_NUMBER)
    # The walk decides again that a match's root is too short, and makes the row EXTENDS.
    best, short, stale = (replace(each, rows=near[each.rows]) for each in (answer.best, answer.short, answer.stale))
    best, measured = joined([best, short, equals]), measured and replace(measured, rows=near[measured.rows])
    if apart.any():
        measured = measured and measured.take(~apart[measured.rows])
        best = joined([best.take(~apart[best.rows]), give_back.nearest_versions(session, portion, apart)])
    # A match that is a duplicate passes its original on. With frames only versions can be duplicates.
    if session.parameters.insert != "unique" and len(best) and (apart.any() or not framed):
        best = replace(best, numbers=documents.roots(session.visibility, best.numbers))
    return Answer(best, compared, stale, equal, measured)


def _look_up_framed(session: ReadSession, portion: Prepared, *, settle: bool) -> Answer:
    answer, seen = nearest_and_all(session, portion.lookup)
    # A row that equals a root needs no further candidates; only the rest take part in the walk over frames.
    best = answer.best
    # A match at distance 0 may be a member; only a root is its own original.
    settled = (best.distances == 0) & settle
    equals = best.numbers[settled]
    settled[settled] = equals == documents.counting_roots(session.visibility, equals)
    left, compared = best.rows[~settled], answer.compared
    if seen is not None:
        measured = with_equals(session, seen.take(np.isin(seen.rows, left)))
    else:
        lookup = portion.lookup
        again = replace(lookup, fingerprints=lookup.fingerprints[left], hashes=lookup.hashes[left])
        measured, comparisons = resembling(session, again)
        measured = replace(measured, rows=left[measured.rows])
        compared = compared.copy()
        compared[left] += comparisons
    measured = replace(measured, distances=np.full(len(measured), UNMEASURED, np.int16))
    return replace(answer, best=best.take(settled), compared=compared, measured=measured)


def fill_in(batch: JournaledDecisions, portion: Prepared, outcome: Outcome, origins: Mapping[int, Origin]) -> None:
    """Fill a portion's decisions into those of its batch; origins: by row of the portion."""
    of_portion = {
        "offset": portion.entries.offsets,
        "number": outcome.originals,
        "distance": outcome.distances,
        "verdict": outcome.verdicts,
        "reason": portion.entries.reasons,
        "ratio": outcome.ratios,
    }
    for name, column in of_portion.items():
        batch.rows[name][portion.rows] = column
    of_batch = portion.rows.tolist()
    batch.origins.update((of_batch[row], origin) for row, origin in origins.items())


def decisions(
    session: ReadSession,
    batch: JournaledDecisions,
    candidates: npt.NDArray[np.int64],
    crossings: Sequence[HostShare] = (),
) -> Decisions:
    """Decisions for the caller; `known` rows are replayed."""
    rows, count = batch.rows, len(batch.rows)
    ids: list[str | None] = [None] * count
    positions: list[Position | None] = [None] * count
    streams = sources.streams_of(session.transaction, {origin.stream for origin in batch.origins.values()})
    for row, (id_, stream, partition, offset) in batch.origins.items():
        ids[row], positions[row] = id_, Position(Source(streams[stream], partition), offset)
    return Decisions(
        verdicts=rows["verdict"].astype(np.uint8),
        reasons=rows["reason"].astype(np.uint8),
        distances=rows["distance"].astype(np.int16),
        originals=rows["number"].astype(np.uint64),
        original_ids=ids,
        original_positions=positions,
        replayed=batch.known,
        candidates=candidates,
        crossings=crossings,
        ratios=rows["ratio"].astype(np.uint16),
    )
