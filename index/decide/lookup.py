"""Look-up of visible entries: those in the tree that are not retired, and those filed aside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.rule import WATCHED
from index.entry import NO_DISTANCE, NO_NUMBER, Entries
from index.kernels.minhash import exceeds
from index.lsm.lookup import Lookup, lookup_of
from index.matching.distance import Matches, joined, nearest, no_matches
from index.matching.second_look import NO_LOOK
from index.session import ReadSession
from index.storage import documents, log
from index.storage.layout import Table, pack_fingerprints, unpack_numbers
from index.storage.store import Transaction

LOOKS_AT_ONCE = 2**15
"""Looks read and compared at once: bounds their memory to 8 MiB at 256 bytes each."""

REPEATS_AT_ONCE = 64
"""Entries of one fingerprint that the first step reads; each further step reads four times as many."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of looking up n fingerprints.

    best      per row the nearest entry that counts, the earliest on ties
    compared  int64 [n], comparisons
    stale     retired entries, still in the tables, with a row's fingerprint
    equal     bool [n], whether an entry with the row's fingerprint is not retired
    short     of rows without a best one: the nearest entry that does not count for a too short root alone; and WATCHED roots
    measured  with learnt frames: entries among which the rule chooses itself, for rows without a best one

    >>> nothing = Answer(no_matches(), np.zeros(2, np.int64), no_matches(), np.zeros(2, np.bool_))
    >>> len(nothing.best), nothing.measured is None
    (0, True)
    """

    best: Matches
    compared: npt.NDArray[np.int64]
    stale: Matches
    equal: npt.NDArray[np.bool_]
    measured: Matches | None = None
    short: Matches = field(default_factory=no_matches)


def nearest_visible(session: ReadSession, lookup: Lookup) -> Answer:
    """Look up fingerprints for a decision."""
    if session.visibility.all_are:
        best, compared = session.tree.nearest(session.transaction, lookup)
        return Answer(best, compared, no_matches(), _equal_rows(best, len(lookup)))
    return _nearest_counting(session, lookup, _Judge(session))


def nearest_judged(session: ReadSession, lookup: Lookup, rows: Entries) -> Answer:
    """Look up n NEAR rows if not every match counts.

    Without a second look the nearest match usually counts, so only rows whose nearest match fails are looked up again, among
    all matches.
    """
    judge = _Judge(session, rows)
    if session.parameters.look_bytes:
        return _nearest_counting(session, lookup, judge)
    answer = nearest_visible(session, lookup)
    counts = judge.judged(answer.best).distances != NO_DISTANCE
    left = answer.best.rows[~counts]
    if not len(left):
        return answer
    again = lookup_of(rows.fingerprints[left], session.parameters, session.parameters.distance_max)
    others = _nearest_counting(session, again, _Judge(session, rows.take(left)))
    farther = Matches(left[others.best.rows], others.best.distances, others.best.numbers)
    compared = answer.compared.copy()
    compared[left] += others.compared
    best, short = nearest(joined([answer.best.take(counts), farther]), 1), others.short
    short = replace(short, rows=left[short.rows])
    return Answer(best, compared, answer.stale, answer.equal, short=short)


def _nearest_counting(session: ReadSession, lookup: Lookup, second: "_Judge") -> Answer:
    """Examine all matches; `best` has those that count, at the second look's distances.

    Entries with one fingerprint differ in looks, so equals filed aside take part until none can be nearer.
    """
    best, short, watched, stale = (no_matches() for _ in range(4))
    compared, equal = np.zeros(len(lookup), np.int64), np.zeros(len(lookup), np.bool_)
    for matches, comparisons in session.tree.matches(session.transaction, lookup):
        compared += comparisons
        visible = session.visibility.visible(matches.numbers)
        retired = matches.take(~visible)
        stale = joined([stale, retired.take(retired.distances == 0)])
        judged = second.judged(matches)
        counting = visible & (judged.distances != NO_DISTANCE)
        # The entry in the blocks precedes all its equals filed aside, so on ties it wins.
        settled = counting & (judged.distances == second.least(matches.distances))
        for equals, of_equals in (
            (matches.take(visible), judged.take(visible)),
            *second.repeats(matches.take(~settled)),
        ):
            equal |= _equal_rows(equals, len(equal))
            best = nearest(joined([best, of_equals.counting(equals)]), 1)
            short = nearest(joined([short, of_equals.with_short_roots(equals)]), 1)
            watched = _each_once(joined([watched, of_equals.short_roots(equals)]))
    return Answer(best, compared, nearest(stale, None), equal, short=_beside(best, short, watched))


def nearest_of_matches(session: ReadSession, matches: Matches, rows: Entries) -> Matches:
    """Each row's nearest match, as `Answer.given`; rows as in `nearest_judged`."""
    judged = _Judge(session, rows).judged(matches)
    best, short = nearest(judged.counting(matches), 1), nearest(judged.with_short_roots(matches), 1)
    return joined([best, _beside(best, short, _each_once(judged.short_roots(matches)))])


