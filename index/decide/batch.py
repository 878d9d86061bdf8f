"""A batch on its way to verdicts: what can be computed before the write transaction, and what needs its content."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.decide.lookup import nearest_counting, nearest_visible
from index.decide.retire import Leaving, retire
from index.decide.rule import Found, Outcome, decide
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Source, Verdict
from index.lsm.simhash_lookup import first_of_equals
from index.lsm.tree import Tree, Wanted, wanted
from index.matching.distance import Matches, nearest, no_matches
from index.storage import documents, journal, log, sources
from index.storage.layout import LOG_KEY, Change, Counters, Filing, Table
from index.storage.log import Origin
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.storage.visibility import Visibility

PIECE_ROWS_MAX = 2_048
"""Rows decided at once: bounds the pairs among them, however alike they are, to 2 million."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive undecided rows of a batch, with everything about them that no store is needed for.

    rows      int64 [n], their rows in the batch; below, a row is a row of the piece
    entries   these rows alone
    near      int64 [m], the NEAR rows
    wanted    the look-up of the NEAR rows; its row i is near[i]
    pairs     matches of the rows among each other, as `Wanted.pairs` gives them; with a second look those that count
    compared  int64 [n], comparisons made for them
    exact     int64 [e], the EXACT rows
    firsts    int64 [n], for EXACT rows the first EXACT row with an equal fingerprint
    """

    rows: npt.NDArray[np.int64]
    entries: Entries
    near: npt.NDArray[np.int64]
    wanted: Wanted
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


def require_sound(entries: Entries, words: int, look_bytes: int) -> None:
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
    looks = np.empty((count, 0), np.uint8) if entries.looks is None else entries.looks
    if looks.shape != (count, look_bytes) or looks.dtype != np.uint8:
        raise ValueError(f"looks must be uint8 [{count}, {look_bytes}]")
    order = np.argsort(entries.source_numbers, kind="stable")
    numbers, offsets = entries.source_numbers[order], entries.offsets[order]
    if np.any((numbers[1:] == numbers[:-1]) & (offsets[1:] <= offsets[:-1])):
        raise ValueError("offsets must strictly increase within a source")


def pieces_of(entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters) -> list[Piece]:
    """These rows of a batch in pieces, to be decided in order. The heavy part of deciding; it reads no store."""
    return [
        _piece(entries.take(rows[start : start + PIECE_ROWS_MAX]), rows[start : start + PIECE_ROWS_MAX], parameters)
        for start in range(0, len(rows), PIECE_ROWS_MAX)
    ]


def _piece(entries: Entries, rows: npt.NDArray[np.int64], parameters: Parameters) -> Piece:
    near = np.flatnonzero(entries.kinds == Kind.NEAR)
    exact = np.flatnonzero(entries.kinds == Kind.EXACT)
    look, looks = parameters.look, None if entries.looks is None else entries.looks[near]
    if look is None or looks is None:
        look_up = wanted(entries.fingerprints[near], parameters, parameters.distance_max)
        pairs, near_compared = look_up.pairs(nearest_only=parameters.insert == "all")
    else:
        look_up = wanted(entries.fingerprints[near], parameters, parameters.distance_max, looks)
        pairs, near_compared = look_up.pairs(nearest_only=False)
        told, counts = look.judge(pairs.distances, looks[pairs.rows], looks[pairs.numbers.astype(np.int64)])
        pairs = nearest(Matches(pairs.rows, told, pairs.numbers).take(counts), None)
    compared = np.zeros(len(rows), np.int64)
    compared[near] = near_compared
    firsts = np.zeros(len(rows), np.int64)
    firsts[exact] = exact[first_of_equals(entries.fingerprints[exact])]
    earlier = near[pairs.numbers.astype(np.int64)].astype(np.uint64)
    return Piece(
        rows, entries, near, look_up, Matches(near[pairs.rows], pairs.distances, earlier), compared, exact, firsts
    )


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdicts on a piece's rows against all that entered before.

    outcome   row for row
    compared  int64 [n], the comparisons made for each
    stale     retired entries that the tables still hold and whose fingerprints equal a NEAR row's, by row
    equal     bool [n], NEAR rows with whose fingerprint there is an entry that is not retired
    """

    outcome: Outcome
    compared: npt.NDArray[np.int64]
    stale: Matches
    equal: npt.NDArray[np.bool_]


