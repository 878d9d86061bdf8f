"""Entering documents whose verdicts are known: they come back from the outputs after the index lost commits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide import batch
from index.decide.lookup import nearest_visible
from index.decide.rule import Outcome
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Position, Source, Verdict
from index.lsm.exact_lookup import exact_lookup_of
from index.lsm.tree import Tree
from index.matching.distance import Matches
from index.storage import documents, journal, log, sources
from index.storage.layout import Counters, Filing
from index.storage.log import Origin
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.storage.visibility import Visibility


class Restored(NamedTuple):
    """What became of the rows handed to `restore`; the three add up to all of them."""

    restored: int
    already_known: int
    without_original: int


def require_restorable(
    entries: Entries, verdicts: npt.NDArray[np.uint8], originals: Sequence[Position | None], parameters: Parameters
) -> None:
    """Raise ValueError unless `restore` can take these."""
    batch.require_sound(entries, parameters.words, parameters.look_bytes)
    if len(verdicts) != len(entries) or len(originals) != len(entries):
        raise ValueError("verdicts and originals must have one item per row")
    if not np.isin(verdicts, (Verdict.UNIQUE, Verdict.DUPLICATE)).all():
        raise ValueError("only UNIQUE and DUPLICATE documents can be restored")


def restore(
    transaction: Transaction,
    tree: Tree,
    entries: Entries,
    verdicts: npt.NDArray[np.uint8],
    originals: Sequence[Position | None],
    parameters: Parameters,
    counters: Counters,
) -> tuple[Restored, npt.NDArray[np.bool_], Counters]:
    """The work of `Index.restore` in one transaction; also which rows are new, bool [n], and the counters behind it."""
    places = batch.places_of(transaction, entries)
    known = batch.journaled(transaction, entries, places).known
    decided = verdicts.astype(np.uint8)
    decided[entries.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    decided[entries.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER

    duplicates = np.flatnonzero(~known & (decided == Verdict.DUPLICATE))
    uniques = np.flatnonzero(~known & (decided == Verdict.UNIQUE) & bool(len(duplicates)))
    row_of = dict(zip(batch.positions(entries, uniques.tolist()), uniques.tolist(), strict=True))
    original_rows = np.full(len(entries), -1, np.int64)
    asked = [originals[row] for row in duplicates.tolist()]
    original_rows[duplicates] = [row_of.get((w.source, w.offset), -1) if w is not None else -1 for w in asked]
    numbers_of_originals = np.full(len(entries), NO_NUMBER, np.uint64)
    numbers_of_originals[duplicates] = _known_numbers(transaction, asked, parameters.words)
    lost = np.zeros(len(entries), np.bool_)
    lost[duplicates] = (original_rows[duplicates] < 0) & (numbers_of_originals[duplicates] == NO_NUMBER)

    new = ~known & ~lost
    entering = new & (decided == Verdict.UNIQUE)
    if parameters.insert == "all":
        entering |= new & (decided == Verdict.DUPLICATE)
    numbers = np.full(len(entries), NO_NUMBER, np.uint64)
    first = counters.next_number
    numbers[entering] = np.arange(first, first + np.count_nonzero(entering), dtype=np.uint64)
    roots = np.where(original_rows >= 0, numbers[original_rows], numbers_of_originals)
    roots = np.where(decided == Verdict.UNIQUE, numbers, roots)
    duplicate = new & (decided == Verdict.DUPLICATE)
    distances = _distances(transaction, entries, duplicate, original_rows, roots, parameters)
    those = entries if new.all() else entries.take(np.flatnonzero(new))
    outcome = Outcome(decided[new], distances[new], entering[new], numbers[new], roots[new])
    counters = enter(transaction, tree, those, places, outcome, parameters, counters)
    return Restored(int(new.sum()), int(known.sum()), int(lost.sum())), new, counters


def enter(
    transaction: Transaction,
    tree: Tree,
    entries: Entries,
    places: batch.Places,
    outcome: Outcome,
    parameters: Parameters,
    counters: Counters,
    *,
    origins: Sequence[Origin] | None = None,
    leaving: npt.NDArray[np.bool_] | None = None,
) -> Counters:
    """Log and file rows whose verdicts are known, all of them new; the counters behind it.

    origins  the originals of the DUPLICATE rows, in order; None: they are in the log, or rows of this batch
    leaving  bool [n], rows that are about to be forgotten: they do not enter the blocks; None: there are none
    """
    visibility = Visibility(transaction, parameters.words)
    if origins is None:
        origins = list(batch.origins_of(transaction, entries, places, outcome, counters.next_number).values())
    staying = outcome.entering if leaving is None else outcome.entering & ~leaving
    near = np.flatnonzero(staying & (entries.kinds == Kind.NEAR))
    look_up = exact_lookup_of(entries.fingerprints[near], parameters)
    answer = nearest_visible(transaction, tree, visibility, look_up, parameters.words)
    equal = np.zeros(len(entries), np.bool_)
    equal[near] = answer.equal
    filings = batch.filings_of(entries, staying, equal)
    filings[outcome.entering & ~staying] = Filing.ASIDE
    stale = Matches(near[answer.stale.rows], answer.stale.distances, answer.stale.numbers)
    counters = batch.retire_stale(transaction, tree, visibility, entries, stale, filings, counters)
    return batch.write(transaction, tree, entries, places, outcome, filings, origins, counters, journal_too=True)


def _known_numbers(
    transaction: Transaction, positions: Sequence[Position | None], words: int
) -> npt.NDArray[np.uint64]:
    """The number that the journal holds for each position, uint64 [n]; NO_NUMBER where its document is not known."""
    numbers = np.full(len(positions), NO_NUMBER, np.uint64)
    by_source: dict[Source, list[int]] = {}
    for place, position in enumerate(positions):
        if position is not None:
            by_source.setdefault(position.source, []).append(place)
    for source, places in by_source.items():
        stream = sources.known_number(transaction, source.stream)
        if stream is None:
            continue
        wanted = np.array([position.offset for place in places if (position := positions[place])], np.uint64)
        offsets, inverse = np.unique(wanted, return_inverse=True)
        found = journal.find(transaction, stream, source.partition, offsets, words)
        numbers[places] = np.where(found.known, found.rows["number"], NO_NUMBER)[inverse]
    there = documents.origins(transaction, numbers[numbers != NO_NUMBER], words)
    return np.array([number if number in there else int(NO_NUMBER) for number in numbers.tolist()], np.uint64)


def _distances(
    transaction: Transaction,
    entries: Entries,
    duplicates: npt.NDArray[np.bool_],
    original_rows: npt.NDArray[np.int64],
    roots: npt.NDArray[np.uint64],
    parameters: Parameters,
) -> npt.NDArray[np.int16]:
    """The distances to journal, int16 [n]: with insert = unique the match is the original, so its distance is known."""
    distances = np.full(len(entries), NO_DISTANCE, np.int16)
    if parameters.insert == "unique" and duplicates.any():
        # The originals that stand in this batch are not in the log yet.
        originals = entries.fingerprints[original_rows]
        stored = np.flatnonzero(duplicates & (original_rows < 0))
        numbers, inverse = np.unique(roots[stored], return_inverse=True)
        originals[stored] = log.fingerprints(transaction, numbers, parameters.words)[0][inverse]
        distances[duplicates] = parameters.distances(entries.fingerprints[duplicates], originals[duplicates])
        if parameters.look is not None and entries.looks is not None:
            looks = entries.looks[original_rows]
            looks[stored] = log.looks(transaction, numbers, parameters.words, parameters.look_bytes)[0][inverse]
            judged = parameters.look.judge(distances[duplicates], entries.looks[duplicates], looks[duplicates])
            near = entries.kinds[duplicates] == Kind.NEAR
            distances[duplicates] = np.where(near, judged.distances, distances[duplicates])
    return distances