def _beside(best: Matches, short: Matches, roots: Matches) -> Matches:
    """`Answer.short`: watched are the roots of copies no farther than the best one, which count once these are lost."""
    limits = np.full(1 + max(best.rows.max(initial=0), roots.rows.max(initial=0)), WATCHED)
    limits[best.rows] = best.distances
    roots = roots.take(roots.distances <= limits[roots.rows])
    watched = replace(roots, distances=np.full_like(roots.distances, WATCHED))
    return joined([short.take(~np.isin(short.rows, best.rows)), watched])


def _each_once(matches: Matches) -> Matches:
    """Each row's documents once, at the least distance."""
    ordered = matches.take(np.lexsort((matches.distances, matches.numbers, matches.rows)))
    _, firsts = np.unique(np.stack([ordered.rows.astype(np.uint64), ordered.numbers]), axis=1, return_index=True)
    return ordered.take(firsts)


def nearest_and_all(session: ReadSession, lookup: Lookup) -> tuple[Answer, Matches | None]:
    """Look up like `nearest_visible`, with all matches in order, or None once anything was retired."""
    if not session.visibility.all_are:
        return nearest_visible(session, lookup), None
    parts, compared = [no_matches()], np.zeros(len(lookup), np.int64)
    for matches, comparisons in session.tree.matches(session.transaction, lookup):
        compared += comparisons
        parts.append(matches)
    ordered = nearest(joined(parts), None)
    best = ordered.take(np.diff(ordered.rows, prepend=-1) > 0)
    return Answer(best, compared, no_matches(), _equal_rows(best, len(lookup))), ordered


def with_equals(session: ReadSession, matches: Matches) -> Matches:
    """Add equal entries to all matches, as `resembling`, if nothing was ever retired."""
    return nearest(joined([matches, _repeats(session, matches, REPEATS_AT_ONCE)]), None)


def resembling(session: ReadSession, lookup: Lookup, limit: int | None = None) -> tuple[Matches, npt.NDArray[np.int64]]:
    """Visible entries near each row, nearest and earliest first, at most `limit` a row; and the comparisons.

    The entry in the blocks may not count, so up to `limit` of its equals take part; without a limit REPEATS_AT_ONCE.
    """
    parts, compared = [no_matches()], np.zeros(len(lookup), np.int64)
    for matches, comparisons in session.tree.matches(session.transaction, lookup):
        compared += comparisons
        each = joined([matches, _repeats(session, matches, limit or REPEATS_AT_ONCE)])
        parts.append(each.take(session.visibility.visible(each.numbers)))
        if limit is not None:
            parts = [nearest(joined(parts), limit)]
    return nearest(joined(parts), limit), compared


class _Judged(NamedTuple):
    """m judged matches.

    distances  int16 [m], by the second look, if any; NO_DISTANCE if the match does not count or has left the log
    short      int16 [m], the same for matches that do not count for a too short root alone
    roots      uint64 [m], roots of the latter
    """

    distances: npt.NDArray[np.int16]
    short: npt.NDArray[np.int16]
    roots: npt.NDArray[np.uint64]

    def take(self, places: npt.NDArray[np.bool_]) -> "_Judged":
        return _Judged(self.distances[places], self.short[places], self.roots[places])

    def counting(self, matches: Matches) -> Matches:
        """The matches that count, at their judged distances."""
        return replace(matches, distances=self.distances).take(self.distances != NO_DISTANCE)

    def with_short_roots(self, matches: Matches) -> Matches:
        """The matches with too short roots, at their judged distances."""
        return replace(matches, distances=self.short).take(self.short != NO_DISTANCE)

    def short_roots(self, matches: Matches) -> Matches:
        """Other documents that are too short roots, at their matches' judged distances."""
        copies = (self.short != NO_DISTANCE) & (self.roots != matches.numbers)
        return Matches(matches.rows, self.short, self.roots).take(copies)