def decide_piece(
    transaction: Transaction,
    tree: Tree,
    visibility: Visibility,
    piece: Piece,
    parameters: Parameters,
    next_number: int,
) -> Decided:
    """Decide the rows of a piece."""
    compared, stale = piece.compared.copy(), no_matches()
    distances = np.full(len(piece.rows), NO_DISTANCE, np.int16)
    originals, equal = np.full(len(piece.rows), NO_NUMBER, np.uint64), np.zeros(len(piece.rows), np.bool_)
    if len(piece.near):
        if parameters.look is None or piece.entries.looks is None:
            answer = nearest_visible(transaction, tree, visibility, piece.wanted, parameters.words)
        else:
            looks = piece.entries.looks[piece.near]
            answer = nearest_counting(
                transaction, tree, visibility, piece.wanted, parameters.words, parameters.look, looks
            )
        equal[piece.near] = answer.equal
        compared[piece.near] += answer.compared
        distances[piece.near[answer.best.rows]] = answer.best.distances
        originals[piece.near[answer.best.rows]] = answer.best.numbers
        stale = Matches(piece.near[answer.stale.rows], answer.stale.distances, answer.stale.numbers)
    if len(piece.exact):
        fingerprints = piece.entries.fingerprints[piece.exact]
        numbers = documents.earliest_equals(transaction, visibility, Table.EXACT, fingerprints)
        originals[piece.exact] = numbers
        distances[piece.exact[numbers != NO_NUMBER]] = 0
    matched = originals != NO_NUMBER
    if parameters.insert == "all" and matched.any():
        originals[matched] = documents.roots(transaction, visibility, originals[matched], parameters.words)
    found = Found(piece.entries.kinds, distances, originals, piece.pairs, piece.firsts)
    return Decided(decide(found, parameters.insert, next_number), compared, stale, equal)


def places_of(transaction: Transaction, entries: Entries) -> Places:
    """The index's own numbers of the batch's sources; streams it does not know become known."""
    order = np.argsort(entries.source_numbers, kind="stable")
    edges = np.searchsorted(entries.source_numbers[order], np.arange(1, len(entries.sources)))
    return Places(
        np.array([sources.number_of(transaction, source.stream) for source in entries.sources], np.uint32),
        np.array([source.partition for source in entries.sources], np.uint32),
        np.split(order, edges),
    )


def journaled(transaction: Transaction, entries: Entries, places: Places) -> journal.JournaledDecisions:
    """What the journal knows of a batch's positions, row for row."""
    found, words = nothing_journaled(entries), entries.fingerprints.shape[1]
    for stream, partition, rows in zip(places.streams, places.partitions, places.rows, strict=False):
        if len(rows):
            of_source = journal.find(transaction, int(stream), int(partition), entries.offsets[rows], words)
            found.rows[rows] = of_source.rows
            found.known[rows] = of_source.known
            found.origins.update((int(rows[row]), origin) for row, origin in of_source.origins.items())
    return found


def nothing_journaled(entries: Entries) -> journal.JournaledDecisions:
    """What `journaled` gives for a batch none of whose positions is known."""
    rows = np.zeros(len(entries), journal.DECISION)
    return journal.JournaledDecisions(rows, np.zeros(len(entries), np.bool_), {})


def fill_rows(rows: journal.Rows, piece: Piece, outcome: Outcome) -> None:
    """Put a piece's verdicts into the batch's rows DECISION [n], in place."""
    rows["offset"][piece.rows] = piece.entries.offsets
    rows["number"][piece.rows] = outcome.originals
    rows["distance"][piece.rows] = outcome.distances
    rows["verdict"][piece.rows] = outcome.verdicts
    rows["reason"][piece.rows] = piece.entries.reasons


