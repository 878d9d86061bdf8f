"""The walk over what RESOLVE knows: undecided documents are its rows, all decided ones its index."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.history import are_entries
from index.dataflow.resolving.known import Known, Numbers, keys_of
from index.dataflow.resolving.page_states import PAGE_RECORD, PageState
from index.dataflow.rows import Rows, run_begins
from index.decide.recrawl import no_pages, unknown_pages
from index.entry import NO_DISTANCE, Verdict
from index.entry import Kind as EntryKind
from index.kernels.judge import NONE, Documents, Rule
from index.kernels.meet import no_chains
from index.kernels.versions import STRANGERS_MAX, Pages
from index.kernels.walk import NO_ORIGIN, Candidates, Outcomes, walk
from index.matching.outcome import ROW_ORDER
from index.versions.by_id import ROWS_OF_ID_MAX


class Concluded(NamedTuple):
    """Undecided documents after the walk.

    documents   rows first, then decided documents by number
    digests     uint64 [k], the pages by key
    is_decided  whether the rule decided them here, and not an index before
    """

    known: Known
    outcomes: Outcomes
    documents: Documents
    pages: Pages
    digests: npt.NDArray[np.uint64]
    is_decided: bool = True

    def numbers(self, places: Numbers) -> Numbers:
        """Documents at these places by number, int64 [n]."""
        # With 5 rows and 3 decided documents, place 6 is the second decided one, and row 1 is number 4.
        count = len(self.outcomes.verdicts)
        return np.where(places < count, places + self.known.first, places - count)

    def record_before(self, row: int) -> tuple[int, int]:
        """Key: the record before a row on its page, which an update without a current version names."""
        origin, known = int(self.outcomes.origins[row]), self.known
        if origin >= 0:
            before = known.documents[known.first + origin]
        else:
            page = np.searchsorted(known.pages.digests, known.digests[known.first + row])
            before = known.pages.records[np.searchsorted(known.pages.pages, page, "right") - 1]
        return int(before["high"]), int(before["low"])

    def states(self) -> dict[int, PageState]:
        """Known pages now, by digest, unless they came once and were unique."""
        pages, known = self.pages, self.known
        # The records before may have left the index that a seed came from.
        counts = (self.outcomes.returns | self.outcomes.strangers) != 0
        is_kept = ((self.outcomes.verdicts == Verdict.DUPLICATE) | counts) & (pages.keys != NONE)
        digests = np.union1d(self.digests[pages.keys[is_kept]], known.again)
        rows = np.flatnonzero(pages.keys != NONE)
        rows = rows[np.isin(self.digests[pages.keys[rows]], digests)]
        records = np.concatenate([known.pages.records, self._records(rows)])
        owners = np.concatenate([known.pages.digests[known.pages.pages], self.digests[pages.keys[rows]]])
        if not len(owners):
            return {}
        order = np.argsort(owners, kind="stable")
        records, owners = np.take(records, order), owners[order]
        numbers, there = known.numbers_of(records, "document_")
        lost = np.roll(self.documents.lost, known.first)
        begins = run_begins(owners)
        ends = np.append(begins[1:], len(owners))
        kept = _needed(ends, records["own"] & there & ~lost[numbers])
        if known.expires:
            # Any record may be the last one, once the later ones have expired.
            kept |= there
        found = {}
        for digest, begin, end in zip(owners[begins].tolist(), begins.tolist(), ends.tolist(), strict=True):
            begin = max(begin, end - ROWS_OF_ID_MAX)
            versions = np.unique(numbers[begin:end][kept[begin:end]])
            found[digest] = PageState(records[begin:end], known.documents[versions])
        return found

    def _records(self, rows: Numbers) -> Rows:
        """These rows as PAGE_RECORD, once they are decided."""
        outcomes, documents, known = self.outcomes, self.documents, self.known
        records = np.zeros(len(rows), PAGE_RECORD)
        places = np.where(documents.delivered[rows], rows, outcomes.named[rows])
        for prefix, numbers in (("", known.first + rows), ("document_", self.numbers(places))):
            for part in ("high", "low"):
                records[f"{prefix}{part}"] = known.documents[part][numbers]
        records["text"], records["substance"] = documents.digests[rows].T
        records["returns"], records["strangers"] = outcomes.returns[rows], outcomes.strangers[rows]
        pages = np.roll(known.digests, -known.first)
        records["own"] = documents.delivered[places] & (pages[places] == pages[rows])
        return records


def _needed(ends: Numbers, are_current: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Records whose documents are their pages' last or current version, bool [r]; ends: int64 [k], the pages' ends."""
    needed = np.zeros(len(are_current), np.bool_)
    needed[ends - 1] = True
    current = _newest(np.append(0, ends[:-1]), are_current)
    needed[current[current != NONE]] = True
    return needed


def _newest(begins: Numbers, are_asked: npt.NDArray[np.bool_]) -> Numbers:
    """Each page's last record among these, int64 [k], or NONE. No page is without records."""
    if not len(begins):
        return np.empty(0, np.int64)
    found: Numbers = np.maximum.reduceat(np.where(are_asked, np.arange(len(are_asked)), NONE), begins)
    return found


def concluded(known: Known, rule: Rule, *, are_given_back: bool = False) -> Concluded:
    """Decide the undecided documents by the rule, with the others as its index. are_given_back: all enter, whatever it says."""
    first, count = known.first, len(known.documents) - known.first
    rows, numbers = known.hits[0] - first, known.hits[1]
    # Rows have the first places, decided documents those behind them.
    places = _places_of(known, numbers)
    order = np.argsort(rows, kind="stable")
    begins = np.searchsorted(rows[order], np.arange(count + 1))
    candidates = Candidates(begins, places[order], known.by_id)
    found = _undecided(known)
    if not are_given_back:
        walk(candidates, no_chains(count), found.pages, found.documents, found.outcomes, rule, False)
    return found


