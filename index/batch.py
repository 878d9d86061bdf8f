"""A batch on its way to verdicts: what can be computed before the write transaction, and what needs its content."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from index import documents, journal, schemes, sources
from index.decision import Found, Outcome, decide
from index.distance import Matches
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Source
from index.layout import JOURNAL_ROW
from index.matching import first_of_equals
from index.parameters import Parameters
from index.schemes import Search
from index.store import Transaction

PIECE_ROWS_MAX = 2_048
"""Rows decided at once: bounds the pairs among them, however alike they are, to 2 million."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive undecided rows of a batch, with everything about them that no store is needed for.

    rows      int64 [n], their rows in the batch; below, a row is a row of the piece
    entries   these rows alone
    near      int64 [m], the NEAR rows
    search    of the NEAR rows; its row i is near[i]
    pairs     matches of the rows among each other, as `Search.pairs` gives them
    compared  int64 [n], comparisons made for them
    exact     int64 [e], the EXACT rows
    firsts    int64 [n], for EXACT rows the first EXACT row with an equal fingerprint
    """

    rows: npt.NDArray[np.int64]
    entries: Entries
    near: npt.NDArray[np.int64]
    search: Search
    pairs: Matches
    compared: npt.NDArray[np.int64]
    exact: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a batch come from, in the index's own numbers; row i belongs to source source_numbers[i].

    streams     uint32 [sources]
    partitions  uint32 [sources]
    rows        for every source its rows in the batch, int64
    """

    streams: npt.NDArray[np.uint32]
    partitions: npt.NDArray[np.uint32]
    rows: list[npt.NDArray[np.int64]]


def require_sound(entries: Entries, words: int) -> None:
    """Raise ValueError unless the columns keep what `Entries` promises."""
    count = len(entries)
    columns = (entries.source_numbers, entries.kinds, entries.reasons, entries.times_ms, entries.ids)
    if any(len(column) != count for column in columns):
        raise ValueError("the columns of a batch differ in length")
    if entries.fingerprints.shape != (count, words) or entries.fingerprints.dtype != np.uint64:
        raise ValueError(f"fingerprints must be uint64 [{count}, {words}]")
    if count and int(entries.source_numbers.max()) >= len(entries.sources):
        raise ValueError("a row names a source that the batch does not list")
    if len(set(entries.sources)) != len(entries.sources):
        raise ValueError("the batch lists a source twice")
    order = np.argsort(entries.source_numbers, kind="stable")
    numbers, offsets = entries.source_numbers[order], entries.offsets[order]
    if np.any((numbers[1:] == numbers[:-1]) & (offsets[1:] <= offsets[:-1])):
        raise ValueError("offsets must strictly increase within a source")


def take(entries: Entries, rows: npt.NDArray[np.int64]) -> Entries:
    """Only these rows of a batch, int64 [n]."""
    return replace(
        entries,
        source_numbers=entries.source_numbers[rows],
        offsets=entries.offsets[rows],
        kinds=entries.kinds[rows],
        reasons=entries.reasons[rows],
        fingerprints=entries.fingerprints[rows],
        times_ms=entries.times_ms[rows],
        ids=[entries.ids[row] for row in rows.tolist()],
    )


def pieces_of(entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters) -> list[Piece]:
    """These rows of a batch in pieces, to be decided in order. The heavy part of deciding; it reads no store."""
    return [
        _piece(take(entries, rows[start : start + PIECE_ROWS_MAX]), rows[start : start + PIECE_ROWS_MAX], parameters)
        for start in range(0, len(rows), PIECE_ROWS_MAX)
    ]


def _piece(entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters) -> Piece:
    near = np.flatnonzero(entries.kinds == Kind.NEAR)
    exact = np.flatnonzero(entries.kinds == Kind.EXACT)
    search = schemes.search_for(entries.fingerprints[near], parameters, parameters.distance_max)
    pairs, near_compared = search.pairs(nearest_only=parameters.insert == "all")
    compared = np.zeros(len(rows), np.int64)
    compared[near] = near_compared
    firsts = np.zeros(len(rows), np.int64)
    firsts[exact] = exact[first_of_equals(entries.fingerprints[exact])]
    earlier = near[pairs.numbers.astype(np.int64)].astype(np.uint64)
    return Piece(
        rows, entries, near, search, Matches(near[pairs.rows], pairs.distances, earlier), compared, exact, firsts
    )