def filings_of(
    entries: Entries, entering: npt.NDArray[np.bool_], equal: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Where rows are filed, uint8 [n]: an equal of an entry does not enter the blocks again.

    entering  bool [n], the rows that become entries and are searched
    equal     bool [n], those with whose fingerprint there is an entry that is not retired
    """
    filings = np.where(entering, Filing.ASIDE, Filing.NOTHING).astype(np.uint8)
    near = np.flatnonzero(entering & (entries.kinds == Kind.NEAR) & ~equal)
    filings[near[first_of_equals(entries.fingerprints[near]) == np.arange(len(near))]] = Filing.BLOCKS
    return filings


def origins_of(
    transaction: Transaction, entries: Entries, places: Places, outcome: Outcome, first_number: int
) -> dict[int, Origin]:
    """The original of every DUPLICATE row of a piece, by row; some are rows of this piece.

    entries       these rows alone; those that enter have the numbers from `first_number` on
    """
    duplicates = np.flatnonzero(outcome.verdicts == Verdict.DUPLICATE)
    numbers = outcome.originals[duplicates]
    stored = documents.origins(transaction, numbers[numbers < np.uint64(first_number)], entries.fingerprints.shape[1])
    row_of = np.flatnonzero(outcome.entering)
    origins: dict[int, Origin] = {}
    for duplicate, number in zip(duplicates.tolist(), numbers.tolist(), strict=True):
        if number < first_number:
            origins[duplicate] = stored[number]
            continue
        row = int(row_of[number - first_number])
        source = int(entries.source_numbers[row])
        where = int(places.streams[source]), int(places.partitions[source]), int(entries.offsets[row])
        origins[duplicate] = Origin(entries.ids[row], *where)
    return origins


def retire_stale(
    transaction: Transaction,
    tree: Tree,
    visibility: Visibility,
    entries: Entries,
    stale: Matches,
    filings: npt.NDArray[np.uint8],
    counters: Counters,
) -> Counters:
    """Let retired entries leave whose equals are about to be filed by blocks; the counters behind it.

    In the blocks there is one entry of a fingerprint at a time: that is what makes leaving them by fingerprint right.
    """
    stale = stale.take(filings[stale.rows] == Filing.BLOCKS)
    stale = stale.take(~visibility.are_retired(stale.numbers))
    if not len(stale):
        return counters
    numbers, places = np.unique(stale.numbers, return_index=True)
    # What is in the log no more was seen to when its batch left.
    _, there = log.fingerprints(transaction, numbers, entries.fingerprints.shape[1])
    fingerprints = entries.fingerprints[stale.rows[places[there]]]
    kinds, blocks = np.full(int(there.sum()), Kind.NEAR, np.uint8), np.full(int(there.sum()), Filing.BLOCKS, np.uint8)
    leaving = Leaving(numbers[there], fingerprints, kinds, blocks)
    return retire(transaction, tree, visibility, leaving, Change.FORGOTTEN, counters)


def write(
    transaction: Transaction,
    tree: Tree,
    entries: Entries,
    places: Places,
    outcome: Outcome,
    filings: npt.NDArray[np.uint8],
    origins: Sequence[Origin],
    counters: Counters,
    *,
    journal_too: bool,
) -> Counters:
    """Log decided rows of a batch, file those that enter, note their positions; the counters behind it.

    entries      these rows alone; their numbers follow those given before
    filings      uint8 [n], values of `layout.Filing`
    origins      the originals of the rows that are duplicates, in order
    journal_too  False: positions are not noted
    """
    if not len(entries):
        return counters
    words = entries.fingerprints.shape[1]
    key = LOG_KEY.pack(counters.next_number, counters.journal_rows)
    columns: dict[str, npt.NDArray[np.generic]] = {
        "number": outcome.originals,
        "distance": outcome.distances,
        "verdict": outcome.verdicts,
        "filing": filings,
    }
    log.write(transaction, key, entries, log.sources_of(places.streams, places.partitions), columns, origins)
    for kind, table in ((Kind.NEAR, Table.REPEATS), (Kind.EXACT, Table.EXACT)):
        aside = (filings == Filing.ASIDE) & (entries.kinds == kind)
        documents.file_aside(transaction, table, entries.fingerprints[aside], outcome.numbers[aside])
    filed = filings == Filing.BLOCKS
    tree.add(entries.fingerprints[filed], outcome.numbers[filed])
    if journal_too:
        for source, (stream, partition) in enumerate(zip(places.streams, places.partitions, strict=True)):
            offsets = entries.offsets[entries.source_numbers == source]
            if len(offsets):
                journal.add(transaction, int(stream), int(partition), offsets, key, source, words)
    entered = filings != Filing.NOTHING
    return counters._replace(
        next_number=counters.next_number + int(np.count_nonzero(entered)),
        journal_rows=counters.journal_rows + len(entries),
        near_entries=counters.near_entries + int(np.count_nonzero(entered & (entries.kinds == Kind.NEAR))),
    )


def positions(entries: Entries, rows: Sequence[int]) -> list[tuple[Source, int]]:
    """Source and offset of these rows."""
    return [(entries.sources[int(entries.source_numbers[row])], int(entries.offsets[row])) for row in rows]
