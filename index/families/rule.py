"""The rule where templates are learnt: from matches to verdicts, in order, for rows that resemble anything.

As insert = "root" (see `decide.rule`), and:

- A match of a family whose template is known counts only where the two are one page in spite of the template, or equal.
- A document whose matches all fail by that is TEMPLATE: unique, with the nearest of them told.
- A duplicate unequal to its match, a TEMPLATE document, and a relative vote, until their family's template is known.
- What enters a family whose template was known before it is filed by what it has of its own, and found by that.

So a document sees the entries, the votes and the templates of all documents before it, in its own batch too.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Verdict
from index.families.gallery import NOBODY, ROW_ORDER, Gallery
from index.families.own_text import OwnText
from index.families.table import add_relatives
from index.kernels import families, minhash
from index.matching.distance import Matches
from index.matching.minhash import DISTANCE_UNITS
from index.matching.template import OWN_SHARE_MIN
from index.session import ReadSession, WriteSession

TEMPLATES_A_PAGE = 4
"""Nearest templates by which the pages of a document's own text are looked up."""

ALONE_MAX = 64
"""Rows that are decided one by one, at most, before the compiled loop is tried again."""

NONE = -1


class Rows(NamedTuple):
    """Rows to decide.

    signatures  uint64 [n, words]
    near        bool [n], NEAR rows: the others play no role
    hashes      uint64 [n, bands], hashes of the bands of NEAR rows; None: each row is decided as if it came alone, and its vote
                does not count for the others
    sharing     bool [n], rows that share a band with an earlier one
    """

    signatures: npt.NDArray[np.uint64]
    near: npt.NDArray[np.bool_]
    hashes: npt.NDArray[np.uint64] | None
    sharing: npt.NDArray[np.bool_]


class Candidates(NamedTuple):
    """What a row resembles, in no promised order.

    places     int64 [m], in the gallery
    distances  int16 [m]
    """

    places: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int16]


class Sight(NamedTuple):
    """What a row resembles, and what counts of it.

    match     the match, a place in `candidates`; NONE where there is none
    failed    what would have been the first match but for the template; NONE where there is none
    """

    candidates: Candidates
    match: int
    failed: int


