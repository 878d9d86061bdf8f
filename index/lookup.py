"""Looking up what counts: the entries that the tables hold, without those that are retired, with those filed aside."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import log
from index.distance import Matches, joined, nearest, no_matches
from index.documents import earliest_equals
from index.entry import NO_NUMBER
from index.layout import Table, pack_fingerprints, unpack_numbers
from index.living import Living
from index.search import Search, Wanted
from index.store import Transaction


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for n fingerprints.

    best      per row the nearest entry, the earliest among equally near ones
    compared  int64 [n], comparisons made
    stale     retired entries with an equal fingerprint that the tables still hold, by row
    """

    best: Matches
    compared: npt.NDArray[np.int64]
    stale: Matches


def nearest_living(transaction: Transaction, search: Search, living: Living, wanted: Wanted, words: int) -> Answer:
    """Look up fingerprints for a decision."""
    if living.all_are:
        best, compared = search.nearest(transaction, wanted)
        return Answer(best, compared, no_matches())
    best, stale = no_matches(), no_matches()
    compared = np.zeros(len(wanted), np.int64)
    for matches, comparisons in search.matches(transaction, wanted):
        compared += comparisons
        alive = living.are(transaction, matches.numbers)
        dead = matches.take(~alive)
        equals = _instead(transaction, living, dead, words)
        best = nearest(joined([best, matches.take(alive), equals]), 1)
        stale = joined([stale, dead.take(dead.distances == 0)])
    return Answer(best, compared, nearest(stale, None))


def all_living(
    transaction: Transaction, search: Search, living: Living, wanted: Wanted, words: int, limit: int
) -> Matches:
    """Per row its `limit` nearest entries, nearest and earliest first, equal ones each for itself."""
    best = no_matches()
    for matches, _ in search.matches(transaction, wanted):
        found = joined([matches, _repeats(transaction, matches, words, limit)])
        best = nearest(joined([best, found.take(living.are(transaction, found.numbers))]), limit)
    return best


def _instead(transaction: Transaction, living: Living, dead: Matches, words: int) -> Matches:
    """For retired matches the earliest equal entry that is filed aside and not retired, where there is one."""
    if not len(dead) or not transaction.count(Table.REPEATS):
        return no_matches()
    distinct, inverse = np.unique(dead.numbers, return_inverse=True)
    fingerprints, there = log.fingerprints(transaction, distinct, words)
    numbers = np.full(len(distinct), NO_NUMBER, np.uint64)
    numbers[there] = earliest_equals(transaction, living, Table.REPEATS, fingerprints[there])
    found = Matches(dead.rows, dead.distances, numbers[inverse])
    return found.take(found.numbers != NO_NUMBER)


def _repeats(transaction: Transaction, matches: Matches, words: int, limit: int) -> Matches:
    """The entries filed aside that equal these matches; of each at most `limit`."""
    parts = [no_matches()]
    if len(matches) and transaction.count(Table.REPEATS):
        distinct, inverse = np.unique(matches.numbers, return_inverse=True)
        fingerprints, there = log.fingerprints(transaction, distinct, words)
        keys = pack_fingerprints(fingerprints)
        numbers = [
            unpack_numbers(transaction.first_values(Table.REPEATS, key, limit) if known else [])
            for key, known in zip(keys, there.tolist(), strict=True)
        ]
        for place, of_match in enumerate(inverse.tolist()):
            count = len(numbers[of_match])
            row, distance = matches.rows[place], matches.distances[place]
            parts.append(Matches(np.full(count, row), np.full(count, distance), numbers[of_match]))
    return joined(parts)
