"""Entering documents whose verdicts are known: they come back from the outputs after the index lost commits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import batch, documents, journal, sources
from index.blocks import probe_keys
from index.decision import Outcome
from index.distance import hamming
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Position, Source, Verdict
from index.layout import Counters, Filing
from index.matching import first_of_equals
from index.parameters import Parameters
from index.search import Search
from index.store import Transaction


class Restored(NamedTuple):
    """What became of the rows handed to `restore`; the three add up to all of them."""

    restored: int
    already_known: int
    without_original: int


def restore(
    transaction: Transaction,
    search: Search,
    entries: Entries,
    verdicts: npt.NDArray[np.uint8],
    originals: Sequence[Position | None],
    parameters: Parameters,
    next_number: int,
) -> tuple[Restored, Counters]:
    """The work of `Index.restore` in one transaction; also the counters behind it."""
    places = batch.places_of(transaction, entries)
    known = batch.journaled(transaction, entries, places).known
    decided = verdicts.astype(np.uint8)
    decided[entries.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    decided[entries.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER

    duplicates = np.flatnonzero(~known & (decided == Verdict.DUPLICATE))
    uniques = np.flatnonzero(~known & (decided == Verdict.UNIQUE))
    row_of = dict(zip(batch.positions(entries, uniques.tolist()), uniques.tolist(), strict=True))
    original_rows = np.full(len(entries), -1, np.int64)
    wanted = [originals[row] for row in duplicates.tolist()]
    original_rows[duplicates] = [row_of.get((w.source, w.offset), -1) if w is not None else -1 for w in wanted]
    numbers_of_originals = np.full(len(entries), NO_NUMBER, np.uint64)
    numbers_of_originals[duplicates] = _journaled_numbers(transaction, wanted, parameters.words)
    lost = np.zeros(len(entries), np.bool_)
    lost[duplicates] = (original_rows[duplicates] < 0) & (numbers_of_originals[duplicates] == NO_NUMBER)

    new = ~known & ~lost
    entering = new & (decided == Verdict.UNIQUE)
    if parameters.insert == "all":
        entering |= new & (decided == Verdict.DUPLICATE)
    numbers = np.full(len(entries), NO_NUMBER, np.uint64)
    numbers[entering] = np.arange(next_number, next_number + np.count_nonzero(entering), dtype=np.uint64)
    roots = np.where(original_rows >= 0, numbers[original_rows], numbers_of_originals)
    roots = np.where(decided == Verdict.UNIQUE, numbers, roots)
    duplicate = new & (decided == Verdict.DUPLICATE)
    distances = _distances(transaction, entries, duplicate, original_rows, roots, parameters)
    filings = _filings(transaction, search, entries, entering)
    outcome = Outcome(decided[new], distances[new], entering[new], numbers[new], roots[new])
    of_new = batch.take(entries, np.flatnonzero(new))
    counters = batch.write(transaction, search, of_new, places, outcome, filings[new], journal_too=True)
    return Restored(int(new.sum()), int(known.sum()), int(lost.sum())), counters


def _filings(
    transaction: Transaction, search: Search, entries: Entries, entering: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Where the `entering` rows, bool [n], are filed, uint8 [n]: an equal of an entry does not enter the blocks again."""
    filings = np.where(entering, Filing.ASIDE, Filing.NOTHING).astype(np.uint8)
    near = np.flatnonzero(entering & (entries.kinds == Kind.NEAR))
    fingerprints = entries.fingerprints[near]
    equal, _ = search.nearest(transaction, fingerprints, probe_keys(fingerprints, 0), 0, limit=1)
    new = first_of_equals(fingerprints) == np.arange(len(near))
    new[equal.rows] = False
    filings[near[new]] = Filing.BLOCKS
    return filings


def _journaled_numbers(
    transaction: Transaction, positions: Sequence[Position | None], words: int
) -> npt.NDArray[np.uint64]:
    """The number that the journal holds for each position, uint64 [n]; NO_NUMBER where it holds none."""
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
    return numbers


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
        found = documents.read(transaction, roots[stored], parameters.words)
        for row, number in zip(stored.tolist(), roots[stored].tolist(), strict=True):
            originals[row] = found[number].fingerprint
        distances[duplicates] = hamming(entries.fingerprints[duplicates], originals[duplicates])
    return distances
