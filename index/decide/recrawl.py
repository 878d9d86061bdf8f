"""Pages crawled again: documents with a known id and host but another text.

`index.versions.history` defines a document's versions. The current version is the delivered one that the document's
last record was or repeated, if it still counts. A version dropped as a copy of another document is known by that
document. A record is, in this order:

1. A DUPLICATE of the current version if the texts are equal.
2. Minor if its substance equals that of the current or the last version: only digits of counters and dates differ.
3. An UPDATE if nothing is near, or if the last or the current version is as near as any other document. It replaces the
   current version. With "as-new" it is UNIQUE and both stay. A document that returns to an earlier substance too often is
   minor.
4. Otherwise decided by the rule on its text. The current version stays, as nothing replaced it.

A minor version is a DUPLICATE of its counterpart, or decided as in 3, by `Recrawl.minor`.

An update changes the matches of later rows in its batch, so this module decides rows one by one. `rule` decides the
batches without a known id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.prepare import Prepared
from index.decide.rule import Matched, Outcome
from index.entry import NO_DISTANCE, NO_NUMBER, Kind, Verdict
from index.frames.rule import NONE, FrameRule
from index.kernels.minhash import Sight
from index.session import ReadSession
from index.storage.log import Origin
from index.versions.history import Version, Versions, latest_versions
from index.versions.texts import Texts

Again = Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint64]], Matched]
"""Looks rows, int64 [m], up again, without entries that are gone meanwhile, uint64 [g]."""

_NO_NUMBER = int(NO_NUMBER)
_RETURNS_MAX = 255


def decide_versions(
    session: ReadSession,
    portion: Prepared,
    matched: Matched,
    versions: Versions,
    next_number: int,
    again: Again,
    framed: FrameRule | None = None,
) -> Outcome:
    """Decide rows in order, as `rule.decide`, if some have older versions.

    framed  candidates of NEAR rows, with learnt frames
    """
    # The prepared pairs are the nearest of each row alone; an update may let others count.
    ignores_prepared = session.parameters.insert == "all" and session.parameters.look is None and not portion.alone
    pairs = _pairs_of(portion, matched, ignores_prepared=ignores_prepared)
    walk = _Walk(session, portion, matched, versions, again, pairs, framed)
    for row in np.flatnonzero(portion.entries.kinds <= Kind.EXACT).tolist():
        walk.decide(row)
        if portion.alone:
            walk.forget()
    return walk.outcome(next_number)


class _Match(NamedTuple):
    """Match of a row.

    distance     to the match
    told         distance in the verdict: with insert = "root" that to the root
    root_row     row of the match's root, -1 if it is in the index
    root_number  its number, NO_NUMBER if it is a row
    """

    distance: int
    told: int
    root_row: int
    root_number: int


class _Older(NamedTuple):
    """A version of a document, by the document that it is or was a duplicate of.

    row      row of that document, -1 if it is in the index
    number   its number, NO_NUMBER if it is a row
    digests  of a text and its substance
    """

    row: int
    number: int
    digests: tuple[int, int]


@dataclass(slots=True)
class _Page:
    """Known versions of a document with an id, before the next row.

    last        its last version
    dropped     whether that is known by a document with another key
    origin      the last version's origin or row, as an update names it
    standing    the current version
    returns     how often it has returned to an earlier substance
    substances  of the known versions, complete if `whole`
    whole       whether `standing` and `substances` cover all versions
    """

    last: _Older
    dropped: bool
    origin: Origin | int
    standing: _Older | None
    returns: int
    substances: set[int]
    whole: bool


class _Walk:
    """Rows decided so far, and the rows and entries that no longer count."""

    def __init__(
        self,
        session: ReadSession,
        portion: Prepared,
        matched: Matched,
        versions: Versions,
        again: Again,
        pairs: dict[int, list[tuple[int, int]]],
        framed: FrameRule | None,
    ) -> None:
        self._session = session
        self._parameters, self._recrawl = session.parameters, session.recrawl
        self._framed = framed
        self._again = again
        self._versions, self._keys = versions, versions.of_rows.tolist()
        assert portion.entries.digests is not None
        self._digests = list(map(tuple, portion.entries.digests.tolist()))
        self._texts = Texts(session, portion.entries, versions)
        count = len(portion.rows)
        self._distances, self._originals = matched.distances.copy(), matched.originals.copy()
        self._kinds = matched.kinds
        self._leaders = self._texts.leaders(matched.firsts)
        self._pairs = pairs
        self._alive: dict[int, list[int]] = {}
        self._pages: dict[int, _Page] = {}
        self._repeated = np.bincount(versions.of_rows[versions.of_rows >= 0]) > 1
        self._gone_rows, self._gone_numbers = set[int](), set[int]()
        self._verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
        self._verdicts[matched.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
        self._verdicts[matched.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
        self._told = np.full(count, NO_DISTANCE, np.int16)
        self._entering = np.zeros(count, np.bool_)
        self._root_rows, self._root_numbers = np.full(count, -1, np.int64), np.full(count, NO_NUMBER, np.uint64)
        self._replaced_rows, self._replaced = np.full(count, -1, np.int64), np.full(count, NO_NUMBER, np.uint64)
        self._recrawled, self._minor = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self._former: dict[int, Origin | int] = {}
        self._returns = np.zeros(count, np.uint8)

    def decide(self, row: int) -> None:
        """Decide the next row."""
        framed = self._framed if self._kinds[row] == Kind.NEAR else None
        sight = None if framed is None else framed.look(row)
        match = self._match(row) if framed is None or sight is None else self._match_of(sight, framed)
        page = self._page(self._keys[row])
        if page is not None:
            self._returns[row] = page.returns
        if page is None or not self._decide_by_versions(row, page, match):
            if match is not None:
                self._enter_duplicate(row, match, plain=None if sight is None else sight.plain)
            else:
                if framed is not None and sight is not None and sight.failed != NONE:
                    self._verdicts[row], self._told[row] = Verdict.TEMPLATE, sight.told
                    of_failed = int(framed.gallery.columns.roots[sight.failed])
                    self._root_rows[row], self._root_numbers[row] = self._where(framed, of_failed)
                self._enter(row)
            if framed is not None and sight is not None:
                root = row if match is None else int(framed.gallery.columns.roots[sight.match])
                framed.conclude(row, root, entering=bool(self._entering[row]))
        elif framed is not None and self._verdicts[row] != Verdict.DUPLICATE:
            framed.conclude(row, row, entering=True)
        if self._keys[row] >= 0 and self._repeated[self._keys[row]]:
            self._note(row, page)

    def _match_of(self, sight: Sight, framed: FrameRule) -> _Match | None:
        """Match of a row, with learnt frames."""
        if sight.match == NONE:
            return None
        root = int(framed.gallery.columns.roots[sight.match])
        return _Match(sight.nearest, sight.told, *self._where(framed, root))

    def _where(self, framed: FrameRule, root: int) -> tuple[int, int]:
        """Row and number of a root, by its place in the gallery."""
        return (root, _NO_NUMBER) if root < len(self._verdicts) else (-1, int(framed.gallery.columns.order[root]))

    def forget(self) -> None:
        """Decide the next row as if it were the first."""
        self._gone_numbers.clear()
        self._pages.clear()
        if self._framed is not None:
            self._framed.forget()

    def _page(self, key: int) -> _Page | None:
        """Known versions for a key; None for a new document."""
        if key < 0:
            return None
        if key not in self._pages and self._versions.known[key]:
            last, *_ = versions = self._versions.known[key]
            of_last = _Older(-1, last.number, (last.text, last.substance))
            page = _Page(of_last, not last.own, last.origin, None, last.returns, set(), self._versions.whole[key])
            self._take(page, versions)
            self._pages[key] = page
        return self._pages.get(key)

    def _take(self, page: _Page, versions: list[Version]) -> None:
        """Add versions in the index to a page."""
        page.substances.update(version.substance for version in versions)
        stands = next((version for version in versions if version.stands), None)
        if page.standing is None and stands is not None and stands.number not in self._gone_numbers:
            page.standing = _Older(-1, stands.number, stands.delivered)

    def _complete(self, row: int, page: _Page) -> None:
        """Load all versions of a page, if only the last one was read."""
        if not page.whole:
            self._take(page, latest_versions(self._session, [self._versions.keys[self._keys[row]]])[0])
            page.whole = True

    def _decide_by_versions(self, row: int, page: _Page, match: _Match | None) -> bool:
        """Decide a row by its document's versions; False if they do not decide."""
        (text, substance), last = self._digests[row], page.last
        visible = page.dropped and self._is_visible(last)
        if visible and last.digests[0] == text:
            return False
        if page.standing is None:
            self._complete(row, page)
        standing = page.standing
        if standing is not None and standing.digests[0] == text:
            distance = self._compared(row, standing)[1]
            self._enter_duplicate(row, _Match(0, max(distance, 0), standing.row, standing.number))
            return True
        if standing is not None and standing.digests[1] == substance:
            self._enter_minor(row, page, standing)
            return True
        same = page.dropped and last.digests[1] == substance
        if same and visible:
            self._enter_minor(row, page, last)
            return True
        older = [each for each in (last if page.dropped and not same else None, standing) if each is not None]
        if not any(self._decides(row, each, match) for each in older):
            return False
        self._complete(row, page)
        returns = substance in page.substances
        named = standing or (last if visible else None)
        if returns and page.returns >= self._recrawl.history and named is not None:
            self._enter_minor(row, page, named)
        else:
            self._returns[row] = min(page.returns + 1, _RETURNS_MAX) if returns else 0
            self._enter_version(row, page)
        return True

    def _is_visible(self, older: _Older) -> bool:
        """Whether the document that a version is known by counts."""
        if self._is_gone(older.row, older.number):
            return False
        return older.row >= 0 or self._texts.is_visible(older.number)

    def _compared(self, row: int, older: _Older) -> tuple[bool, int]:
        """Whether a row would match the document of a version, and at which distance."""
        if older.row >= 0:
            return self._texts.compared(row, older.row)
        return self._texts.to_document(row, older.number)

    def _decides(self, row: int, older: _Older, match: _Match | None) -> bool:
        """Whether an older version, rather than the row's match, decides the row."""
        # A match at distance 3 and the current version at 3: the version decides.
        if match is None or (match.root_row, match.root_number) == (older.row, older.number):
            return True
        near, distance = self._compared(row, older)
        return near and distance <= match.distance

    def _note(self, row: int, page: _Page | None) -> None:
        """Make a decided row the last version of its document."""
        digests, key = self._digests[row], self._keys[row]
        last = _Older(row, _NO_NUMBER, digests)
        if not Verdict(int(self._verdicts[row])).stands_for_itself:
            last = _Older(int(self._root_rows[row]), int(self._root_numbers[row]), digests)
        if page is None:
            page = self._pages[key] = _Page(last, False, row, None, 0, set(), True)
        page.last, page.origin, page.returns = last, row, int(self._returns[row])
        delivered = self._delivered(row, last)
        page.dropped = delivered is None
        page.substances.add(digests[1])
        page.standing = delivered or page.standing

    def _delivered(self, row: int, older: _Older) -> _Older | None:
        """The original with the row's own key that the row is or duplicates, with its digests; None if there is none."""
        if older.row >= 0:
            stands = Verdict(int(self._verdicts[older.row])).stands_for_itself
            own = stands and bool(self._keys[older.row] == self._keys[row])
            return older._replace(digests=self._digests[older.row]) if own else None
        digests = self._texts.delivered(older.number, self._versions.keys[self._keys[row]])
        return None if digests is None else older._replace(digests=digests)

    def _enter(self, row: int) -> None:
        """Make an original an entry."""
        self._entering[row] = True
        self._alive.setdefault(self._leaders[row], []).append(row)

    def _enter_minor(self, row: int, page: _Page, older: _Older) -> None:
        """Decide a row that is a minor version of its document."""
        self._minor[row] = True
        if self._recrawl.minor == "unique":
            self._enter_version(row, page)
        else:
            self._enter_duplicate(row, _Match(0, self._compared(row, older)[1], older.row, older.number))

    def _enter_version(self, row: int, page: _Page) -> None:
        """Decide a row that is another version of its document."""
        if self._recrawl.policy == "update":
            self._verdicts[row] = Verdict.UPDATE
            if page.standing is None:
                self._former[row] = page.origin
            else:
                self._replace(row, page.standing)
        else:
            self._recrawled[row] = True
        self._enter(row)

    def _replace(self, row: int, older: _Older) -> None:
        """Replace the current version with a row that is an update."""
        self._told[row] = self._compared(row, older)[1]
        self._replaced_rows[row], self._replaced[row] = older.row, older.number
        if older.row >= 0:
            self._gone_rows.add(older.row)
            self._alive[self._leaders[older.row]].remove(older.row)
        else:
            self._gone_numbers.add(older.number)
        if self._framed is not None:
            self._framed.retire(older.row, older.number)

    def _enter_duplicate(self, row: int, match: _Match, plain: int | None = None) -> None:
        """Decide a row that is a duplicate; plain: distance to its match without frames, if different."""
        self._verdicts[row], self._told[row] = Verdict.DUPLICATE, match.told
        self._root_rows[row], self._root_numbers[row] = match.root_row, match.root_number
        root = self._parameters.root
        enters = self._parameters.insert == "all"
        if root is not None and self._kinds[row] == Kind.NEAR:
            enters = (match.distance if plain is None else plain) > root.apart
        if enters:
            self._entering[row] = True
            self._alive.setdefault(self._leaders[row], []).append(row)

    def _match(self, row: int) -> _Match | None:
        """Match of a row: an earlier row only if it is nearer than any indexed entry."""
        if int(self._originals[row]) in self._gone_numbers:
            self._look_up_again(row)
        found, number = None, int(self._originals[row])
        if number != _NO_NUMBER:
            distance = int(self._distances[row])
            found = _Match(distance, self._told_to(row, -1, number, distance), -1, number)
        candidates = [
            (distance, earlier)
            for distance, leader in self._pairs.get(row, ())
            if found is None or distance < found.distance
            for earlier in self._counting(leader)
        ]
        for distance, earlier in sorted(candidates):
            root_row, root_number = self._root(earlier)
            told = self._told_to(row, root_row, root_number, distance)
            if told != NO_DISTANCE:
                return _Match(distance, told, root_row, root_number)
        return found

    def _counting(self, leader: int) -> list[int]:
        """Entries among the earlier rows equal to a row; only the first if all count alike."""
        alive = self._alive.get(leader, [])
        if self._parameters.root is None:
            return alive[:1]
        return [row for row in alive if not self._is_gone(*self._root(row))]

    def _root(self, row: int) -> tuple[int, int]:
        """Root of an earlier row, as row and number: the row itself if it is an original or its root is gone."""
        if self._verdicts[row] != Verdict.DUPLICATE:
            return row, _NO_NUMBER
        root = int(self._root_rows[row]), int(self._root_numbers[row])
        return (row, _NO_NUMBER) if self._parameters.insert == "all" and self._is_gone(*root) else root

    def _is_gone(self, row: int, number: int) -> bool:
        return row in self._gone_rows or number in self._gone_numbers

    def _told_to(self, row: int, root_row: int, root_number: int, distance: int) -> int:
        """Distance in the verdict for a match at a distance; NO_DISTANCE if its root is too far."""
        if self._parameters.root is None or self._kinds[row] == Kind.EXACT:
            return distance
        return self._texts.to_root(row, root_row, root_number)

    def _look_up_again(self, row: int) -> None:
        """Look up this row again, and all later ones whose match is gone."""
        gone = np.fromiter(self._gone_numbers, np.uint64)
        rows = row + np.flatnonzero(np.isin(self._originals[row:], gone))
        matched = self._again(rows, gone)
        self._distances[rows], self._originals[rows] = matched.distances, matched.originals

    def outcome(self, next_number: int) -> Outcome:
        """The verdicts, once all rows are decided."""
        numbers = np.full(len(self._entering), NO_NUMBER, np.uint64)
        numbers[self._entering] = np.arange(
            next_number, next_number + np.count_nonzero(self._entering), dtype=np.uint64
        )
        duplicate = self._verdicts == Verdict.DUPLICATE
        originals = np.where(self._root_rows >= 0, numbers[self._root_rows], self._root_numbers)
        replaced = np.where(self._replaced_rows >= 0, numbers[self._replaced_rows], self._replaced)
        named = np.where(replaced != NO_NUMBER, replaced, originals)
        originals = np.where(duplicate, originals, numbers)
        return Outcome(
            self._verdicts,
            self._told,
            self._entering,
            numbers,
            originals,
            named=named,
            replaced=replaced,
            recrawled=self._recrawled,
            minor=self._minor,
            former=self._former,
            returns=self._returns,
        )


def _pairs_of(portion: Prepared, matched: Matched, *, ignores_prepared: bool) -> dict[int, list[tuple[int, int]]]:
    """Distances and earlier rows that each row matches, the first among equal earlier rows."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    found = matched.pairs
    rows, earlier = found.rows, found.numbers.astype(np.int64)
    if ignores_prepared:
        found, _ = portion.lookup.pairs(nearest_only=False)
        rows, earlier = portion.near[found.rows], portion.near[found.numbers.astype(np.int64)]
    for row, distance, before in zip(rows.tolist(), found.distances.tolist(), earlier.tolist(), strict=True):
        pairs.setdefault(row, []).append((distance, before))
    for row in portion.exact.tolist():
        if matched.firsts[row] < row:
            pairs[row] = [(0, int(matched.firsts[row]))]
    return pairs
