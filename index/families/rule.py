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
from index.families.gallery import ROW_ORDER, Gallery
from index.families.table import add_postings, add_relatives, free_keys, keys_of, read_postings, write_family
from index.matching.distance import Matches
from index.matching.template import are_one_page, own_bins
from index.session import ReadSession, WriteSession

TEMPLATES_A_PAGE = 4
"""Nearest templates by which the pages of a document's own text are looked up."""

NONE = -1


class Candidates(NamedTuple):
    """What a row resembles, nearest and earliest first.

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

    def __init__(
        self,
        session: ReadSession,
        signatures: npt.NDArray[np.uint64],
        matches: Matches,
        pairs: Matches,
        firsts: npt.NDArray[np.int64],
        *,
        alone: bool = False,
    ) -> None:
        """Take over what resembles the rows.

        signatures  uint64 [n, words]
        matches     documents of the index that share a band with a row, at most `Parameters.reach` away, nearest and earliest
                    first
        pairs       earlier rows likewise, of equal ones the first
        firsts      int64 [n], the first row equal to each row
        alone       whether each row is decided as if it came alone: its vote does not count for the others
        """
        parameters = session.parameters
        assert parameters.template is not None
        assert parameters.root is not None
        self._session, self._rule, self._root = session, parameters.template, parameters.root
        self._distance_max, self._reach = parameters.distance_max, parameters.reach
        self.gallery = Gallery(session, signatures)
        self._matches, self._pairs = matches, pairs
        self._match_places = self.gallery.places(matches.numbers)
        self._pair_places = pairs.numbers.astype(np.int64)
        count = len(signatures)
        self._match_begins = np.searchsorted(matches.rows, np.arange(count + 1))
        self._pair_begins = np.searchsorted(pairs.rows, np.arange(count + 1))
        self._postings: dict[tuple[int, int], list[int]] = {}
        self._filed: dict[tuple[int, int], list[int]] = {}
        self._own_of: dict[tuple[int, int], list[int]] = {}
        self._in_bands = np.zeros(count, np.bool_)
        self._own_keys: dict[int, list[tuple[int, int]]] = {}
        self._verdicts = np.zeros(count, np.uint8)
        self._learnt: list[int] = []
        self._alone = alone
        self._gone: list[int] = []
        self._firsts = firsts
        self._equals: dict[int, list[int]] = {}
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
        self._in_bands[:] = outcome.entering
        undecided = np.unique(np.concatenate([self._matches.rows, self._pairs.rows]))
        for row in undecided[outcome.entering[undecided]].tolist():
            self._decide(row, outcome)
        naming = np.flatnonzero(outcome.roots != np.arange(count))
        of_rows = outcome.roots[naming] < count
        original_rows[naming[of_rows]] = outcome.roots[naming[of_rows]]
        originals[naming[~of_rows]] = self.gallery.order[outcome.roots[naming[~of_rows]]]
        return outcome.entering

    @property
    def by_own(self) -> npt.NDArray[np.bool_]:
        """Which rows are to be filed by what they have of their own, bool [n]."""
        filed = np.zeros(self.gallery.rows, np.bool_)
        filed[list(self._own_keys)] = True
        return filed

    def _decide(self, row: int, outcome: _Columns) -> None:
        sight = self.look(row)
        named = sight.match if sight.match != NONE else sight.failed
        entering = sight.match == NONE or bool(sight.candidates.distances[sight.match] > self._root.apart)
        if named != NONE:
            outcome.roots[row] = self.gallery.roots[sight.candidates.places[named]]
            outcome.distances[row] = self.distance_to(row, int(outcome.roots[row]))
            outcome.verdicts[row] = Verdict.DUPLICATE if sight.match != NONE else Verdict.TEMPLATE
        outcome.entering[row] = entering
        self.conclude(row, sight, entering=entering)

    def look(self, row: int) -> Sight:
        """What a row resembles, now that all rows before it are concluded."""
        candidates = self.candidates(row)
        return Sight(candidates, *self._judged(row, candidates))

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
            family = self._relative_of(row, gallery.families[candidates.places])
            self._join(row, family, Verdict.UNIQUE, entering=entering, voting=family != NONE)

    def conclude_version(self, row: int, sight: Sight, older: int) -> None:
        """Let a row that is another version of an older document enter. It does not vote: its page may have done so before.

        older  place of that document in the gallery; NONE where it has no signature
        """
        gallery = self.gallery
        families = gallery.families[sight.candidates.places]
        if older != NONE:
            gallery.found_families(np.array([older]))
            families = np.concatenate([gallery.families[[older]], families])
        family = self._relative_of(row, families)
        if family != NONE and gallery.of_families[family].stored is None:
            family = NONE
        self._join(row, family, Verdict.UPDATE, entering=True, voting=False)

    def retire(self, row: int, number: int) -> None:
        """Let a row, or where it is NONE a document of the index, count no more, nor what stands for it."""
        self._gone.append(number if row == NONE else ROW_ORDER + row)

    def forget(self) -> None:
        """Let everything count again."""
        self._gone.clear()

    def _join(self, row: int, family: int, verdict: Verdict, *, entering: bool, voting: bool) -> None:
        self._verdicts[row] = verdict
        if family != NONE:
            self.gallery.families[row] = family
        if self._alone:
            return
        known = family != NONE and bool(self.gallery.known[family])
        if voting and not known:
            self._vote(row, family, is_duplicate=verdict == Verdict.DUPLICATE)
        if entering and known:
            self._file(row, family)
        self._in_bands[row] = entering and row not in self._own_keys
        if self._in_bands[row] and self._firsts[row] != row:
            self._equals.setdefault(int(self._firsts[row]), []).append(row)
        if family != NONE:
            self._count(row, family, verdict)

    def candidates(self, row: int) -> Candidates:
        """What shares a band with the row, and what shares some of its own text with it."""
        gallery = self.gallery
        of_index = slice(*self._match_begins[row : row + 2])
        of_rows = slice(*self._pair_begins[row : row + 2])
        earlier, apart = self._with_equals(self._pair_places[of_rows], self._pairs.distances[of_rows])
        standing = self._in_bands[earlier]
        earlier, apart = earlier[standing], apart[standing]
        gallery.found_families(earlier)
        places = np.concatenate([self._match_places[of_index], earlier])
        distances = np.concatenate([self._matches.distances[of_index], apart])
        # What counts no more names no family either.
        counting = self._counting(places)
        places, distances = places[counting], distances[counting]
        families = gallery.families[places]
        known = gallery.known[families]
        if known.any():
            found = np.setdiff1d(self._by_own_text(row, np.unique(families[known])), places)
            found = found[self._counting(found)]
            apart = gallery.distances(row, found)
            near = apart <= self._reach
            places, distances = np.concatenate([places, found[near]]), np.concatenate([distances, apart[near]])
        order = np.lexsort((gallery.order[places], distances))
        return Candidates(places[order], distances[order])

    def _with_equals(
        self, earlier: npt.NDArray[np.int64], apart: npt.NDArray[np.int16]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]:
        """Rows and their distances, with the rows equal to them that entered later."""
        if not self._equals:
            return earlier, apart
        also = [self._equals.get(row, ()) for row in earlier.tolist()]
        counts = np.fromiter(map(len, also), np.int64, len(also))
        rows = np.fromiter((row for rows in also for row in rows), np.int64, int(counts.sum()))
        return np.concatenate([earlier, rows]), np.concatenate([apart, np.repeat(apart, counts)])

    def _counting(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each of these documents may be a match, int64 [m] -> bool [m]."""
        gallery = self.gallery
        counts = gallery.counts[places]
        if self._gone:
            gone = np.array(self._gone, np.uint64)
            counts &= ~np.isin(gallery.order[places], gone) & ~np.isin(gallery.order[gallery.roots[places]], gone)
        return counts

    def _by_own_text(self, row: int, families: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Places of pages that share own text with the row beside the nearest of these families' templates, int64 [m]."""
        rows, numbers = self._sharing_own_text(row, families)
        visible = self._session.visibility.are(self._session.transaction, numbers)
        return np.concatenate([np.array(rows, np.int64), self.gallery.places(numbers[visible])])

    def _fetch(self) -> None:
        """Take the pages that share own text with rows into the gallery, all at once: else each row would read the log."""
        gallery = self.gallery
        wanted = [np.empty(0, np.uint64)]
        for row in np.unique(self._matches.rows).tolist():
            families = gallery.families[self._match_places[slice(*self._match_begins[row : row + 2])]]
            known = gallery.known[families]
            if known.any():
                wanted.append(self._sharing_own_text(row, np.unique(families[known]))[1])
        numbers = np.unique(np.concatenate(wanted))
        gallery.places(numbers[self._session.visibility.are(self._session.transaction, numbers)])

    def _sharing_own_text(self, row: int, families: npt.NDArray[np.int64]) -> tuple[list[int], npt.NDArray[np.uint64]]:
        """Rows, and numbers of documents, uint64 [m] ascending, that share own text with a row: see `_by_own_text`."""
        gallery = self.gallery
        templates = np.concatenate([_template(gallery, family) for family in families.tolist()])
        apart = gallery.distances_to(row, templates, np.arange(len(families)))
        nearest = np.argsort(apart, kind="stable")[:TEMPLATES_A_PAGE]
        rows: list[int] = []
        numbers: list[int] = []
        for place in nearest[apart[nearest] <= self._rule.relatives_apart].tolist():
            family = int(families[place])
            keys = self._keys(row, family)
            self._read(family, keys)
            for key in keys:
                numbers += self._postings[family, key]
                rows += self._filed.get((family, key), ())
        return rows, np.unique(np.array(numbers, np.uint64))

    def _keys(self, row: int, family: int) -> list[int]:
        """Keys of what a row has of its own beside a family's template; NO_OWN_KEY only where that is hardly anything."""
        if (row, family) not in self._own_of:
            self._own_of[row, family] = keys_of(self.gallery.bins[row], _stored(self.gallery, family))
        return self._own_of[row, family]

    def _read(self, family: int, keys: list[int]) -> None:
        missing = [key for key in keys if (family, key) not in self._postings]
        head = self.gallery.of_families[family].head
        # A family that a row founded has nothing in the file.
        found = read_postings(self._session.transaction, head, missing) if head >= 0 else [[] for _ in missing]
        self._postings.update(((family, key), numbers) for key, numbers in zip(missing, found, strict=True))

    def _judged(self, row: int, candidates: Candidates) -> tuple[int, int]:
        """Which candidate is the match, and which would have been the first but for its template; NONE where there is none."""
        gallery = self.gallery
        near = int(np.searchsorted(candidates.distances, self._distance_max, side="right"))
        places, distances = candidates.places[:near], candidates.distances[:near]
        counts = np.ones(near, np.bool_)
        members = np.flatnonzero(gallery.roots[places] != places)
        if len(members):
            to_roots = gallery.distances(row, gallery.roots[places[members]])
            counts[members] = to_roots <= self._root.distance_max
        families = gallery.families[places]
        judged = np.flatnonzero(counts & gallery.known[families] & (distances > 0))
        failed = NONE
        if len(judged):
            others = places[judged]
            distinct, inverse = np.unique(families[judged], return_inverse=True)
            templates = np.stack([_stored(gallery, family) for family in distinct.tolist()])[inverse]
            page = np.broadcast_to(gallery.bins[row], templates.shape)
            apart = judged[~are_one_page(page, gallery.bins[others], templates)]
            counts[apart] = False
            failed = int(apart[0]) if len(apart) else NONE
        return (int(counts.argmax()) if counts.any() else NONE), failed

    def _relative_of(self, row: int, families: npt.NDArray[np.int64]) -> int:
        """The first of these families, int64 [m], whose template, or whose head, the row resembles; NONE where there is none."""
        gallery = self.gallery
        distinct, firsts = np.unique(families, return_index=True)
        for family in distinct[np.argsort(firsts)].tolist():
            reference = gallery.reference(family)
            if reference is None:
                continue
            if gallery.distances_to(row, reference, np.zeros(1, np.int64))[0] <= self._rule.relatives_apart:
                return int(family)
        return NONE

    def _vote(self, row: int, family: int, *, is_duplicate: bool) -> None:
        gallery = self.gallery
        chosen = gallery.of_families[family]
        known = chosen.vote(gallery.bins[row], gallery.head_bins(chosen), self._rule.voters, gallery.bin_bits)
        gallery.known[family] = known
        if known:
            self._learnt.append(family)
        chosen.count(dropped=is_duplicate)

    def _file(self, row: int, family: int) -> None:
        """File a row by what it has of its own, unless it is far from the template or shares each key with very many."""
        apart = self.gallery.distances_to(row, _template(self.gallery, family), np.zeros(1, np.int64))[0]
        if apart > self._rule.filed_apart or self._equals_an_entry(row):
            return
        keys = self._keys(row, family)
        self._read(family, keys)
        counts = [len(self._postings[family, key]) + len(self._filed.get((family, key), ())) for key in keys]
        chosen = free_keys(keys, counts)
        if chosen:
            self._own_keys[row] = [(family, key) for key in chosen]
            for key in chosen:
                self._filed.setdefault((family, key), []).append(row)

    def _equals_an_entry(self, row: int) -> bool:
        """Whether a row equals an entry that is filed by its bands, and is found with it."""
        of_index = slice(*self._match_begins[row : row + 2])
        equal = self._match_places[of_index][self._matches.distances[of_index] == 0]
        first = int(self._firsts[row])
        rows = [each for each in (first, *self._equals.get(first, ())) if each < row and self._in_bands[each]]
        orders = self.gallery.order[np.concatenate([equal, np.array(rows, np.int64)])]
        return not set(orders.tolist()) <= set(self._gone)

    def _count(self, row: int, family: int, verdict: Verdict) -> None:
        chosen = self.gallery.of_families[family]
        if row in self._own_keys or verdict != Verdict.DUPLICATE:
            chosen.count(relatives=1)
        if verdict == Verdict.TEMPLATE:
            own = own_bins(self.gallery.bins[row], _stored(self.gallery, family))
            chosen.count(made_unique=1, own_bins=int(np.count_nonzero(own)))

    def store(self, session: WriteSession, numbers: npt.NDArray[np.uint64], by_own: npt.NDArray[np.bool_]) -> None:
        """Store families, relatives, and what rows are filed by.

        numbers  uint64 [n], number of each row that entered, else NO_NUMBER
        by_own   bool [n], which rows were filed by what they have of their own
        """
        gallery, transaction = self.gallery, session.transaction
        heads = [int(numbers[-1 - each.head]) if each.head < 0 else each.head for each in gallery.of_families]
        for head, family in zip(heads, gallery.of_families, strict=True):
            if family.changed and family.stored is not None:
                write_family(transaction, head, family.stored)
        filed = [(row, key) for row, keys in self._own_keys.items() if by_own[row] for key in keys]
        add_postings(
            transaction, [(heads[family], key) for _, (family, key) in filed], numbers[[row for row, _ in filed]]
        )
        # Most rows of most batches have no family.
        asked = (numbers != NO_NUMBER) & (gallery.families[: len(numbers)] != NONE)
        joined = [row for row in np.flatnonzero(asked).tolist() if self._joins(row)]
        of_rows = [heads[family] for family in gallery.families[joined].tolist()]
        add_relatives(transaction, numbers[joined], np.array(of_rows, np.uint64))

    def learnt(self, numbers: npt.NDArray[np.uint64]) -> list[int]:
        """Heads of the families whose template these rows have made known; numbers: as for `store`."""
        heads = [self.gallery.of_families[family].head for family in self._learnt]
        return [int(numbers[-1 - head]) if head < 0 else head for head in heads]

    def _joins(self, row: int) -> bool:
        """Whether an entering row is to be noted as one of another head's family."""
        family = int(self.gallery.families[row])
        if family == NONE or self.gallery.of_families[family].head == -1 - row:
            return False
        return row in self._own_keys or self._verdicts[row] != Verdict.DUPLICATE


def _template(gallery: Gallery, family: int) -> npt.NDArray[np.uint64]:
    template = gallery.of_families[family].template
    assert template is not None
    return template


def _stored(gallery: Gallery, family: int) -> npt.NDArray[np.uint8]:
    stored = gallery.of_families[family].stored
    assert stored is not None
    return stored.values