class _Judge:
    """Judges some rows' matches: which count, and at which distance."""

    def __init__(self, session: ReadSession, rows: Entries | None = None) -> None:
        """Without rows every match counts, at its own distance."""
        self._session = session
        self._transaction = session.transaction
        self._visibility = session.visibility
        self._words = session.words
        self._look = NO_LOOK if rows is None else session.parameters.second_look
        self._accepts_all = rows is None or (session.parameters.root is None and not session.longer)
        if rows is not None:
            self._fingerprints, self._looks = rows.fingerprints, rows.look_rows
            self._lengths = rows.letters.astype(np.int64)

    def least(self, distances: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Least distance at which matches at these Hamming distances can count: int16 [m] -> int16 [m]."""
        return self._look.least(distances)

    def judged(self, matches: Matches) -> _Judged:
        """Judge matches."""
        judged = self._by_second_look(matches) if self._look.bytes else matches.distances
        nowhere = np.full(len(matches), NO_DISTANCE, np.int16)
        if self._accepts_all:
            return _Judged(judged, nowhere, matches.numbers)
        counting = np.flatnonzero(judged != NO_DISTANCE)
        counting = counting[self._visibility.visible(matches.numbers[counting])]
        near, short, roots = self._by_roots(matches.take(counting))
        of_all = _Judged(nowhere, nowhere.copy(), matches.numbers.copy())
        for column, places in ((of_all.distances, counting[near & ~short]), (of_all.short, counting[near & short])):
            column[places] = judged[places]
        of_all.roots[counting] = roots
        return of_all

    def _by_roots(
        self, matches: Matches
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
        """Whether a match's root counts and is near enough, bool [m]; whether it is too short, bool [m]; and all roots."""
        parameters, longer = self._session.parameters, self._session.longer
        roots_of = documents.roots if parameters.root is None else documents.counting_roots
        of_matches = roots_of(self._visibility, matches.numbers)
        near: npt.NDArray[np.bool_] = of_matches != NO_NUMBER
        stored, rows = log.documents(self._transaction, of_matches[near], self._words), matches.rows[near]
        short, own, of_roots = near.copy(), self._fingerprints[rows], stored.fingerprints
        lengths = stored.lengths.astype(np.int64)
        short[near] = exceeds(self._lengths[rows], lengths, longer) & (own != of_roots).any(axis=1)
        if parameters.root is not None:
            looks = stored.looks(parameters.look_bytes)
            distances = parameters.root_distances(own, of_roots, self._looks[rows], looks)
            near[near] = distances != NO_DISTANCE
        return near, short, of_matches

    def _by_second_look(self, matches: Matches) -> npt.NDArray[np.int16]:
        look, by_look = self._look, np.full(len(matches), NO_DISTANCE, np.int16)
        order = np.argsort(matches.numbers, kind="stable")
        # Ascending numbers read each log batch once; portions bound the memory.
        for begin in range(0, len(order), LOOKS_AT_ONCE):
            places = order[begin : begin + LOOKS_AT_ONCE]
            some = matches.take(places)
            stored = log.documents(self._transaction, some.numbers, self._words)
            judged = look.judge(some.distances, self._looks[some.rows], stored.looks(look.bytes))
            by_look[places] = np.where(judged.counts & stored.there, judged.distances, NO_DISTANCE)
        return by_look

    def repeats(self, matches: Matches) -> Iterator[tuple[Matches, _Judged]]:
        """Visible entries filed aside that equal these matches, in portions, and their judgement.

        A match's equals are read in arrival order until one that counts has the least possible distance.
        """
        if not len(matches) or not self._transaction.count(Table.REPEATS):
            return
        stored = log.documents(self._transaction, matches.numbers, self._words)
        keys = pack_fingerprints(stored.fingerprints)
        # Each step reads the next equals for every unsettled match: 0 to 64, 64 to 256, 256 to 1,024, and so on.
        left, begin, end = np.flatnonzero(stored.there), 0, REPEATS_AT_ONCE
        while len(left):
            unsettled = [left[:0]]
            step = max(1, LOOKS_AT_ONCE // (end - begin))
            for some in (left[start : start + step] for start in range(0, len(left), step)):
                numbers, counts = _aside(self._transaction, keys, some, begin, end)
                of_match = np.repeat(some, counts)
                equals = Matches(matches.rows[of_match], matches.distances[of_match], numbers)
                visible = self._visibility.visible(equals.numbers)
                equals, of_match = equals.take(visible), of_match[visible]
                judged = self.judged(equals)
                yield equals, judged
                settled = of_match[judged.distances == self.least(equals.distances)]
                unsettled.append(some[(counts == end - begin) & ~np.isin(some, settled)])
            left, begin, end = np.concatenate(unsettled), end, 4 * end


def _equal_rows(matches: Matches, count: int) -> npt.NDArray[np.bool_]:
    equal = np.zeros(count, np.bool_)
    equal[matches.rows[matches.distances == 0]] = True
    return equal


def _repeats(session: ReadSession, matches: Matches, limit: int) -> Matches:
    """Entries filed aside that equal these matches, at most `limit` per match."""
    transaction = session.transaction
    if not len(matches) or not transaction.count(Table.REPEATS):
        return no_matches()
    stored = log.documents(transaction, matches.numbers, session.words)
    logged = np.flatnonzero(stored.there)
    numbers, counts = _aside(transaction, pack_fingerprints(stored.fingerprints), logged, 0, limit)
    of_match = np.repeat(logged, counts)
    return Matches(matches.rows[of_match], matches.distances[of_match], numbers)


def _aside(
    transaction: Transaction, keys: Sequence[bytes], places: npt.NDArray[np.int64], begin: int, end: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Entries filed aside under the keys at n places, in arrival order from `begin` to `end`: numbers, and n counts."""
    asked = [keys[place] for place in places.tolist()]
    of_keys = {key: unpack_numbers(transaction.first_values(Table.REPEATS, key, end)[begin:]) for key in {*asked}}
    each = [np.empty(0, np.uint64), *(of_keys[key] for key in asked)]
    return np.concatenate(each), np.fromiter(map(len, each[1:]), np.int64, len(places))
