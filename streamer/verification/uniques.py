"""No two unique documents are near-duplicates that the index should have matched."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from index import Kind, Verdict, standing_for_themselves
from streamer.delivered.table import NONE, Flags, Rows, Table, Words, any_of
from streamer.verification.comparison import Comparison, Prints
from streamer.verification.findings import EXAMPLES_MAX, Findings
from streamer.verification.near_pairs import Keys, equality_keys, keys_of, pairs

ENTRIES_AT_ONCE = 1 << 16

_ENTRIES = """
SELECT o.row, o.verdict, e.is_read, coalesce(j.rank, -1), coalesce(j.is_retired, 0), coalesce(j.in_frame, 0),
    coalesce(o.original, -1), o.id IN (SELECT id FROM output JOIN given_back USING (row)),
    o.id, e.kind, e.fingerprint, j.frame, e.look
FROM output o JOIN print e ON e.row = o.row LEFT JOIN journal j ON j.row = o.row
WHERE o.verdict IN {verdicts} AND e.kind IN {kinds}
"""


@dataclass
class UniquesCheck:
    """Compares unique documents with earlier entries; after the outputs and the index are in the table.

    A pair is wrong only if the earlier entry still counts, and so counted at the later decision.

    everything  False: compare only documents with read texts

    >>> [name for name in UniquesCheck.__dataclass_fields__][:4]
    ['_table', '_findings', '_comparison', '_everything']
    """

    _table: Table
    _findings: Findings
    _comparison: Comparison
    _everything: bool
    _folder: Path
    _entries: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    """Entries by row, in a file that is mapped into memory: their pairs come in any order."""
    _is_wrong: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def run(self, progress: Callable[[int], None]) -> None:
        """Check all; `progress` takes the rows done."""
        self._entries = self._written()
        self._is_wrong = np.zeros(len(self._entries), np.bool_)
        total = sum(len(each) for each in self._of_kind(Kind.NEAR))
        keys, tables = keys_of(self._comparison.parameters, total)
        self._check(Kind.NEAR, keys, total * tables, progress)
        total = sum(len(each) for each in self._of_kind(Kind.EXACT))
        self._check(Kind.EXACT, equality_keys, total, progress)

    def _written(self) -> npt.NDArray[Any]:
        parameters, path = self._comparison.parameters, self._folder / "entries"
        entry = np.dtype(
            [
                ("row", "<i8"),
                ("verdict", "u1"),
                ("is_read", "?"),
                ("rank", "<i8"),
                ("is_retired", "?"),
                ("in_frame", "?"),
                ("original", "<i8"),
                ("given_back", "?"),
                ("id", "<u8"),
                ("kind", "u1"),
                ("fingerprint", "<u8", (parameters.stored_words,)),
                ("look", "u1", (parameters.look_bytes,)),
            ]
        )
        entering = [verdict for verdict in Verdict if verdict.stands_for_itself]
        entering += [] if parameters.insert == "unique" else [Verdict.DUPLICATE, Verdict.SUSPECT]
        known = "" if parameters.look is None else " AND e.is_read"
        query = _ENTRIES.format(verdicts=any_of(entering), kinds=any_of([Kind.NEAR, Kind.EXACT])) + known
        with path.open("wb") as file:
            for portion in self._table.portions(query + " ORDER BY o.row"):
                entries = np.zeros(len(portion), entry)
                *columns, ids, kinds, fingerprints, frames, looks = zip(*portion, strict=True)
                digests = [xxhash.xxh3_64_intdigest(each or b"") for each in ids]
                prints = Prints.of_columns(parameters, kinds, [fingerprints, frames, looks])
                for name, column in zip(entry.names or (), [*columns, digests, kinds], strict=False):
                    entries[name] = column
                entries["fingerprint"], entries["look"] = prints.fingerprints, prints.looks
                file.write(entries.tobytes())
        return np.asarray(np.memmap(path, entry, "r")) if path.stat().st_size else np.zeros(0, entry)

    def _check(self, kind: Kind, keys: Keys, count: int, progress: Callable[[int], None]) -> None:
        wanted = None if self._everything else self._wanted(kind, keys)
        for left, right in pairs(self._parts(kind, progress), keys, count, self._folder, wanted):
            self._compare(left, right)

    def _of_kind(self, kind: Kind) -> Iterator[Rows]:
        for begin in range(0, len(self._entries), ENTRIES_AT_ONCE):
            yield np.flatnonzero(self._entries["kind"][begin : begin + ENTRIES_AT_ONCE] == kind) + begin

    def _parts(self, kind: Kind, progress: Callable[[int], None]) -> Iterator[tuple[Rows, Words]]:
        for entries in self._of_kind(kind):
            is_unique = self._entries["verdict"][entries] == Verdict.UNIQUE
            self._findings.examine("near-uniques", int(np.count_nonzero(is_unique & self._are_asked(entries))))
            yield entries, self._entries["fingerprint"][entries]
            if len(entries):
                progress(int(entries[-1]))

    def _are_asked(self, entries: Rows) -> Flags:
        return np.ones(len(entries), np.bool_) if self._everything else self._entries["is_read"][entries]

    def _wanted(self, kind: Kind, keys: Keys) -> Words:
        parts = [np.zeros(0, np.uint64)]
        for entries in self._of_kind(kind):
            asked = entries[self._are_asked(entries)]
            parts.append(keys(self._entries["fingerprint"][asked]).ravel())
        return np.unique(np.concatenate(parts))

    def _prints(self, entries: Rows) -> Prints:
        # By column: an entry as a whole is long.
        return Prints(*(self._entries[name][entries] for name in ("kind", "fingerprint", "look")))

    def _compare(self, left: Rows, right: Rows) -> None:
        asked = self._are_asked(left) | self._are_asked(right)
        left, right = left[asked], right[asked]
        _, near = self._comparison.compared(self._prints(left), self._prints(right))
        left, right = left[near], right[near]
        column, findings = (
            {name: self._entries[name] for name in ("row", "rank", "verdict", "id", "is_retired")},
            self._findings,
        )
        same_source = self._table.of_one_source(column["row"][left], column["row"][right])
        # Within a source, offsets give the order, even for a restored index.
        swapped = np.where(same_source, left > right, column["rank"][left] > column["rank"][right])
        earlier, later = np.where(swapped, right, left), np.where(swapped, left, right)
        if self._comparison.parameters.root is not None:
            counting = self._near_to_roots(later, earlier)
            earlier, later, same_source = (each[counting] for each in (earlier, later, same_source))
        wrong = column["verdict"][later] == Verdict.UNIQUE
        # A given-back page duplicates only its own versions.
        again = self._entries["given_back"][later] & (column["id"][earlier] != column["id"][later])
        findings.excuse("near-duplicates of a page that was given back", wrong, again)
        ordered = (column["rank"][earlier] != NONE) & (column["rank"][later] != NONE)
        findings.leave_out("near-duplicates that are not both known to the index", ~ordered)
        # Such entries have other bands.
        framed = self._entries["in_frame"][earlier] | self._entries["in_frame"][later]
        name = "near-duplicates in the frames of hosts, which are found by what is their own"
        findings.excuse(name, wrong, framed)
        # Two unique documents are wrong in either order. An update or template page may resemble an earlier document.
        verdicts = column["verdict"][earlier]
        in_order = (verdicts == Verdict.UNIQUE) | ~standing_for_themselves(verdicts) | same_source
        name = (
            "near-duplicates of updates and of pages of templates in other partitions, whose order a restored index does not "
            "keep"
        )
        findings.excuse(name, wrong, ~in_order)
        # Between sources a restored index may reverse the order: the later one was gone when the earlier came.
        retired = column["is_retired"]
        counting = ~retired[earlier] & (~retired[later] | same_source)
        wrong &= ordered
        findings.excuse("near-duplicates of entries that expired or were forgotten", wrong, ~counting)
        self._note(earlier[wrong], later[wrong])

    def _near_to_roots(self, entries: Rows, matches: Rows) -> Flags:
        """Whether a match counts by its root: bool [n]; False for a root retired since then."""
        rows = self._entries["row"]
        standing = standing_for_themselves(self._entries["verdict"][matches])
        named = self._entries["original"][matches]
        places = np.minimum(np.searchsorted(rows, named), len(rows) - 1)
        roots = np.where(standing, matches, places)
        counts = (standing | (rows[places] == named)) & ~self._entries["is_retired"][roots]
        _, near = self._comparison.compared_to_roots(self._prints(entries[counts]), self._prints(roots[counts]))
        counts[counts] = near
        return np.asarray(counts)

    def _note(self, earlier: Rows, later: Rows) -> None:
        new = ~self._is_wrong[later]
        entries, first = np.unique(later[new], return_index=True)
        self._is_wrong[entries] = True
        examples = zip(
            self._entries["row"][entries[:EXAMPLES_MAX]].tolist(), earlier[new][first].tolist(), strict=False
        )
        self._findings.note(
            "near-uniques",
            [
                f"{self._table.text(row)}: is a near-duplicate of {self._table.text(int(self._entries['row'][other]))}"
                for row, other in examples
            ],
            len(entries),
        )
