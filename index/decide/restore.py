"""Restoration: after lost commits, documents return from the outputs with their original verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import entry
from index.decide import retention
from index.decide.batch import Batch
from index.decide.lookup import nearest_judged, nearest_visible
from index.decide.prepare import prepared, require_sound, stored_form
from index.decide.retire import remove
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Position, Source, Verdict
from index.frames.hosts import learn_frames, note_kept
from index.lsm.exact_lookup import exact_lookup_of
from index.matching.distance import Matches
from index.matching.host_sketch import host_keys
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import documents, journal, log, sources
from index.storage.layout import Filing
from index.storage.log import Origin
from index.storage.parameters import Parameters
from index.stories.fold import fold
from index.versions.history import stand_for_keys
from index.versions.reasons import with_ratios, with_reasons

NO_ENDS: Mapping[Source, int] = MappingProxyType({})


class Restored(NamedTuple):
    """Counts of the rows given to `restore`, which add up to all.

    >>> counts = [Restored(restored=7, already_known=2, without_original=1), Restored(10, 0, 0)]
    >>> Restored(*map(sum, zip(*counts)))
    Restored(restored=17, already_known=2, without_original=1)
    """

    restored: int
    already_known: int
    without_original: int


def require_restorable(
    entries: Entries, verdicts: npt.NDArray[np.uint8], originals: Sequence[Position | None], parameters: Parameters
) -> None:
    """Raise ValueError unless `restore` accepts these arguments."""
    require_sound(entries, parameters)
    if len(verdicts) != len(entries) or len(originals) != len(entries):
        raise ValueError("verdicts and originals must have one item per row")
    if not (entry.naming_originals(verdicts) | entry.standing_for_themselves(verdicts)).all():
        raise ValueError("only UNIQUE, TEMPLATE, UPDATE, EXTENDS, DUPLICATE and SUSPECT documents can be restored")


def restore(
    session: WriteSession,
    entries: Entries,
    verdicts: npt.NDArray[np.uint8],
    originals: Sequence[Position | None],
    ends: Mapping[Source, int],
) -> Restored:
    """Implementation of `Index.restore`, within one session."""
    batch, insert = Batch(session, entries), session.parameters.insert
    known = batch.journaled.known
    entries = learn_frames(session, stored_form(entries, session.parameters), np.flatnonzero(~known))
    # An UPDATE without its older version's stream names nothing that could be retired, so it is UNIQUE.
    retires = np.array([where is not None and bool(where.source.stream) for where in originals], np.bool_)
    decided = np.where((verdicts == Verdict.UPDATE) & ~retires, Verdict.UNIQUE, verdicts).astype(np.uint8)
    # The kind overrides the given verdict: these rows have no fingerprint.
    decided[entries.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    decided[entries.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER

    standing = entry.standing_for_themselves(decided)
    of_templates, extends = decided == Verdict.TEMPLATE, decided == Verdict.EXTENDS
    dropped = entry.naming_originals(decided) & ~standing
    naming = np.flatnonzero(~known & (dropped | of_templates | extends))
    uniques = np.flatnonzero(~known & standing & bool(len(naming)))
    # The journal has no originals from this batch: they are matched by position.
    row_of = dict(zip(positions_of(entries, uniques), uniques.tolist(), strict=True))
    original_rows = np.full(len(entries), -1, np.int64)
    asked = [originals[row] for row in naming.tolist()]
    original_rows[naming] = [-1 if at is None else row_of.get(at, -1) for at in asked]
    numbers_of_originals = np.full(len(entries), NO_NUMBER, np.uint64)
    numbers_of_originals[naming] = numbers_at(session, asked)
    lost = np.zeros(len(entries), np.bool_)
    lost[naming] = (original_rows[naming] < 0) & (numbers_of_originals[naming] == NO_NUMBER)
    # The index may have lost the document that a delivered one resembles; the latter then counts as UNIQUE.
    decided[(of_templates | extends) & lost] = Verdict.UNIQUE
    of_templates, extends = of_templates & ~lost, extends & ~lost
    lost &= dropped

    new = ~known & ~lost
    entering = new & standing
    if insert == "all":
        entering |= new & dropped
    elif insert == "root":
        # Rows with one root get one number: 2 if the root is row 2, ~7 if it is document 7.
        same = np.where(original_rows >= 0, original_rows.astype(np.uint64), ~numbers_of_originals)
        same = np.where(standing, np.arange(len(entries), dtype=np.uint64), same)
        entering |= dropped & _members(session, entries, new, decided, same)
    named = np.where(original_rows >= 0, next_numbers(session, entering)[original_rows], numbers_of_originals)
    distances = _distances(
        session, entries, new & (dropped | of_templates | extends), of_templates, original_rows, named
    )
    outcome = Outcome(decided, distances, entering, session.counters.next_number, named)
    outcome = with_ratios(session, entries, outcome)
    entries = with_reasons(session, entries, outcome)
    enter_again(session, batch, entries, new, outcome, originals, ends, leaving=np.zeros_like(new))
    note_kept(session, host_keys(entries.hosts or [None] * len(entries))[new & of_templates])
    return Restored(int(new.sum()), int(known.sum()), int(lost.sum()))


def next_numbers(session: WriteSession, entering: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Next document numbers for entering rows, bool [n] -> uint64 [n]; NO_NUMBER for others."""
    numbers = np.full(len(entering), NO_NUMBER, np.uint64)
    numbers[entering] = session.counters.next_number + np.arange(np.count_nonzero(entering), dtype=np.uint64)
    return numbers