def as_recorded(known: Known, recorded: Rows) -> Concluded:
    """The undecided documents as an index decided them; recorded: RECORDED in order, for all and others."""
    # The index knows which alike documents count, and all that do are filed.
    found = _undecided(known._replace(alike=np.arange(len(known.documents))))
    outcomes, documents, first = found.outcomes, found.documents, known.first
    rows = known.documents[first:]
    history = recorded["history"][np.searchsorted(keys_of(recorded), keys_of(rows))]
    outcomes.entering[:] = are_entries(history)
    outcomes.returns[:], outcomes.strangers[:] = history["returns"], history["strangers"]
    named, are_known = known.numbers_of(history, "named_")
    outcomes.named[:] = np.where(are_known, _places_of(known, named), np.arange(len(rows)))
    is_own = outcomes.named == np.arange(len(rows))
    outcomes.verdicts[~is_own] = Verdict.DUPLICATE
    documents.delivered[: len(rows)] = is_own
    documents.lost[: len(rows)] = history["gone"]
    return found._replace(is_decided=False)


def _places_of(known: Known, numbers: Numbers) -> Numbers:
    """Documents' places in the walk by number, int64 [n]."""
    first = known.first
    return np.where(numbers < first, numbers + len(known.documents) - first, numbers - first)


def _undecided(known: Known) -> Concluded:
    """All undecided documents as unique ones."""
    count = len(known.documents) - known.first
    outcomes = Outcomes(
        verdicts=np.full(count, Verdict.UNIQUE, np.uint8),
        distances=np.full(count, NO_DISTANCE, np.int16),
        named=np.arange(count),
        entering=np.ones(count, np.bool_),
        compared=np.zeros(count, np.int64),
        marks=np.zeros(count, np.uint8),
        returns=np.zeros(count, np.uint8),
        strangers=np.zeros(count, np.uint8),
        origins=np.full(count, NO_ORIGIN),
    )
    digests, pages = np.empty(0, np.uint64), no_pages(count)
    if known.documents["tag"].size:
        digests, pages = _pages(known, count)
    return Concluded(known, outcomes, _documents(known), pages, digests)


def _documents(known: Known) -> Documents:
    """The undecided documents as columns, and the others behind them."""
    first, size = known.first, len(known.documents)
    count = size - first
    order = np.roll(np.arange(size), -first)
    whole, tags = known.documents["whole"][order], known.documents["tag"][order]
    roots = np.where(known.roots[order] == NONE, NONE, (known.roots[order] - first) % size)
    ids, digests, kinds = (
        np.zeros(size, np.uint64),
        np.zeros((size, 2), np.uint64),
        np.full(size, EntryKind.NEAR, np.uint8),
    )
    if tags.size:
        ids = np.ascontiguousarray(tags["names"][:, 0, 0])
        digests, kinds = (np.ascontiguousarray(tags[name][:, 0]) for name in ("digests", "kind"))
    return Documents(
        order=np.concatenate(
            [np.arange(ROW_ORDER, ROW_ORDER + count, dtype=np.uint64), np.arange(first, dtype=np.uint64)]
        ),
        fingerprints=np.ascontiguousarray(whole["fingerprint"]),
        looks=np.ascontiguousarray(whole["look"]),
        kinds=kinds,
        roots=roots,
        delivered=roots == np.arange(size),
        lost=known.gone[order],
        # Without letters all are 0, unknown.
        lengths=whole["letters"].sum(axis=1, dtype=np.int64),
        ids=ids,
        # A page's digest is one of its id and its host: of one id, hosts differ in it.
        hosts=known.digests[order].astype(np.uint32),
        digests=digests,
    )


def _pages(known: Known, count: int) -> tuple[npt.NDArray[np.uint64], Pages]:
    """The rows' pages as digests, uint64 [k], and what is known about these."""
    own, keys_of_rows = known.digests[known.first :], np.full(count, NONE)
    there = own != 0
    digests, keys_of_rows[there] = np.unique(own[there], return_inverse=True)
    records, size = known.pages.records, len(digests)
    keys = np.searchsorted(digests, known.pages.digests)[known.pages.pages]
    # A page gets room for the substances of its rows.
    counts, rooms = (np.bincount(each, minlength=size) for each in (keys, keys_of_rows[there]))
    pages, firsts = unknown_pages(keys_of_rows, counts, rooms), np.cumsum(counts) - counts
    pages.substances[pages.begins[keys] + np.arange(len(keys)) - firsts[keys]] = records["substance"]
    there = np.flatnonzero(counts)
    if len(there):
        _set_versions(pages, there, known, firsts[there], count)
    return digests, pages


def _set_versions(pages: Pages, keys: Numbers, known: Known, firsts: Numbers, count: int) -> None:
    """Fill in the last and the current versions of these pages; firsts: their first records."""
    records, lasts = known.pages.records, firsts + pages.counts[keys] - 1
    numbers, there = known.numbers_of(records, "document_")
    pages.last[keys] = np.where(there, numbers + count, NONE)[lasts]
    current = _newest(firsts, records["own"] & there & ~known.gone[numbers])
    pages.current[keys] = np.where(current == NONE, NONE, numbers[current] + count)
    pages.digests[keys] = np.stack([records[name][lasts] for name in ("text", "substance")], axis=1)
    pages.foreign[keys], pages.returns[keys] = ~records["own"][lasts], records["returns"][lasts]
    strangers = records["strangers"].astype(np.int64)
    most = np.maximum.reduceat(strangers, firsts)
    # Records of a shared id may lack its count.
    pages.strangers[keys] = np.where(most > STRANGERS_MAX, most, strangers[lasts])