class _Columns(NamedTuple):
    """Verdicts on n rows, as `decide.rule.Outcome` has them, but for `roots`.

    roots  int64 [n], place of the root that a row names; the row itself where it names none
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    roots: npt.NDArray[np.int64]
    entering: npt.NDArray[np.bool_]


class FamilyRule:
    """Decision of the rows of a portion, and what is to be stored of their families."""

    def __init__(self, session: ReadSession, rows: Rows, matches: Matches) -> None:
        """Take over what resembles the rows.

        matches  documents of the index that share a band with a row, at most `Parameters.reach` away, by row
        """
        parameters, count = session.parameters, len(rows.signatures)
        assert parameters.template is not None
        assert parameters.root is not None
        self._session, self._rule, self._root = session, parameters.template, parameters.root
        self._distance_max, self._reach = parameters.distance_max, parameters.reach
        self.gallery = Gallery(session, rows.signatures)
        self.compared: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self._rows, self._matches = rows, matches
        self._match_places = self.gallery.places(matches.numbers)
        self._match_begins = np.searchsorted(matches.rows, np.arange(count + 1))
        self._own_text = OwnText(session, self.gallery)
        self._shape = minhash.Shape(self.gallery.bin_bits, DISTANCE_UNITS, OWN_SHARE_MIN)
        self._limits = families.Limits(
            parameters.distance_max,
            parameters.reach,
            self._root.distance_max,
            self._root.apart,
            self._rule.relatives_apart,
            self._rule.voters,
            self.gallery.bin_bits,
            DISTANCE_UNITS,
            int(Verdict.DUPLICATE),
        )
        self._in_bands = np.zeros(count, np.bool_)
        self._of_bands = None if rows.hashes is None else _rows_in_bands(rows.hashes)
        self._filed_to = 0
        self._equal_rows = np.empty(0, np.int64)
        self._looks = 0
        self._apart: dict[tuple[int, int], int] = {}
        self._verdicts = np.zeros(count, np.uint8)
        self._learnt: list[int] = []
        self._fetch()

    def decide(
        self,
        verdicts: npt.NDArray[np.uint8],
        distances: npt.NDArray[np.int16],
        originals: npt.NDArray[np.uint64],
        original_rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Decide, in order, the UNIQUE rows that resemble anything; changes the columns, and returns which rows enter.

        originals      uint64 [n], number of the document of the index that a row names, else NO_NUMBER
        original_rows  int64 [n], the row that it names instead, else -1
        """
        count = len(verdicts)
        outcome = _Columns(verdicts, distances, np.arange(count), verdicts == Verdict.UNIQUE)
        self._in_bands[:] = outcome.entering & self._rows.near
        resembling = self._rows.sharing.copy()
        resembling[self._matches.rows] = True
        self._walk(np.flatnonzero(resembling & outcome.entering), outcome)
        naming = np.flatnonzero(outcome.roots != np.arange(count))
        of_rows = outcome.roots[naming] < count
        original_rows[naming[of_rows]] = outcome.roots[naming[of_rows]]
        originals[naming[~of_rows]] = self.gallery.order[outcome.roots[naming[~of_rows]]]
        return outcome.entering

    def _walk(self, asked: npt.NDArray[np.int64], outcome: _Columns) -> None:
        """Decide these rows, in order: where a known template plays a role one by one, all others in a compiled loop."""
        gallery, rows = self.gallery, self._of_bands
        if rows is None:
            for row in asked.tolist():
                self._decide(row, outcome)
            return
        meeting = np.zeros(gallery.rows, np.bool_)
        meeting[self._matches.rows[gallery.known[gallery.families[self._match_places]]]] = True
        told = outcome.verdicts, outcome.distances, outcome.roots, outcome.entering
        verdicts = families.Verdicts(*told, self._in_bands, self.compared)
        at, alone, meets = 0, 1, meeting[asked].tolist()
        while at < len(asked):
            # Entering the compiled loop takes as long as many rows do in it: in vain twice as seldom the next time.
            count = 1
            if not meets[at]:
                begin, at = at, self._walk_compiled(asked, at, rows, verdicts)
                count = alone = min(2 * alone, ALONE_MAX) if at == begin else 1
            for row in asked[at : at + count].tolist():
                self._decide(row, outcome)
            at += count
        self._verdicts[asked] = outcome.verdicts[asked]

    def _walk_compiled(
        self, asked: npt.NDArray[np.int64], at: int, rows: minhash.RowsInBands, verdicts: families.Verdicts
    ) -> int:
        """Decide the rows from this place in `asked` on; gives the place of the first that meets a known template, or the end."""
        gallery, learnt = self.gallery, np.empty(len(asked), np.int64)
        of_families = gallery.of_families
        of_families.make_room(gallery.rows)
        at, self._filed_to, of_families.count, count = families.decided(
            asked,
            at,
            self._filed_to,
            self._rows.sharing,
            families.Seen(self._match_begins, self._match_places, self._matches.distances),
            rows,
            gallery.columns,
            gallery.some_are_lost,
            of_families.columns,
            of_families.count,
            verdicts,
            learnt,
            self._limits,
        )
        self._learnt += learnt[:count].tolist()
        return at

    @property
    def by_own(self) -> npt.NDArray[np.bool_]:
        """Which rows are to be filed by what they have of their own, bool [n]."""
        filed = np.zeros(self.gallery.rows, np.bool_)
        filed[list(self._own_text.filed)] = True
        return filed

    def _decide(self, row: int, outcome: _Columns) -> None:
        sight = self.look(row)
        named = sight.match if sight.match != NONE else sight.failed
        entering = sight.match == NONE or bool(sight.candidates.distances[sight.match] > self._root.apart)
        if named != NONE:
            place = int(sight.candidates.places[named])
            root = int(self.gallery.roots[place])
            outcome.roots[row] = root
            outcome.distances[row] = sight.candidates.distances[named] if root == place else self.distance_to(row, root)
            outcome.verdicts[row] = Verdict.DUPLICATE if sight.match != NONE else Verdict.TEMPLATE
        outcome.entering[row] = entering
        self.conclude(row, sight, entering=entering)

    def look(self, row: int) -> Sight:
        """What a row resembles, now that all rows before it are concluded."""
        candidates, gallery = self.candidates(row), self.gallery
        if not len(candidates.places):
            return Sight(candidates, NONE, NONE)
        needed, distance_max = int(self._own_text.needed[row]), self._distance_max
        limits = (needed, distance_max, self._root.distance_max)
        of_families = (gallery.references, gallery.known)
        return Sight(candidates, *minhash.judged(row, *candidates, gallery.columns, *of_families, *limits, self._shape))

    def distance_to(self, row: int, place: int) -> int:
        """Distance of a row to a document of the gallery."""
        return int(self.gallery.distances(row, np.array([place]))[0])

    def conclude(self, row: int, sight: Sight, *, entering: bool) -> None:
        """Let a row that was decided by what it resembles join its family, vote, and be filed."""
        gallery, candidates = self.gallery, sight.candidates
        if sight.match != NONE:
            place = int(candidates.places[sight.match])
            gallery.roots[row] = gallery.roots[place]
            family, voting = int(gallery.families[place]), bool(candidates.distances[sight.match] > 0)
            self._join(row, family, Verdict.DUPLICATE, entering=entering, voting=voting)
        elif sight.failed != NONE:
            family = int(gallery.families[candidates.places[sight.failed]])
            self._join(row, family, Verdict.TEMPLATE, entering=entering, voting=True)
        else:
            family = self._relative_of(row, self._families_of(candidates))
            self._join(row, family, Verdict.UNIQUE, entering=entering, voting=family != NONE)

    def conclude_version(self, row: int, sight: Sight, older: int) -> None:
        """Let a row that is another version of an older document enter. It does not vote: its page may have done so before.

        older  place of that document in the gallery; NONE where it has no signature
        """
        gallery = self.gallery
        families = self._families_of(sight.candidates)
        if older != NONE:
            gallery.found_families(np.array([older]))
            families.insert(0, int(gallery.families[older]))
        family = self._relative_of(row, families)
        if family != NONE and not gallery.of_families.columns.begun[family]:
            family = NONE
        self._join(row, family, Verdict.UPDATE, entering=True, voting=False)

    def retire(self, row: int, number: int) -> None:
        """Let a row, or where it is NONE a document of the index, count no more, nor what stands for it."""
        self.gallery.lose(number if row == NONE else ROW_ORDER + row)

    def forget(self) -> None:
        """Let everything count again."""
        self.gallery.regain()

    def _join(self, row: int, family: int, verdict: Verdict, *, entering: bool, voting: bool) -> None:
        self._verdicts[row] = verdict
        if family != NONE:
            self.gallery.families[row] = family
        if self._of_bands is None:
            return
        known = family != NONE and bool(self.gallery.known[family])
        if voting and not known:
            self._vote(row, family, is_duplicate=verdict == Verdict.DUPLICATE)
        if entering and known:
            self._file(row, family)
        self._in_bands[row] = entering and not self._own_text.is_filed(row)
        if family != NONE:
            self._count(row, family, verdict)

    def candidates(self, row: int) -> Candidates:
        """What shares a band with the row, and what shares some of its own text with it."""
        gallery = self.gallery
        of_index = slice(*self._match_begins[row : row + 2])
        earlier, apart = self._sharing_bands(row)
        places, distances = self._match_places[of_index], self._matches.distances[of_index]
        if len(earlier):
            gallery.found_families(earlier)
            places, distances = np.concatenate([places, earlier]), np.concatenate([distances, apart])
        # What counts no more names no family either.
        if gallery.some_are_lost:
            counting = ~(gallery.lost[places] | gallery.lost[gallery.roots[places]])
            places, distances = places[counting], distances[counting]
        families = gallery.families[places]
        known = families[gallery.known[families]]
        if not len(known):
            return Candidates(places, distances)
        nearest = self._nearest(row, sorted(set(known.tolist())))
        if not nearest:
            return Candidates(places, distances)
        (slots, *others) = (self._own_text.keys(row, family)[0] for family in nearest)
        slots = np.concatenate([slots, *others]) if others else slots
        self._looks += 1
        columns = gallery.columns
        columns.stamps[places] = self._looks
        limits = gallery.some_are_lost, self._looks, self._reach, self._shape
        found, apart, compared = minhash.sharing_own_text(row, slots, self._own_text.postings, columns, *limits)
        self.compared[row] += compared
        return Candidates(np.concatenate([places, found]), np.concatenate([distances, apart]))

    def _sharing_bands(self, row: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]:
        """Earlier rows that stand in a band of the row, int64 [m], and their distances, int16 [m]."""
        if self._of_bands is None or not self._rows.sharing[row]:
            self._equal_rows = np.empty(0, np.int64)
            return np.empty(0, np.int64), np.empty(0, np.int16)
        rows = self._filed_to, self._in_bands, self._of_bands
        self._filed_to = row
        earlier, apart, compared = minhash.sharing_bands(row, *rows, self.gallery.signatures, self._reach, self._shape)
        self.compared[row] += compared
        self._equal_rows = earlier[apart == 0]
        return earlier, apart

    def _nearest(self, row: int, families: list[int]) -> list[int]:
        """Those of these families by whose templates the pages of a row's own text are looked up, the nearest first."""
        reach = self._rule.relatives_apart
        apart = [(distance, family) for family in families if (distance := self._to_template(row, family)) <= reach]
        return [family for _, family in sorted(apart)[:TEMPLATES_A_PAGE]]

    def _to_template(self, row: int, family: int) -> int:
        """Distance of a row to a family's template."""
        if (row, family) not in self._apart:
            self._apart[row, family] = self.gallery.apart(row, family)
        return self._apart[row, family]

    def _fetch(self) -> None:
        """Take the pages that share own text with rows into the gallery, all at once: else each row would read the log."""
        gallery = self.gallery
        families = gallery.families[self._match_places]
        known = gallery.known[families]
        if not known.any():
            return
        pairs = np.unique(np.column_stack([self._matches.rows[known], families[known]]), axis=0)
        rows, families = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        apart = minhash.distances(
            gallery.signatures, gallery.references, rows, families, gallery.bin_bits, DISTANCE_UNITS
        )
        self._apart.update(zip(map(tuple, pairs.tolist()), apart.tolist(), strict=True))
        order = np.lexsort((families, apart, rows))
        rows, families, apart = rows[order], families[order], apart[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        asked = (rank < TEMPLATES_A_PAGE) & (apart <= self._rule.relatives_apart)
        self._own_text.ask(rows[asked], families[asked])

    def _families_of(self, candidates: Candidates) -> list[int]:
        """Families of candidates, that of the nearest and earliest first."""
        families = self.gallery.families[candidates.places]
        distinct, firsts = np.unique(families, return_index=True)
        if len(distinct) > 1:
            order = np.lexsort((self.gallery.order[candidates.places], candidates.distances))
            distinct, firsts = np.unique(families[order], return_index=True)
        return distinct[np.argsort(firsts)].tolist()  # type: ignore[no-any-return]

    def _relative_of(self, row: int, families: list[int]) -> int:
        """The first of these families whose template, or whose head, the row resembles; NONE where there is none."""
        gallery, reach = self.gallery, self._rule.relatives_apart
        for family in families:
            if gallery.of_families.columns.there[family] and gallery.apart(row, family) <= reach:
                return family
        return NONE

    def _vote(self, row: int, family: int, *, is_duplicate: bool) -> None:
        if self.gallery.vote(family, row, self._rule.voters):
            self._learnt.append(family)
        if is_duplicate:
            self.gallery.of_families.add_to(family, dropped=1)

    def _file(self, row: int, family: int) -> None:
        """File a row by what it has of its own, unless it is far from the template or shares each key with very many."""
        if self._to_template(row, family) <= self._rule.filed_apart and not self._equals_an_entry(row):
            self._own_text.file(row, family)

    def _equals_an_entry(self, row: int) -> bool:
        """Whether the row looked at last equals an entry that is filed by its bands, and is found with it."""
        of_index = slice(*self._match_begins[row : row + 2])
        equal = self._match_places[of_index][self._matches.distances[of_index] == 0]
        places = np.concatenate([equal, self._equal_rows])
        return bool(len(places)) and not self.gallery.is_gone(places).all()

    def _count(self, row: int, family: int, verdict: Verdict) -> None:
        of_families = self.gallery.of_families
        if self._own_text.is_filed(row) or verdict != Verdict.DUPLICATE:
            of_families.add_to(family, relatives=1)
        if verdict == Verdict.TEMPLATE:
            of_families.add_to(family, made_unique=1, own_bins=self._own_text.keys(row, family)[1])

    def store(self, session: WriteSession, numbers: npt.NDArray[np.uint64], by_own: npt.NDArray[np.bool_]) -> None:
        """Store families, relatives, and what rows are filed by.

        numbers  uint64 [n], number of each row that entered, else NO_NUMBER
        by_own   bool [n], which rows were filed by what they have of their own
        """
        gallery, transaction = self.gallery, session.transaction
        heads = self._heads(numbers)
        gallery.of_families.write(transaction, heads)
        self._own_text.store(session, heads, np.where(by_own, numbers, NO_NUMBER))
        joined = np.flatnonzero(self._joining(numbers))
        add_relatives(transaction, numbers[joined], heads[gallery.families[joined]])

    def learnt(self, numbers: npt.NDArray[np.uint64]) -> list[int]:
        """Heads of the families whose template these rows have made known; numbers: as for `store`."""
        return self._heads(numbers)[self._learnt].tolist()  # type: ignore[no-any-return]

    def _heads(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Document number of each family's head, uint64 [families]; numbers: as for `store`."""
        of_families = self.gallery.of_families
        heads = of_families.columns.heads[: of_families.count]
        of_rows = np.where(heads < 0, -1 - heads, 0)
        return np.where(heads < 0, numbers[of_rows], heads.astype(np.uint64))

    def _joining(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which entering rows are to be noted as ones of another head's family, bool [n]."""
        families_of = self.gallery.families[: len(numbers)]
        joining: npt.NDArray[np.bool_] = (numbers != NO_NUMBER) & (families_of != NOBODY)
        joining &= self.by_own | (self._verdicts != Verdict.DUPLICATE)
        rows = np.flatnonzero(joining)
        joining[rows] = self.gallery.of_families.columns.heads[families_of[rows]] != -1 - rows
        return joining


def _rows_in_bands(hashes: npt.NDArray[np.uint64]) -> minhash.RowsInBands:
    """Nobody yet, of rows with these hashes of their bands."""
    count, bands = hashes.shape
    slots = 1 << (2 * count).bit_length()
    heads, following = np.full((bands, slots), -1, np.int32), np.empty((count, bands), np.int32)
    return minhash.RowsInBands(hashes, heads, following, np.full(count, -1, np.int64))
