"""Pages crawled again: documents whose id is known with another text.

The older version of a document is what the last record with its id was, or resembled: a visible entry with this id that
stands for itself. Where that record was a duplicate of another document, the record before it counts, and so on. All of them
may stand in the same batch.

The nearest entry decides, as ever; only that the older version, where it is as near as any, counts before all others:

- Nothing is near, or the older version is the nearest, or stands for what is the nearest: an equal text is a DUPLICATE of it,
  another text is an UPDATE, which replaces it. With "as-new" it is UNIQUE, and both stay.
- Another document is nearer: the text is a DUPLICATE of that one, and the older version stays, as nothing replaced it.

Equal are texts whose fingerprints and second looks are: the index knows no more of them.

An update changes what later rows of its batch may match. So rows are decided one after the other here; `rule` decides the
batches in which no id is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.find import stand_for_ids, standing
from index.decide.prepare import Prepared
from index.decide.rule import Matched, Outcome
from index.entry import NO_DISTANCE, NO_NUMBER, Kind, Verdict
from index.frames.rule import NONE, FrameRule
from index.session import ReadSession
from index.storage import log

Again = Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint64]], Matched]
"""Looks rows, int64 [m], up once more, without entries that are gone meanwhile: uint64 [g]."""

_Columns = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]
"""Kinds, fingerprints and looks."""

_NO_NUMBER = int(NO_NUMBER)


@dataclass(frozen=True, slots=True)
class Versions:
    """Older versions of n rows.

    keys     int64 [n], equal for rows with the same id; -1 where the id says nothing
    numbers  uint64 [n], number of the older version in the index, NO_NUMBER where there is none
    """

    keys: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint64]


def versions_of(session: ReadSession, portion: Prepared) -> Versions | None:
    """Older versions of the rows; None where ids make no difference: by the policy, or as none is known and none repeats."""
    if session.recrawl.policy == "duplicate":
        return None
    entries = portion.entries
    decided = (entries.kinds == Kind.NEAR) | (entries.kinds == Kind.EXACT)
    if entries.named is not None:
        decided &= entries.named
    rows = np.flatnonzero(decided)
    ids = [entries.ids[row] for row in rows.tolist()]
    distinct = list(dict.fromkeys(filter(None, ids)))
    of_keys = standing(session, distinct)
    if len(distinct) == len(ids) - ids.count("") and (of_keys == NO_NUMBER).all():
        return None
    key_of = {id_: key for key, id_ in enumerate(distinct)}
    keys = np.full(len(entries), -1, np.int64)
    keys[rows] = [key_of.get(id_, -1) for id_ in ids]
    return Versions(keys, np.where(keys >= 0, np.append(of_keys, NO_NUMBER)[keys], NO_NUMBER))


def decide_versions(
    session: ReadSession,
    portion: Prepared,
    matched: Matched,
    versions: Versions,
    next_number: int,
    again: Again,
    framed: FrameRule | None = None,
) -> Outcome:
    """Decide rows in order, as `rule.decide`, some of which have older versions.

    framed  knows of all that NEAR rows resemble, where frames are learnt
    """
    # The pairs prepared are the nearest of each row alone; an update may let others count.
    anew = session.parameters.insert == "all" and session.parameters.look is None and not portion.alone
    pairs = _pairs_of(portion, matched, anew=anew)
    walk = _Walk(session, portion, matched, versions, again, pairs, framed)
    for row in np.flatnonzero(portion.entries.kinds <= Kind.EXACT).tolist():
        walk.decide(row)
        if portion.alone:
            walk.forget()
    return walk.outcome(next_number)


class _Match(NamedTuple):
    """What a row resembles.

    distance     to the match
    told         distance that the verdict tells: with insert = "root" that to the root
    root_row     row of the match's root, -1 where it stands in the index
    root_number  its number, NO_NUMBER where it is a row
    """

    distance: int
    told: int
    root_row: int
    root_number: int


class _Own(NamedTuple):
    """The older version of a row.

    row       its row, -1 where it stands in the index
    number    its number, NO_NUMBER where it is a row
    equal     whether it has the same text
    near      whether it would count as a match
    distance  NO_DISTANCE where the two cannot be compared
    """

    row: int
    number: int
    equal: bool
    near: bool
    distance: int


class _Walk:
    """Rows decided so far, and what of the index and of them counts no more."""

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
        self._parameters = session.parameters
        self._framed = framed
        self._replaces = session.recrawl.policy == "update"
        self._again = again
        self._keys, self._versions = versions.keys.tolist(), versions.numbers.tolist()
        self._texts = _Texts(session, portion, versions.numbers)
        count = len(portion.rows)
        self._distances, self._originals = matched.distances.copy(), matched.originals.copy()
        self._kinds = matched.kinds
        self._leaders = self._texts.leaders(matched)
        self._pairs = pairs
        self._alive: dict[int, list[int]] = {}
        self._newest: dict[int, tuple[int, int]] = {}
        self._repeated = np.bincount(versions.keys[versions.keys >= 0]) > 1
        self._gone_rows, self._gone_numbers = set[int](), set[int]()
        self._verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
        self._verdicts[matched.kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
        self._verdicts[matched.kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
        self._told = np.full(count, NO_DISTANCE, np.int16)
        self._entering = np.zeros(count, np.bool_)
        self._root_rows, self._root_numbers = np.full(count, -1, np.int64), np.full(count, NO_NUMBER, np.uint64)
        self._replaced_rows, self._replaced = np.full(count, -1, np.int64), np.full(count, NO_NUMBER, np.uint64)
        self._recrawled = np.zeros(count, np.bool_)

    def decide(self, row: int) -> None:
        """Decide the next row."""
        if self._framed is not None and self._kinds[row] == Kind.NEAR:
            self._decide_framed(row, self._framed)
            return
        match, own = self._match(row), self._own(row)
        if own is not None and _decides(own, match):
            if own.equal:
                self._enter_duplicate(row, _Match(0, max(own.distance, 0), own.row, own.number))
            else:
                self._enter_version(row, own)
        elif match is not None:
            self._enter_duplicate(row, match)
        else:
            self._enter(row)

    def _decide_framed(self, row: int, framed: FrameRule) -> None:
        """Decide a NEAR row, where frames are learnt."""
        sight = framed.look(row)
        match, root = None, row
        if sight.match != NONE:
            root = int(framed.gallery.columns.roots[sight.match])
            match = _Match(sight.nearest, sight.told, *self._where(framed, root))
        own = self._own(row)
        if own is not None and _decides(own, match):
            if own.equal:
                self._enter_duplicate(row, _Match(0, max(own.distance, 0), own.row, own.number))
            else:
                self._enter_version(row, own)
                framed.conclude(row, row, entering=True)
            return
        if match is not None:
            self._enter_duplicate(row, match, plain=sight.plain)
        else:
            if sight.failed != NONE:
                self._verdicts[row], self._told[row] = Verdict.TEMPLATE, sight.told
                of_failed = int(framed.gallery.columns.roots[sight.failed])
                self._root_rows[row], self._root_numbers[row] = self._where(framed, of_failed)
            self._enter(row)
        framed.conclude(row, root, entering=bool(self._entering[row]))

    def _where(self, framed: FrameRule, root: int) -> tuple[int, int]:
        """Row and number of a root, by its place in the gallery."""
        return (root, _NO_NUMBER) if root < len(self._verdicts) else (-1, int(framed.gallery.columns.order[root]))

    def forget(self) -> None:
        """Let the next row be decided as if it were the first."""
        self._gone_numbers.clear()
        self._newest.clear()
        if self._framed is not None:
            self._framed.forget()

    def _enter(self, row: int) -> None:
        """Let a row that stands for itself become an entry."""
        self._entering[row] = True
        self._alive.setdefault(self._leaders[row], []).append(row)
        if self._keys[row] >= 0:
            self._newest[self._keys[row]] = row, _NO_NUMBER

    def _enter_version(self, row: int, own: _Own) -> None:
        """Decide a row that is another version of an entry."""
        if self._replaces:
            self._verdicts[row], self._told[row] = Verdict.UPDATE, own.distance
            self._replaced_rows[row], self._replaced[row] = own.row, own.number
            if own.row >= 0:
                self._gone_rows.add(own.row)
                self._alive[self._leaders[own.row]].remove(own.row)
            else:
                self._gone_numbers.add(own.number)
            if self._framed is not None:
                self._framed.retire(own.row, own.number)
        else:
            self._recrawled[row] = True
        self._enter(row)

    def _enter_duplicate(self, row: int, match: _Match, plain: int | None = None) -> None:
        """Decide a row that is a duplicate; plain: distance to its match without frames, where it is another."""
        self._verdicts[row], self._told[row] = Verdict.DUPLICATE, match.told
        self._root_rows[row], self._root_numbers[row] = match.root_row, match.root_number
        root = self._parameters.root
        enters = self._parameters.insert == "all"
        if root is not None and self._kinds[row] == Kind.NEAR:
            enters = (match.distance if plain is None else plain) > root.apart
        if enters:
            self._entering[row] = True
            self._alive.setdefault(self._leaders[row], []).append(row)
        if self._keys[row] >= 0 and self._repeated[self._keys[row]] and self._is_version(row, match):
            self._newest[self._keys[row]] = match.root_row, match.root_number

    def _is_version(self, row: int, match: _Match) -> bool:
        """Whether the root of a row's match stands for itself and has the same id."""
        if match.root_row >= 0:
            stands = Verdict(int(self._verdicts[match.root_row])).stands_for_itself
            return stands and self._keys[match.root_row] == self._keys[row]
        return self._texts.has_id_of(row, match.root_number)

    def _match(self, row: int) -> _Match | None:
        """What the row resembles: an earlier row only where it is nearer than any entry of the index."""
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
        """Earlier rows equal to a row that are entries; the first of them, where all of them count alike."""
        alive = self._alive.get(leader, [])
        if self._parameters.root is None:
            return alive[:1]
        return [row for row in alive if not self._is_gone(*self._root(row))]

    def _root(self, row: int) -> tuple[int, int]:
        """Row and number of what an earlier row stands for: itself, where it stands for itself or its root is gone."""
        if self._verdicts[row] != Verdict.DUPLICATE:
            return row, _NO_NUMBER
        root = int(self._root_rows[row]), int(self._root_numbers[row])
        return (row, _NO_NUMBER) if self._parameters.insert == "all" and self._is_gone(*root) else root

    def _is_gone(self, row: int, number: int) -> bool:
        return row in self._gone_rows or number in self._gone_numbers

    def _told_to(self, row: int, root_row: int, root_number: int, distance: int) -> int:
        """Distance that a verdict tells of a match at a distance; NO_DISTANCE where its root is too far."""
        if self._parameters.root is None or self._kinds[row] == Kind.EXACT:
            return distance
        return self._texts.to_root(row, root_row, root_number)

    def _look_up_again(self, row: int) -> None:
        """Look up this row and all later ones whose match stands for what is gone."""
        gone = np.fromiter(self._gone_numbers, np.uint64)
        rows = row + np.flatnonzero(np.isin(self._originals[row:], gone))
        matched = self._again(rows, gone)
        self._distances[rows], self._originals[rows] = matched.distances, matched.originals

    def _own(self, row: int) -> _Own | None:
        """The older version of a row."""
        earlier, number = self._newest.get(self._keys[row], (-1, self._versions[row]))
        if earlier >= 0:
            return _Own(earlier, _NO_NUMBER, *self._texts.compared(row, earlier))
        if number == _NO_NUMBER or number in self._gone_numbers:
            return None
        return _Own(-1, number, *self._texts.to_document(row, number))

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
        )