def enter_again(
    session: WriteSession,
    batch: Batch,
    entries: Entries,
    new: npt.NDArray[np.bool_],
    outcome: Outcome,
    originals: Sequence[Position | None],
    ends: Mapping[Source, int],
    *,
    leaving: npt.NDArray[np.bool_],
    origins: Sequence[Origin] | None = None,
) -> None:
    """Enter new rows, bool [n], with known verdicts; looks up only equal entries, and the older versions of UPDATE rows.

    originals  of all n rows; an UPDATE row retires its older version, even if the row is not new
    ends       applied offsets
    leaving    bool [n], rows that are forgotten at once
    origins    see `Batch.enter`
    """
    updates, places = np.flatnonzero(outcome.verdicts == Verdict.UPDATE), np.flatnonzero(new)
    replaced = updates[new[updates]]
    older = [(entries.ids[row], position) for row in replaced.tolist() if (position := originals[row]) is not None]
    of_rows = dict(zip(np.searchsorted(places, replaced).tolist(), origins_of(session, older), strict=True))
    rows = entries if new.all() else entries.take(places)
    columns = {name: column[places] for name in _COLUMNS if (column := getattr(outcome, name)).ndim}
    entered, skipping = replace(outcome, former=of_rows, **columns), leaving[places]
    near = np.flatnonzero((rows.kinds == Kind.NEAR) & entered.entering & ~skipping)
    # Filing depends on equal entries alone: no near ones are looked up.
    answer = nearest_visible(session, exact_lookup_of(rows.fingerprints[near], session.parameters))
    equal = np.zeros(len(rows), np.bool_)
    equal[near] = answer.equal
    stale = Matches(near[answer.stale.rows], answer.stale.distances, answer.stale.numbers)
    answer = replace(answer, equal=equal, stale=stale)
    batch.enter(session, rows, entered, answer, origins=origins, leaving=skipping)
    if leaving.any():
        remove(session, outcome.numbers[new & leaving])
    _retire_replaced(session, entries, updates, originals)
    retention.move_horizons(session, batch, new)
    retention.note_ages(session, batch)
    sources.move_applied(session.transaction, ends, {})
    fold(session)


_COLUMNS = ("verdicts", "distances", "entering", "orders", "versions", "returns", "ratios")
"""Columns of an `Outcome` with known verdicts."""


def origins_of(session: WriteSession, named: Sequence[tuple[str, Position]]) -> list[Origin]:
    """Origins of documents by id and position; registers unknown streams."""
    streams = dict.fromkeys(position.source.stream for _, position in named)
    numbers = {stream: sources.number_of(session.transaction, stream) for stream in streams}
    return [Origin(id_, numbers[at.source.stream], at.source.partition, at.offset) for id_, at in named]


def _retire_replaced(
    session: WriteSession, entries: Entries, updates: npt.NDArray[np.int64], originals: Sequence[Position | None]
) -> None:
    """Retire the older versions of UPDATE rows, int64 [m], that are known and still count."""
    numbers = numbers_at(session, [originals[row] for row in updates.tolist()])
    hosts = log.host_digests(entries)
    stands = stand_for_keys(session, numbers, [(entries.ids[row], int(hosts[row])) for row in updates.tolist()])
    if stands.any():
        remove(session, np.unique(numbers[stands]))


def positions_of(entries: Entries, rows: npt.NDArray[np.int64]) -> list[Position]:
    """Positions of these rows, int64 [m]."""
    columns = entries.source_numbers[rows].tolist(), entries.offsets[rows].tolist()
    return [Position(entries.sources[source], offset) for source, offset in zip(*columns, strict=True)]


