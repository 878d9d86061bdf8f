"""The walk over what RESOLVE knows: undecided documents are its rows, all decided ones its index."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.resolving.known import Known, Numbers, keys_of
from index.dataflow.resolving.page_states import STATE, PageState
from index.decide.load import Loaded
from index.decide.recrawl import no_pages, pages_of
from index.entry import NO_DISTANCE, Verdict
from index.entry import Kind as EntryKind
from index.kernels.judge import NONE, Documents, Rule
from index.kernels.meet import no_chains
from index.kernels.versions import Pages
from index.kernels.walk import NO_ORIGIN, Candidates, Outcomes, walk
from index.matching.outcome import ROW_ORDER
from index.versions.history import History, Version, Versions


class Concluded(NamedTuple):
    """Undecided documents after the walk.

    documents  rows first, then decided documents by number
    digests    uint64 [k], the pages by key
    """

    known: Known
    outcomes: Outcomes
    documents: Documents
    pages: Pages
    digests: npt.NDArray[np.uint64]

    def numbers(self, places: Numbers) -> Numbers:
        """Documents at these places by number, int64 [n]."""
        # With 5 rows and 3 decided documents, place 6 is the second decided one, and row 1 is number 4.
        count = len(self.outcomes.verdicts)
        return np.where(places < count, places + self.known.first, places - count)

    def record_before(self, row: int) -> tuple[int, int]:
        """Key: the record before a row on its page, which an update without a current version names."""
        origin = int(self.outcomes.origins[row])
        if origin >= 0:
            document = self.known.documents[self.known.first + origin]
            return int(document["high"]), int(document["low"])
        state = self.known.pages[int(self.documents.ids[row])].state
        return int(state["record_high"]), int(state["record_low"])

    def states(self) -> dict[int, PageState]:
        """Known pages now, by digest, unless they came once and were unique."""
        pages, verdicts, known = self.pages, self.outcomes.verdicts, self.known
        copied = pages.keys[(verdicts == Verdict.DUPLICATE) & (pages.keys != NONE)]
        keys = np.union1d(copied, np.flatnonzero(np.isin(self.digests, known.again)))
        current, last = pages.current[keys], pages.last[keys]
        states = np.zeros(len(keys), STATE)
        states["has_current"] = (current != NONE) & ~self.documents.lost[current]
        documents = {
            "record": pages.origins[keys],
            "last": last,
            "current": np.where(states["has_current"], current, last),
        }
        for name, places in documents.items():
            for part in ("high", "low"):
                states[f"{name}_{part}"] = known.documents[part][self.numbers(places)]
        states["text"], states["substance"] = pages.digests[keys].T
        for name in ("returns", "strangers", "foreign"):
            states[name] = getattr(pages, name)[keys]
        found = {}
        for state, key, *places in zip(states, keys.tolist(), last, documents["current"], strict=True):
            begin, end = pages.begins[key], pages.begins[key] + pages.counts[key]
            versions = known.documents[self.numbers(np.unique(places))]
            found[int(self.digests[key])] = PageState(state, versions, pages.substances[begin:end])
        return found


def concluded(known: Known, rule: Rule) -> Concluded:
    """Decide the undecided documents by the rule, with the others as its index."""
    first, count = known.first, len(known.documents) - known.first
    rows, numbers = known.hits[0] - first, known.hits[1]
    # Rows have the first places, decided documents those behind them.
    places = np.where(numbers < first, numbers + count, numbers - first)
    order = np.argsort(rows, kind="stable")
    begins = np.searchsorted(rows[order], np.arange(count + 1))
    candidates = Candidates(begins, places[order], np.zeros(count, np.bool_))
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
    documents, digests = _documents(known), np.empty(0, np.uint64)
    pages = no_pages(count)
    if known.documents["tag"].size:
        digests, pages = _pages(known, documents, count)
    walk(candidates, no_chains(count), pages, documents, outcomes, rule, False)
    return Concluded(known, outcomes, documents, pages, digests)


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
        # A page is an id on a host.
        ids, digests, kinds = (np.ascontiguousarray(tags[name][:, 0]) for name in ("page", "digests", "kind"))
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
        hosts=np.zeros(size, np.uint32),
        digests=digests,
    )


def _pages(known: Known, documents: Documents, count: int) -> tuple[npt.NDArray[np.uint64], Pages]:
    """The rows' pages as digests, uint64 [k], and what is known about these."""
    own, keys_of_rows = documents.ids[:count], np.full(count, NONE)
    there = own != 0
    digests, keys_of_rows[there] = np.unique(own[there], return_inverse=True)
    histories = _histories(known)
    histories_by_key = [histories.get(digest) for digest in digests.tolist()]
    versions = Versions(keys_of_rows, [("", 0)] * len(digests), histories_by_key, np.zeros(count, np.bool_))
    numbers = np.arange(known.first)
    return digests, pages_of(versions, Loaded(documents, numbers.astype(np.uint64), numbers), count)


def _histories(known: Known) -> dict[int, History]:
    """Known pages by digest, in an index's form."""
    states = np.array([page.state for page in known.pages.values()], STATE)
    keys = keys_of(known.documents)
    last, current = (np.searchsorted(keys, keys_of(states, name)) for name in ("last_", "current_"))
    are_current = states["has_current"] & ~known.gone[current]
    names = "text", "substance", "returns", "strangers", "foreign"
    columns = zip(
        last.tolist(), current.tolist(), are_current.tolist(), *(states[name].tolist() for name in names), strict=True
    )
    found = {}
    for (digest, page), column in zip(known.pages.items(), columns, strict=True):
        number, current_number, has_current, text, substance, returns, strangers, foreign = column
        counts = returns, strangers
        version = Version(number, text, substance, *counts, 0, (0, 0), True, not foreign, (text, substance))
        now = version._replace(number=current_number) if has_current else None
        found[digest] = History(version, now, page.substances.tolist(), strangers)
    return found