def _decides(own: _Own, match: _Match | None) -> bool:
    """Whether the older version decides on a row, and not what it resembles."""
    if match is None or (match.root_row, match.root_number) == (own.row, own.number):
        return True
    return own.equal or (own.near and own.distance <= match.distance)


def _pairs_of(portion: Prepared, matched: Matched, *, anew: bool) -> dict[int, list[tuple[int, int]]]:
    """Distances and earlier rows that each row matches; of equal earlier rows the first. anew: not those prepared."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    found = matched.pairs
    rows, earlier = found.rows, found.numbers.astype(np.int64)
    if anew:
        found, _ = portion.lookup.pairs(nearest_only=False)
        rows, earlier = portion.near[found.rows], portion.near[found.numbers.astype(np.int64)]
    for row, distance, before in zip(rows.tolist(), found.distances.tolist(), earlier.tolist(), strict=True):
        pairs.setdefault(row, []).append((distance, before))
    for row in portion.exact.tolist():
        if matched.firsts[row] < row:
            pairs[row] = [(0, int(matched.firsts[row]))]
    return pairs


class _Texts:
    """What is known of the texts of rows, and of documents in the index, to compare them by."""

    def __init__(self, session: ReadSession, portion: Prepared, versions: npt.NDArray[np.uint64]) -> None:
        self._session = session
        self._parameters = session.parameters
        self._kinds, self._ids = portion.entries.kinds, portion.entries.ids
        self._fingerprints, self._looks = portion.entries.fingerprints, portion.entries.look_rows
        self._documents: dict[int, _Columns] = {}
        rows = np.flatnonzero(versions != NO_NUMBER)
        distinct, inverse = np.unique(versions[rows], return_inverse=True)
        kinds, fingerprints, looks = _stored(session, distinct)
        columns = self._compared(rows, kinds[inverse], fingerprints[inverse], looks[inverse])
        compared = zip(*(column.tolist() for column in columns), strict=True)
        pairs = zip(rows.tolist(), versions[rows].tolist(), strict=True)
        self._to_documents = dict(zip(pairs, compared, strict=True))

    def leaders(self, matched: Matched) -> list[int]:
        """The first row equal to each row, as the pairs of `Lookup.pairs` name rows."""
        leaders = np.arange(len(self._kinds))
        exact = self._kinds == Kind.EXACT
        leaders[exact] = matched.firsts[exact]
        first: dict[bytes, int] = {}
        for row in np.flatnonzero(self._kinds == Kind.NEAR).tolist():
            text = self._fingerprints[row].tobytes() + self._looks[row].tobytes()
            leaders[row] = first.setdefault(text, row)
        return leaders.tolist()

    def compared(self, row: int, other: int) -> tuple[bool, bool, int]:
        """Whether a row equals another one, whether it would match it, and at which distance."""
        others = slice(other, other + 1)
        columns = self._compared(np.array([row]), self._kinds[others], self._fingerprints[others], self._looks[others])
        return bool(columns[0][0]), bool(columns[1][0]), int(columns[2][0])

    def to_document(self, row: int, number: int) -> tuple[bool, bool, int]:
        """As `compared`, with a document in the index."""
        if (row, number) not in self._to_documents:
            columns = self._compared(np.array([row]), *self._document(number))
            self._to_documents[row, number] = bool(columns[0][0]), bool(columns[1][0]), int(columns[2][0])
        return self._to_documents[row, number]

    def has_id_of(self, row: int, number: int) -> bool:
        """Whether a visible document in the index has the id of a row, and stands for itself."""
        return bool(stand_for_ids(self._session, np.array([number], np.uint64), [self._ids[row]])[0])

    def _document(self, number: int) -> _Columns:
        if number not in self._documents:
            self._documents[number] = _stored(self._session, np.array([number], np.uint64))
        return self._documents[number]

    def _compared(
        self,
        rows: npt.NDArray[np.int64],
        kinds: npt.NDArray[np.uint8],
        fingerprints: npt.NDArray[np.uint64],
        looks: npt.NDArray[np.uint8],
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.int16]]:
        """Rows int64 [m] and other texts: equal bool [m], near bool [m], distance int16 [m], NO_DISTANCE unless both are NEAR."""
        own, own_looks = self._fingerprints[rows], self._looks[rows]
        of_kind = self._kinds[rows] == kinds
        both_near = of_kind & (kinds == Kind.NEAR)
        # A text is the same in another frame.
        words = self._parameters.words
        equal = of_kind & (own[:, :words] == fingerprints[:, :words]).all(axis=1)
        equal &= ~both_near | (own_looks == looks).all(axis=1)
        distances = self._parameters.distances(own, fingerprints)
        near = both_near & (distances <= self._parameters.distance_max)
        if self._parameters.look is not None and len(rows):
            judged = self._parameters.look.judge(distances, own_looks, looks)
            distances, near = judged.distances, near & judged.counts
        return equal, near, np.where(both_near, distances, NO_DISTANCE).astype(np.int16)

    def to_root(self, row: int, root_row: int, root_number: int) -> int:
        """Distance of a NEAR row to a root, as `Parameters.root_distances`."""
        if root_row >= 0:
            fingerprint, look = self._fingerprints[root_row], self._looks[root_row]
        else:
            _, (fingerprint,), (look,) = self._document(root_number)
        own = slice(row, row + 1)
        return int(
            self._parameters.root_distances(self._fingerprints[own], fingerprint[None], self._looks[own], look[None])[0]
        )


def _stored(session: ReadSession, numbers: npt.NDArray[np.uint64]) -> _Columns:
    """Kinds, uint8 [n], fingerprints, uint64 [n, words], and looks, uint8 [n, look bytes], of documents in the log.

    numbers  uint64 [n], ascending and distinct
    """
    kinds = np.zeros(len(numbers), np.uint8)
    fingerprints = np.zeros((len(numbers), session.words), np.uint64)
    looks = np.zeros((len(numbers), session.parameters.look_bytes), np.uint8)
    for batch, documents, places in log.holding(session.transaction, numbers, session.words):
        kinds[places] = batch.rows["kind"][batch.entered()[documents]]
        fingerprints[places] = batch.fingerprints[documents]
        if looks.shape[1]:
            looks[places] = batch.lines.looks[documents]
    return kinds, fingerprints, looks
