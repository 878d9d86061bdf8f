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
from index.decide.decide import candidates_of, chains_of_chunk, undecided
from index.decide.gather import gather, nothing_gathered
from index.decide.load import load
from index.decide.prepare import prepared_whole, require_sound, stored_form
from index.decide.retire import remove
from index.decide.rule import rule_of
from index.entry import NO_NUMBER, Entries, Kind, Position, Source, Verdict
from index.frames.hosts import learn_frames, note_kept
from index.kernels.judge import NONE, distances_to
from index.kernels.walk import choose_members
from index.matching.host_sketch import host_keys
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import documents, journal, log, sources
from index.storage.bases import position_below
from index.storage.layout import Filing
from index.storage.log import Origin
from index.storage.parameters import Parameters
from index.stories.fold import fold
from index.versions.history import stand_for_keys
from index.versions.reasons import original_columns, strangers_by_reasons, with_reasons

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
        raise ValueError(
            "only UNIQUE, TEMPLATE, UPDATE, EXTENDS, ADDS, DUPLICATE and SUSPECT documents can be restored"
        )


def restore(
    session: WriteSession,
    entries: Entries,
    verdicts: npt.NDArray[np.uint8],
    originals: Sequence[Position | None],
    ends: Mapping[Source, int],
) -> Restored:
    """Implementation of `Index.restore`, within one session."""
    batch = Batch(session, entries)
    known = batch.journaled.known
    entries = learn_frames(session, stored_form(entries, session.parameters), np.flatnonzero(~known))
    # An UPDATE without its older version's stream names nothing that could be retired, so it is UNIQUE.
    retires = np.array([where is not None and bool(where.source.stream) for where in originals], np.bool_)
    decided = np.where((verdicts == Verdict.UPDATE) & ~retires, Verdict.UNIQUE, verdicts).astype(np.uint8)
    # The kind overrides the given verdict: these rows have no fingerprint.
    decided[entries.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    decided[entries.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER

    standing = entry.standing_for_themselves(decided)
    templates, extends = decided == Verdict.TEMPLATE, np.isin(decided, entry.EXTENDING)
    dropped = entry.naming_originals(decided) & ~standing
    naming = np.flatnonzero(~known & (dropped | templates | extends))
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
    decided[(templates | extends) & lost] = Verdict.UNIQUE
    templates, extends = templates & ~lost, extends & ~lost
    lost &= dropped

    new = ~known & ~lost
    named = _Named(decided, new, new & (dropped | templates | extends), original_rows, numbers_of_originals)
    outcome = _outcome(session, entries, named)
    entries = with_reasons(session, entries, outcome)
    enter_again(session, batch, entries, new, outcome, originals, ends, leaving=np.zeros_like(new))
    note_kept(session, host_keys(entries.hosts or [None] * len(entries))[new & templates])
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
    """Enter new rows, bool [n], with known verdicts; looks up only the older versions of UPDATE rows.

    originals  of all n rows; an UPDATE row retires its older version, even if the row is not new
    ends       applied offsets
    leaving    bool [n], rows that are forgotten at once
    origins    see `Batch.enter`
    """
    updates, places = np.flatnonzero(outcome.verdicts == Verdict.UPDATE), np.flatnonzero(new)
    replaced = updates[new[updates]]
    older = [(entries.ids[row], position) for row in replaced.tolist() if (position := originals[row]) is not None]
    replaced_origins = dict(zip(np.searchsorted(places, replaced).tolist(), origins_of(session, older), strict=True))
    rows = entries if new.all() else entries.take(places)
    columns = {name: column[places] for name in _COLUMNS if (column := getattr(outcome, name)).ndim}
    entered, skipping = replace(outcome, former=replaced_origins, **columns), leaving[places]
    batch.enter(session, rows, entered, origins=origins, leaving=skipping)
    if leaving.any():
        remove(session, outcome.numbers[new & leaving])
    _retire_replaced(session, entries, updates, originals)
    retention.move_horizons(session, batch, new)
    retention.note_ages(session, batch)
    sources.move_applied(session.transaction, ends, {})
    fold(session)


_COLUMNS = ("verdicts", "distances", "entering", "orders", "marks", "returns", "strangers", "ratios", "equal_texts")
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
    numbers = np.array([number if number in there else int(NO_NUMBER) for number in numbers.tolist()], np.uint64)
    for base, below in session.bases:
        asked_below = [position_below(base.name.identity, position) for position in positions]
        if any(asked_below):
            found = numbers_at(below, asked_below)
            numbers = np.where(found == NO_NUMBER, numbers, found + np.uint64(base.first))
    return numbers


class _Named(NamedTuple):
    """Rows with known verdicts, and the originals that they name.

    verdicts       uint8 [n]
    new            bool [n], rows to enter
    naming         bool [n], new rows that name an original, but for updates
    original_rows  int64 [n], row of the original; -1: it is no row of this batch
    numbers        uint64 [n], number of the original in the index, or NO_NUMBER
    """

    verdicts: npt.NDArray[np.uint8]
    new: npt.NDArray[np.bool_]
    naming: npt.NDArray[np.bool_]
    original_rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint64]


def _outcome(session: WriteSession, entries: Entries, named: _Named) -> Outcome:
    """What to journal: verdicts as they were, with distances, lengths and members by today's entries.

    The original matches are unknown and entries come in another order, so members may differ from before. But every
    document that stays out leaves a match that also counts for its next copy.
    """
    parameters, count = session.parameters, len(entries)
    rule = rule_of(parameters, session.longer)
    duplicates = named.naming & (named.verdicts == Verdict.DUPLICATE) & (entries.kinds == Kind.NEAR)
    chunk, found = prepared_whole(entries, parameters), nothing_gathered(count)
    # Uniques usually come back without duplicates and need no look-up.
    if parameters.insert == "root" and duplicates.any():
        found = gather(session, chunk)
    numbers = named.numbers[named.numbers != NO_NUMBER]
    loaded = load(session, entries, np.concatenate([found.numbers, numbers]), with_ids=False)
    rows, documents = np.flatnonzero(named.naming), loaded.documents
    originals = np.where(named.original_rows < 0, loaded.places(named.numbers), named.original_rows)
    outcomes = undecided(entries, found.compared)
    outcomes.entering[:] = named.new & entry.standing_for_themselves(named.verdicts)
    # Suspects enter as well; with insert = "unique" there are none.
    outcomes.entering[named.naming & (named.verdicts == Verdict.SUSPECT)] = parameters.insert == "root"
    if parameters.insert == "root" and duplicates.any():
        candidates = candidates_of(found.rows, loaded.places(found.numbers), np.zeros(count, np.bool_))
        roots = np.where(duplicates, originals, NONE)
        choose_members(candidates, chains_of_chunk(chunk), documents, outcomes, rule, roots)
    plain, distances = distances_to(rows, originals[rows], documents, rule)
    outcomes.verdicts[:], outcomes.named[rows] = named.verdicts, originals[rows]
    outcomes.distances[rows] = np.where(named.verdicts[rows] == Verdict.TEMPLATE, plain, distances)
    ratios, equal_texts = original_columns(outcomes, documents)
    orders = np.where(
        named.original_rows >= 0, next_numbers(session, outcomes.entering)[named.original_rows], named.numbers
    )
    return Outcome(
        outcomes.verdicts,
        outcomes.distances,
        outcomes.entering,
        session.counters.next_number,
        orders,
        strangers=strangers_by_reasons(session, entries),
        ratios=ratios,
        equal_texts=equal_texts,
    )