def decide_piece(
    transaction: Transaction, piece: Piece, parameters: Parameters, next_number: int
) -> tuple[Outcome, npt.NDArray[np.int64]]:
    """The verdicts on a piece's rows against all that entered before, and the comparisons made for each, int64 [n]."""
    compared = piece.compared.copy()
    distances = np.full(len(piece.rows), NO_DISTANCE, np.int16)
    originals = np.full(len(piece.rows), NO_NUMBER, np.uint64)
    if len(piece.near):
        best, comparisons = piece.search.entries(transaction, limit=1)
        compared[piece.near] += comparisons
        distances[piece.near[best.rows]] = best.distances
        originals[piece.near[best.rows]] = best.numbers
    if len(piece.exact):
        numbers = documents.exact_numbers(transaction, piece.entries.fingerprints[piece.exact])
        originals[piece.exact] = numbers
        distances[piece.exact[numbers != NO_NUMBER]] = 0
    matched = originals != NO_NUMBER
    if parameters.insert == "all" and matched.any():
        originals[matched] = documents.roots(transaction, originals[matched], parameters.words)
    found = Found(piece.entries.kinds, distances, originals, piece.pairs, piece.firsts)
    return decide(found, parameters.insert, next_number), compared


def places_of(transaction: Transaction, entries: Entries) -> Places:
    """The index's own numbers of the batch's sources; streams it does not know become known."""
    order = np.argsort(entries.source_numbers, kind="stable")
    edges = np.searchsorted(entries.source_numbers[order], np.arange(1, len(entries.sources)))
    return Places(
        np.array([sources.number_of(transaction, source.stream) for source in entries.sources], np.uint32),
        np.array([source.partition for source in entries.sources], np.uint32),
        np.split(order, edges),
    )


def journaled(transaction: Transaction, entries: Entries, places: Places) -> journal.Found:
    """What the journal knows of a batch's positions, row for row."""
    found = nothing_journaled(entries)
    for stream, partition, rows in zip(places.streams, places.partitions, places.rows, strict=False):
        if len(rows):
            of_source = journal.find(transaction, int(stream), int(partition), entries.offsets[rows])
            found.rows[rows] = of_source.rows
            found.known[rows] = of_source.known
    return found


def nothing_journaled(entries: Entries) -> journal.Found:
    """What `journaled` gives for a batch none of whose positions is known."""
    rows = np.zeros(len(entries), JOURNAL_ROW)
    return journal.Found(rows, np.zeros(len(entries), np.bool_))


def fill_rows(rows: journal.Rows, piece: Piece, outcome: Outcome) -> None:
    """Put a piece's verdicts into the batch's journal rows JOURNAL_ROW [n], in place."""
    rows["offset"][piece.rows] = piece.entries.offsets
    rows["number"][piece.rows] = outcome.originals
    rows["distance"][piece.rows] = outcome.distances
    rows["verdict"][piece.rows] = outcome.verdicts
    rows["reason"][piece.rows] = piece.entries.reasons


def write_journal(
    transaction: Transaction, places: Places, journal_rows: journal.Rows, new: npt.NDArray[np.bool_]
) -> None:
    """Write the `new` rows, bool [n], of a batch's journal rows JOURNAL_ROW [n]."""
    for stream, partition, rows in zip(places.streams, places.partitions, places.rows, strict=False):
        of_source = rows[new[rows]]
        if len(of_source):
            journal.add(transaction, int(stream), int(partition), journal_rows[of_source])


def write_entering(
    transaction: Transaction,
    entries: Entries,
    places: Places,
    entering: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.uint64],
    originals: npt.NDArray[np.uint64],
    parameters: Parameters,
) -> int:
    """Make the `entering` rows, bool [n], entries with these numbers and originals; returns how many they are."""
    rows = np.flatnonzero(entering)
    if len(rows):
        of_rows = take(entries, rows)
        streams, partitions = places.streams[of_rows.source_numbers], places.partitions[of_rows.source_numbers]
        documents.write(transaction, of_rows, streams, partitions, numbers[rows], originals[rows])
        near = of_rows.kinds == Kind.NEAR
        if near.any():
            schemes.file(transaction, of_rows.fingerprints[near], numbers[rows][near], parameters)
    return len(rows)


def positions(entries: Entries, rows: Sequence[int]) -> list[tuple[Source, int]]:
    """Source and offset of these rows."""
    return [(entries.sources[int(entries.source_numbers[row])], int(entries.offsets[row])) for row in rows]