def numbers_at(
    session: ReadSession, positions: Sequence[Position | None], *, own: bool = False
) -> npt.NDArray[np.uint64]:
    """Journaled number for each position, uint64 [n]; NO_NUMBER for a document that is unknown or has left the log.

    A given-back document's later position overrides the drop's.

    own  number of the document that entered at the position, even if it is a duplicate; it may have left the log
    """
    transaction, words = session.transaction, session.words
    numbers = np.full(len(positions), NO_NUMBER, np.uint64)
    given_back = [
        position and position._replace(source=entry.given_back_source(position.source)) for position in positions
    ]
    # Given-back sources come last, so that their numbers override those of the drops.
    for asked in (positions, given_back):
        for batch, rows, places in journal.at_positions(transaction, asked, words):
            numbers[places] = batch.rows["number"][rows]
            if own:
                filed = batch.rows["filing"][rows] != Filing.NOTHING
                numbers[places[filed]] = batch.first_number + np.searchsorted(batch.entered(), rows[filed])
    if own:
        return numbers
    there = documents.origins(transaction, numbers[numbers != NO_NUMBER], words)
    return np.array([number if number in there else int(NO_NUMBER) for number in numbers.tolist()], np.uint64)


def _members(
    session: WriteSession,
    entries: Entries,
    new: npt.NDArray[np.bool_],
    decided: npt.NDArray[np.uint8],
    roots: npt.NDArray[np.uint64],
) -> npt.NDArray[np.bool_]:
    """Duplicates that become members, bool [n]: all suspects, and those far from every match and every earlier row.

    The original matches are unknown and entries come in another order, so members may differ from before. But every
    document that stays out leaves a match that also counts for its next copy.

    roots  uint64 [n], equal for rows with one root
    """
    assert session.parameters.root is not None
    apart, entering = session.parameters.root.apart, new & (decided != Verdict.DUPLICATE)
    # Uniques usually come back without duplicates and need no look-up.
    asked = new & (entries.kinds == Kind.NEAR) & (new & (decided == Verdict.DUPLICATE)).any()
    for portion in prepared(entries, np.flatnonzero(asked), session.parameters, pairs=True):
        best = nearest_judged(session, portion.lookup, portion.entries.take(portion.near)).best
        near = np.zeros(len(portion.rows), np.bool_)
        near[best.rows[best.distances <= apart]] = True
        enters = entering[portion.rows]
        enters |= ~near & (decided[portion.rows] == Verdict.DUPLICATE)
        pairs = portion.pairs.take(portion.pairs.distances <= apart)
        for row, earlier in zip(pairs.rows.tolist(), pairs.numbers.tolist(), strict=True):
            is_duplicate = decided[portion.rows[row]] == Verdict.DUPLICATE
            if is_duplicate and enters[earlier] and roots[portion.rows[row]] == roots[portion.rows[earlier]]:
                enters[row] = False
        entering[portion.rows] = enters
    members: npt.NDArray[np.bool_] = entering & entry.naming_originals(decided)
    return members


def _distances(
    session: ReadSession,
    entries: Entries,
    duplicates: npt.NDArray[np.bool_],
    of_templates: npt.NDArray[np.bool_],
    original_rows: npt.NDArray[np.int64],
    roots: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int16]:
    """Distances to journal, int16 [n]: known if verdicts name the distance to the original, so not with insert = "all"."""
    transaction, parameters = session.transaction, session.parameters
    distances = np.full(len(entries), NO_DISTANCE, np.int16)
    if parameters.insert != "all" and duplicates.any():
        # The log does not hold this batch's originals yet.
        originals = entries.fingerprints[original_rows]
        stored = np.flatnonzero(duplicates & (original_rows < 0))
        logged = log.documents(transaction, roots[stored], session.words)
        originals[stored] = logged.fingerprints
        distances[duplicates] = parameters.distances(entries.fingerprints[duplicates], originals[duplicates])
        # A page kept for its frame has the plain distance, without frames.
        plain = duplicates & of_templates
        signatures = (column[plain, : parameters.words] for column in (entries.fingerprints, originals))
        distances[plain] = parameters.distances(*signatures)
        if parameters.look is not None and entries.looks is not None:
            looks = entries.looks[original_rows]
            looks[stored] = logged.looks(parameters.look_bytes)
            judged = parameters.look.judge(distances[duplicates], entries.looks[duplicates], looks[duplicates])
            near = entries.kinds[duplicates] == Kind.NEAR
            distances[duplicates] = np.where(near, judged.distances, distances[duplicates])
    return distances
