"""No two unique documents are near-duplicates that the index should have matched."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from index import Kind, Verdict, standing_for_themselves
from streamer.verification.comparison import Comparison
from streamer.verification.ledger import Ledger
from streamer.verification.near_pairs import Keys, equality_keys, keys_of, pairs
from streamer.verification.position_table import NONE, Flags, Rows, Words, chunks

ROWS_AT_ONCE = 1 << 16


@dataclass
class UniquesCheck:
    """Compares unique documents with earlier entries; after the outputs and the index are in the ledger.

    A pair is wrong only if the earlier entry still counts, and so counted at the later decision.

    everything  False: compare only documents with read texts

    >>> from index import Parameters
    >>> from streamer.verification.findings import Findings
    >>> from streamer.verification.ledger import LedgerWriter
    >>> from streamer.verification.texts import Prints
    >>> ledger, prints = LedgerWriter(folder).finish({}, Findings()), Prints.blank(folder, 0, Parameters())
    >>> UniquesCheck(ledger, Comparison(prints, Parameters()), True).run(folder, print)
    >>> ledger.findings.sound
    True
    """

    _ledger: Ledger
    _comparison: Comparison
    _everything: bool

    def __post_init__(self) -> None:
        standing = [verdict for verdict in Verdict if verdict.stands_for_itself]
        also = [] if self._comparison.parameters.insert == "unique" else [Verdict.DUPLICATE, Verdict.SUSPECT]
        self._entering = (*standing, *also)
        self._given_back = self._given_back_ids()

    def run(self, folder: Path, progress: Callable[[int], None]) -> None:
        """Check all; `progress` takes the rows done."""
        total = sum(len(rows) for rows in self._entries(Kind.NEAR))
        keys, tables = keys_of(self._comparison.parameters, total)
        self._check(Kind.NEAR, keys, total * tables, folder, progress)
        total = sum(len(rows) for rows in self._entries(Kind.EXACT))
        self._check(Kind.EXACT, equality_keys, total, folder, progress)

    def _check(self, kind: Kind, keys: Keys, count: int, folder: Path, progress: Callable[[int], None]) -> None:
        wanted = None if self._everything else self._wanted(kind, keys)
        for left, right in pairs(self._parts(kind, progress), keys, count, folder, wanted):
            self._compare(left, right)

    def _entries(self, kind: Kind) -> Iterator[Rows]:
        for part in chunks(len(self._ledger), ROWS_AT_ONCE):
            entered = np.isin(self._ledger.state["verdict"][part], self._entering)
            rows = np.flatnonzero(entered & (self._comparison.prints.kinds[part] == kind)) + part.start
            yield rows[self._comparison.are_known(rows)]

    def _given_back_ids(self) -> Words:
        digests = [np.zeros(0, np.uint64)]
        for part in chunks(len(self._ledger), ROWS_AT_ONCE):
            state = self._ledger.state[part]
            digests.append(state["id"][(state["given_back"] > 0) | (state["known_given_back"] > 0)])
        return np.unique(np.concatenate(digests))

    def _parts(self, kind: Kind, progress: Callable[[int], None]) -> Iterator[tuple[Rows, Words]]:
        for rows in self._entries(kind):
            is_unique = self._ledger.state["verdict"][rows] == Verdict.UNIQUE
            self._ledger.findings.examine("near-uniques", int(np.count_nonzero(is_unique & self._are_asked(rows))))
            yield rows, self._comparison.prints.fingerprints[rows]
            if len(rows):
                progress(int(rows[-1]))

    def _are_asked(self, rows: Rows) -> Flags:
        return np.ones(len(rows), np.bool_) if self._everything else self._comparison.prints.read[rows]

    def _wanted(self, kind: Kind, keys: Keys) -> Words:
        parts = [np.zeros(0, np.uint64)]
        for rows in self._entries(kind):
            asked = rows[self._are_asked(rows)]
            parts.append(keys(self._comparison.prints.fingerprints[asked]).ravel())
        return np.unique(np.concatenate(parts))

    def _compare(self, left: Rows, right: Rows) -> None:
        asked = self._are_asked(left) | self._are_asked(right)
        _, near = self._comparison.compared(left[asked], right[asked])
        left, right = left[asked][near], right[asked][near]
        state = self._ledger.state
        # Within a source, offsets give the order, even for a restored index.
        swapped = np.where(
            self._ledger.are_of_one_source(left, right), left > right, state["rank"][left] > state["rank"][right]
        )
        earlier, later = np.where(swapped, right, left), np.where(swapped, left, right)
        if self._comparison.parameters.root is not None:
            counting = self._near_to_roots(later, earlier)
            earlier, later, left, right = (each[counting] for each in (earlier, later, left, right))
        unique = state["verdict"][later] == Verdict.UNIQUE
        # A given-back page duplicates only its own versions.
        again = np.isin(state["id"][later], self._given_back) & (state["id"][earlier] != state["id"][later])
        self._ledger.findings.excuse("near-duplicates of a page that was given back", unique, again)
        ordered = (state["rank"][left] != NONE) & (state["rank"][right] != NONE)
        self._ledger.findings.leave_out("near-duplicates that are not both known to the index", ~ordered)
        # Such entries have other bands.
        framed = (state["frame"][earlier] > 0) | (state["frame"][later] > 0)
        name = "near-duplicates in the frames of hosts, which are found by what is their own"
        self._ledger.findings.excuse(name, unique, framed)
        # Two unique documents are wrong in either order. An update or template page may resemble an earlier document.
        either = (state["verdict"][earlier] == Verdict.UNIQUE) | ~standing_for_themselves(state["verdict"][earlier])
        in_order = either | self._ledger.are_of_one_source(earlier, later)
        self._ledger.findings.excuse(
            "near-duplicates of updates and of pages of templates in other partitions, whose order a restored index does not "
            "keep",
            unique,
            ~in_order,
        )
        # Between sources a restored index may reverse the order: the later one was gone when the earlier came.
        counting = (state["retired"][earlier] == 0) & (
            (state["retired"][later] == 0) | self._ledger.are_of_one_source(earlier, later)
        )
        wrong = unique & ordered
        self._ledger.findings.excuse("near-duplicates of entries that expired or were forgotten", wrong, ~counting)
        self._note(earlier, later, np.flatnonzero(wrong & (state["resembles"][later] == 0)))

    def _near_to_roots(self, rows: Rows, matches: Rows) -> Flags:
        """Whether a match counts by its root: bool [n]; False for a root retired since then."""
        state = self._ledger.state
        standing = standing_for_themselves(state["verdict"][matches])
        roots = np.where(standing, matches, state["original"][matches])
        counts = roots >= 0
        counts[counts] &= self._comparison.are_known(roots[counts]) & (state["retired"][roots[counts]] == 0)
        _, near = self._comparison.compared_to_roots(rows[counts], roots[counts])
        counts[counts] = near
        return counts

    def _note(self, earlier: Rows, later: Rows, places: Rows) -> None:
        rows, first = np.unique(later[places], return_index=True)
        self._ledger.state["resembles"][rows] = 1
        self._ledger.note("near-uniques", rows, "is a near-duplicate of", earlier[places[first]])
