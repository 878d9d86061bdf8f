"""Pages crawled again: documents with a known id and host but another text.

`index.versions.history` defines versions. The current version is the delivered one that the document's last record was
or repeated, if it still counts. A version dropped as a copy of another document is known by that document. A record is,
in this order:

1. A DUPLICATE of the current version if the texts are equal.
2. Minor if its substance equals that of the current or the last version: only counters and dates differ.
3. An UPDATE, which replaces the current version, if no other document is nearer than the last or the current version.
   With "as-new" it is UNIQUE and both stay. Beyond `Recrawl.history` returns to an earlier substance it is minor.
4. Otherwise decided by the rule on its text; the current version stays.

A minor version is a DUPLICATE of its counterpart, or decided as in 3, by `Recrawl.minor`.

An update changes the matches of later rows in its batch. So a row's versions give a plan before the walk of `rule`,
which follows it unless a match prevents it. The walk stops only at documents that come several times in the batch, and
at copies of a document that the batch replaced.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.decide.rule import WATCHED, Walk
from index.entry import NO_DISTANCE, Kind, Verdict
from index.kernels.minhash import BY_RULE
from index.lsm.lookup import first_of_equals, with_looks
from index.matching.candidates import ROW_ORDER
from index.matching.distance import Matches, joined
from index.matching.outcome import MINOR, RECRAWLED, Outcome
from index.session import ReadSession
from index.versions.history import History, Versions, delivered, latest_versions
from index.versions.texts import Texts, add_documents

_RETURNS_MAX = 255


def decide_versions(
    session: ReadSession, portion: Prepared, walk: Walk, versions: Versions, next_number: int, *, with_texts: bool
) -> Outcome:
    """Decide rows in order, as `Walk.decide`, if some have older versions."""
    deciding = _Versions(session, portion, walk, versions, with_texts=with_texts)
    return deciding.completed(walk.decide(next_number, deciding.stops, deciding.decide))


def pairs_of_versions(session: ReadSession, portion: Prepared) -> Matches:
    """All matches among the rows, beyond `Prepared.pairs`: once a row is replaced, rows equal or farther may count."""
    pairs, entries = portion.pairs, portion.entries
    if session.parameters.insert == "all" and session.parameters.look is None and not portion.alone:
        among, _ = portion.lookup.pairs(nearest_only=False)
        earlier = portion.near[among.numbers.astype(np.int64)].astype(np.uint64)
        of_exact = pairs.take(entries.kinds[pairs.rows] == Kind.EXACT)
        pairs = joined([Matches(portion.near[among.rows], among.distances, earlier), of_exact])
    # Rows 0, 1 and 2 are equal and pair with row 0 alone: row 2 gets row 1, too. With leaders [0, 0, 0, 3, 4],
    # members are [0, 1, 2, 18, 24]: leader 0 has members from 0 up to its pair's row, here [0, 1].
    leaders, count = portion.firsts.copy(), len(entries)
    texts = with_looks(entries.fingerprints[portion.near], entries.look_rows[portion.near])
    leaders[portion.near] = portion.near[first_of_equals(texts)]
    members = np.sort(leaders * count + np.arange(count))
    leaders = leaders[pairs.numbers.astype(np.int64)] * count
    begins, ends = np.searchsorted(members, leaders), np.searchsorted(members, leaders + pairs.rows)
    lengths = ends - begins
    of_pairs = np.repeat(np.arange(len(pairs)), lengths)
    within = np.arange(len(of_pairs)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    earlier = (members[begins[of_pairs] + within] % count).astype(np.uint64) if count else pairs.numbers
    return Matches(pairs.rows[of_pairs], pairs.distances[of_pairs], earlier)


class _Older(NamedTuple):
    """A version, by the document (its `CandidateSet` order) that it is or duplicated; digests of its text and substance."""

    order: int
    digests: tuple[int, int]


@dataclass(slots=True)
class _Page:
    """Known versions of a document, before the next row.

    dropped     whether `last` is known by a document with another key
    visible     whether its document was visible before the batch, or is in it
    origin      `last`'s origin or row, as an update names it
    standing    the current version
    returns     how often it has returned to an earlier substance
    substances  of the known versions
    whole       whether `standing` and `substances` cover all versions
    """

    last: _Older
    dropped: bool
    visible: bool
    origin: tuple[str, int, int, int] | int
    standing: _Older | None
    returns: int
    substances: set[int]
    whole: bool


class _Versions:
    """Plans for `Walk.versions`. The walk stops at `stops`, bool [n]: rows whose document comes several times."""

    def __init__(
        self, session: ReadSession, portion: Prepared, walk: Walk, versions: Versions, *, with_texts: bool
    ) -> None:
        self._session, self._recrawl, self._with_texts = session, session.opened.recrawl, with_texts
        walk.versions = walk.versions._replace(replacing=not portion.alone)
        self._walk, self._candidates, self._rows, self._columns = walk, walk.documents, walk.rows, walk.versions
        self._versions, self._keys = versions, versions.of_rows.tolist()
        assert portion.entries.digests is not None
        self._digests = portion.entries.digests
        self._texts = Texts(session, portion.entries, versions)
        self._places: dict[int, int] = {}
        self._add(self._texts.numbers)
        self._pages: dict[int, _Page] = {}
        keyed = versions.of_rows >= 0
        # In a check no row sees another.
        self.stops = keyed & (not portion.alone)
        self.stops[keyed] &= (np.bincount(versions.of_rows[keyed]) > 1)[versions.of_rows[keyed]]
        self._kinds, self._returns = np.zeros((2, len(keyed)), np.uint8)
        self._returns_by_rule = self._returns.copy()
        self._former: dict[int, tuple[str, int, int, int] | int] = {}
        for row in np.flatnonzero(keyed & ~self.stops).tolist():
            self._plan(row)

    def decide(self, row: int) -> None:
        """Decide a row that the walk leaves to its caller."""
        page = self._plan(row)
        self._walk.conclude(row)
        if self.stops[row]:
            self._note(row, page)

    def _page(self, row: int) -> _Page | None:
        """Known versions of a row's document; None for a new one."""
        key = self._keys[row]
        if key < 0 or key in self._pages or (known := self._versions.known[key]) is None:
            return self._pages.get(key)
        last, id_ = known.last, self._versions.keys[key][0]
        of_last, origin = _Older(last.number, (last.text, last.substance)), (id_, *last.source, last.offset)
        whole = bool(self._versions.whole[key])
        page = _Page(of_last, not last.own, last.visible, origin, None, last.returns, set(), whole)
        self._take(page, known)
        # Other pages come once.
        if self.stops[row]:
            self._pages[key] = page
        return page

    def _take(self, page: _Page, known: History) -> None:
        page.substances |= known.substances
        current = known.standing
        if page.standing is None and current is not None:
            page.standing = _Older(current.number, current.delivered)

    def _complete(self, row: int, page: _Page) -> None:
        if not page.whole:
            (known,) = latest_versions(self._session, [self._versions.keys[self._keys[row]]])
            assert known is not None, "the last version is among the latest"
            self._take(page, known)
            page.whole = True

    def _plan(self, row: int) -> _Page | None:
        """Set what the versions of a row's document decide. Returns its page."""
        columns, page = self._columns, self._page(row)
        columns.verdicts[row], columns.nearest[row], self._kinds[row] = BY_RULE, NO_DISTANCE, 0
        if page is None:
            return page
        (text, substance), last = self._digests[row].tolist(), page.last
        self._returns[row] = self._returns_by_rule[row] = page.returns
        if page.dropped:
            columns.others[row] = self._place(last)
        visible = page.dropped and page.visible and not self._candidates.is_lost(columns.others[row])
        # A copy of the last version, dropped for another document: the rule finds that document again.
        if visible and last.digests[0] == text:
            return page
        if page.standing is None:
            self._complete(row, page)
        current, same = page.standing, page.dropped and last.digests[1] == substance
        if current is not None and current.digests[0] == text:
            self._set(row, Verdict.DUPLICATE, current)
            columns.distances[row] = max(columns.distances[row], 0)
        elif current is not None and current.digests[1] == substance:
            self._plan_minor(row, page, current)
        elif same and visible:
            self._plan_minor(row, page, last)
        elif older := [each for each in (last if page.dropped and not same else None, current) if each is not None]:
            self._complete(row, page)
            named, returns = current or (last if visible else None), substance in page.substances
            if returns and page.returns >= self._recrawl.history and named is not None:
                self._plan_minor(row, page, named)
            else:
                # Substances A, B, A: the third record returns once. A substance C ends the count.
                self._returns[row] = min(page.returns + 1, _RETURNS_MAX) if returns else 0
                self._plan_version(row, page)
            compared = (self._texts.compared(row, each.order) for each in older)
            columns.nearest[row] = min(distance if near else WATCHED for near, distance in compared)
        return page

    def _plan_minor(self, row: int, page: _Page, older: _Older) -> None:
        self._kinds[row] = MINOR
        if self._recrawl.minor == "unique":
            self._plan_version(row, page)
        else:
            self._set(row, Verdict.DUPLICATE, older)

    def _plan_version(self, row: int, page: _Page) -> None:
        """Let a row be another version: an entry by default."""
        if self._recrawl.policy != "update":
            self._kinds[row] = max(self._kinds[row], RECRAWLED)
        if page.standing is None:
            self._former[row] = page.origin
        self._set(row, Verdict.UPDATE if self._recrawl.policy == "update" else Verdict.UNIQUE, page.standing)

    def _set(self, row: int, verdict: Verdict, older: _Older | None) -> None:
        columns = self._columns
        columns.verdicts[row], columns.places[row], columns.distances[row] = verdict, row, NO_DISTANCE
        if older is not None:
            columns.places[row], columns.distances[row] = self._place(older), self._texts.compared(row, older.order)[1]

    def _place(self, older: _Older) -> int:
        if older.order >= ROW_ORDER:
            return older.order - ROW_ORDER
        if older.order not in self._places:
            self._add(np.array([older.order], np.uint64))
        return self._places[older.order]

    def _add(self, numbers: npt.NDArray[np.uint64]) -> None:
        """Let indexed documents, uint64 [m], take part."""
        add_documents(self._session, self._candidates, numbers, with_texts=self._with_texts)
        self._places.update(zip(numbers.tolist(), self._candidates.places(numbers).tolist(), strict=True))

    def _note(self, row: int, page: _Page | None) -> None:
        """Note a decided row as its document's last version."""
        digests, place = tuple(self._digests[row].tolist()), row
        if not Verdict(int(self._rows.verdicts[row])).stands_for_itself:
            # A duplicate's version is known by the document that it names.
            place = int(self._rows.named[row])
        last = _Older(int(self._candidates.columns.order[place]), digests)
        if page is None:
            page = self._pages[self._keys[row]] = _Page(last, False, True, row, None, 0, set(), True)
        if self._columns.decided[row]:
            page.returns = int(self._returns[row])
        page.last, page.origin, page.visible = last, row, True
        delivered = self._delivered(row, last)
        page.dropped = delivered is None
        page.substances.add(digests[1])
        page.standing = delivered or page.standing

    def _delivered(self, row: int, older: _Older) -> _Older | None:
        """The original with the row's own key that the row is or duplicates, with its digests; else None."""
        other = older.order - ROW_ORDER
        if other >= 0:
            stands = Verdict(int(self._rows.verdicts[other])).stands_for_itself
            own = stands and bool(self._keys[other] == self._keys[row])
            return older._replace(digests=tuple(self._digests[other].tolist())) if own else None
        digests = delivered(self._session, older.order, self._versions.keys[self._keys[row]])
        return None if digests is None else older._replace(digests=digests)

    def completed(self, outcome: Outcome) -> Outcome:
        """The walk's outcome with the columns on versions."""
        decided = self._columns.decided
        former = {row: each for row, each in self._former.items() if outcome.verdicts[row] == Verdict.UPDATE}
        returns = np.where(decided, self._returns, self._returns_by_rule)
        return replace(outcome, former=former, versions=self._kinds * decided, returns=returns)
