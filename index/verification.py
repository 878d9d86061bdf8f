"""Verification: whether everything in the tables fits together. It only reads, and never trusts what it reads.

counters   next number, journal rows and next stream are what the tables hold
documents  numbers without a gap; every root exists, is its own root, and is not later; every position is journaled
blocks     every NEAR entry stands once in each of its buckets, every EXACT one once in its table, and nothing else does
journal    ascending rows in values that do not overlap; every number it names is that of an original
applied    every source's applied offset lies behind its journal
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from index import contents, journal
from index.bands import Banding, band_keys
from index.blocks import BLOCK_BITS, Buckets, block_keys
from index.contents import Stored
from index.entry import NO_NUMBER, Kind, Verdict
from index.forgetting import ignored
from index.layout import NUMBER_BYTES, Table, pack_band_keys, unpack_band_buckets
from index.parameters import Parameters
from index.store import Transaction

CHECKS = ("structure", "counters", "documents", "blocks", "journal", "applied")
EXAMPLES_MAX = 5

BANDED_AT_ONCE = 2**12
"""Signatures looked up under all their bands at once."""


@dataclass(slots=True)
class Finding:
    """What one check came to: how many things it looked at, how many were wrong, and the first of those in words."""

    check: str
    examined: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, problems: Iterable[str]) -> None:
        """Count problems; the first ones are kept."""
        for problem in problems:
            self.wrong += 1
            if len(self.examples) < EXAMPLES_MAX:
                self.examples.append(problem)


@dataclass(slots=True)
class _Seen:
    """What the pass over the documents remembers of all of them, by number: about 20 bytes each at 64 bits."""

    roots: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint8]
    present: npt.NDArray[np.bool_]
    searched: npt.NDArray[np.bool_]

    def is_original(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these numbers are those of documents that are their own root."""
        known = numbers < len(self.roots)
        places = np.where(known, numbers, 0).astype(np.int64)
        if len(self.roots) == 0:
            return np.zeros(len(numbers), np.bool_)
        found: npt.NDArray[np.bool_] = known & self.present[places] & (self.roots[places] == numbers)
        return found


def verify(
    transaction: Transaction, parameters: Parameters, progress: Callable[[int], None] = ignored
) -> list[Finding]:
    """Hold the tables against each other, one Finding a check; `progress` is told how many documents were looked at."""
    seen, of_documents = _documents(transaction, parameters.words, progress)
    return [
        _counters(transaction),
        of_documents,
        _blocks(transaction, parameters, seen),
        _journal(transaction, parameters, seen),
        _applied(transaction),
    ]


def _counters(transaction: Transaction) -> Finding:
    counters = contents.counters(transaction)
    journal_rows = sum(len(rows) for _, _, _, rows in contents.journals(transaction))
    held = {
        "next number": (counters.next_number, transaction.count(Table.DOCUMENTS)),
        "journal rows": (counters.journal_rows, journal_rows),
        "next stream": (counters.next_stream, transaction.count(Table.STREAMS)),
        "streams by name": (transaction.count(Table.STREAM_NUMBERS), transaction.count(Table.STREAMS)),
    }
    finding = Finding("counters", len(held))
    finding.note(f"{name}: counted {told}, there are {is_}" for name, (told, is_) in held.items() if told != is_)
    return finding


def _documents(transaction: Transaction, words: int, progress: Callable[[int], None]) -> tuple[_Seen, Finding]:
    count = transaction.count(Table.DOCUMENTS)
    finding = Finding("documents")
    seen = _Seen(
        np.full(count, NO_NUMBER, np.uint64),
        np.zeros((count, words), np.uint64),
        np.zeros(count, np.uint8),
        np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
    )
    for stored in contents.stored(transaction, words):
        finding.examined += len(stored.numbers)
        inside = stored.numbers < count
        finding.note(f"document {number} stands behind a gap" for number in stored.numbers[~inside].tolist())
        places = stored.numbers[inside].astype(np.int64)
        columns = stored.columns[inside]
        seen.roots[places], seen.kinds[places] = columns["root"], columns["kind"]
        seen.fingerprints[places], seen.present[places] = columns["fingerprint"], True
        _positions(transaction, stored, finding)
        progress(finding.examined)
    gone = contents.forgotten(transaction)
    seen.searched[:] = seen.present
    finding.note(f"the forgotten document {number} does not exist" for number in gone[gone >= count].tolist())
    seen.searched[gone[gone < count].astype(np.int64)] = False
    unknown_kind = seen.present & ~np.isin(seen.kinds, (Kind.NEAR, Kind.EXACT))
    finding.note(f"document {number} is of kind {seen.kinds[number]}" for number in np.flatnonzero(unknown_kind))
    own = np.arange(count, dtype=np.uint64)
    lost = seen.present & (~seen.is_original(seen.roots) | (seen.roots > own))
    finding.note(f"document {n} has the original {seen.roots[n]}, which is none" for n in np.flatnonzero(lost).tolist())
    return seen, finding


def _positions(transaction: Transaction, stored: Stored, finding: Finding) -> None:
    """Every document's position must be in the journal, under the verdict and the original that its root tells."""
    columns = stored.columns
    order = np.lexsort((columns["offset"], columns["partition"], columns["stream"]))
    keys = columns[["stream", "partition"]][order]
    edges = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    for rows in np.split(order, edges[1:]):
        stream, partition = int(columns["stream"][rows[0]]), int(columns["partition"][rows[0]])
        found = journal.find(transaction, stream, partition, columns["offset"][rows].astype(np.uint64))
        roots = columns["root"][rows]
        verdicts = np.where(roots == stored.numbers[rows], Verdict.UNIQUE, Verdict.DUPLICATE)
        fits = found.known & (found.rows["number"] == roots) & (found.rows["verdict"] == verdicts)
        finding.note(
            f"the journal does not name document {stored.numbers[row]} at stream {stream}, partition {partition}, "
            f"offset {columns['offset'][row]}"
            for row in rows[~fits].tolist()
        )


def _blocks(transaction: Transaction, parameters: Parameters, seen: _Seen) -> Finding:
    finding = Finding("blocks")
    near = seen.searched & (seen.kinds == Kind.NEAR)
    if parameters.banding is None:
        places = _places_by_block(transaction, parameters.words, seen, finding)
    else:
        places = _places_by_band(transaction, parameters.banding, seen, np.flatnonzero(near), finding)
    elsewhere = contents.filed_count(transaction) - finding.examined
    finding.note([f"{elsewhere} places stand under keys that are none"] if elsewhere else [])
    finding.note(
        f"document {number} is found through {places[number]} of its {parameters.blocks} blocks"
        for number in np.flatnonzero(near & (places != parameters.blocks)).tolist()
    )
    fingerprints, numbers = contents.exact(transaction, parameters.words)
    finding.examined += len(numbers)
    right = _exact_rightly(fingerprints, numbers, seen)
    finding.note(f"document {number} stands among the exact ones wrongly" for number in numbers[~right].tolist())
    listed = np.bincount(numbers[right].astype(np.int64), minlength=len(places))
    missing = seen.searched & (seen.kinds == Kind.EXACT) & (listed != 1)
    finding.note(f"document {number} is not among the exact ones" for number in np.flatnonzero(missing).tolist())
    return finding


def _places_by_block(transaction: Transaction, words: int, seen: _Seen, finding: Finding) -> npt.NDArray[np.int64]:
    """Through how many of its blocks each document is found; every place of the block tables is looked at."""
    places = np.zeros(len(seen.kinds), np.int64)
    for buckets in contents.filed(transaction, words):
        right = _filed_rightly(buckets, seen)
        finding.examined += len(right)
        finding.note(
            f"bucket {key:#07x} holds document {number}, which does not belong there"
            for key, number in zip(buckets.keys[~right].tolist(), buckets.numbers[~right].tolist(), strict=True)
        )
        places += np.bincount(buckets.numbers[right].astype(np.int64), minlength=len(places))
    return places


def _places_by_band(
    transaction: Transaction, banding: Banding, seen: _Seen, near: npt.NDArray[np.int64], finding: Finding
) -> npt.NDArray[np.int64]:
    """Through how many of its bands each document is found.

    Band keys are too many to walk; each document is looked up under its own, and what stands elsewhere shows in the sum.
    """
    places = np.zeros(len(seen.kinds), np.int64)
    for begin in range(0, len(near), BANDED_AT_ONCE):
        some = near[begin : begin + BANDED_AT_ONCE]
        keys = band_keys(seen.fingerprints[some], banding)
        wanted = _pairs(keys.reshape(-1), np.repeat(some.astype(np.uint64), banding.bands))
        found = transaction.get_all_values(Table.BUCKETS, pack_band_keys(np.unique(keys)), NUMBER_BYTES)
        there = np.isin(wanted, _pairs(*unpack_band_buckets(found)))
        finding.examined += int(np.count_nonzero(there))
        places[some] = there.reshape(len(some), banding.bands).sum(axis=1)
    return places


def _pairs(keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.complex128]:
    """Keys (below 2^40) and numbers (below 2^53) as one sortable value each: exact as the parts of a complex number."""
    return keys.astype(np.float64) + 1j * numbers.astype(np.float64)


def _filed_rightly(buckets: Buckets, seen: _Seen) -> npt.NDArray[np.bool_]:
    """Per place, bool [n]: its document is searched, has this fingerprint, this block, and is here for the first time."""
    right = _exact_rightly(buckets.fingerprints, buckets.numbers, seen, Kind.NEAR)
    blocks = (buckets.keys >> np.uint32(BLOCK_BITS)).astype(np.int64)
    if len(right):
        right &= block_keys(buckets.fingerprints)[np.arange(len(blocks)), blocks] == buckets.keys
        right[1:] &= (buckets.keys[1:] != buckets.keys[:-1]) | (buckets.numbers[1:] > buckets.numbers[:-1])
    return right


def _exact_rightly(
    fingerprints: npt.NDArray[np.uint64],
    numbers: npt.NDArray[np.uint64],
    seen: _Seen,
    kind: Kind = Kind.EXACT,
) -> npt.NDArray[np.bool_]:
    right = numbers < len(seen.kinds)
    places = np.where(right, numbers, 0).astype(np.int64)
    if right.any():
        right &= seen.searched[places] & (seen.kinds[places] == kind)
        right &= (seen.fingerprints[places] == fingerprints).all(axis=1)
    return right


def _journal(transaction: Transaction, parameters: Parameters, seen: _Seen) -> Finding:
    finding = Finding("journal")
    uniques = duplicates = 0
    last: dict[tuple[int, int], int] = {}
    for stream, partition, first, rows in contents.journals(transaction):
        finding.examined += len(rows)
        where = f"stream {stream}, partition {partition}, offset {first}"
        offsets = rows["offset"]
        ascending = len(rows) > 0 and int(offsets[0]) == first and bool((offsets[1:] > offsets[:-1]).all())
        if not ascending or first <= last.get((stream, partition), -1):
            finding.note([f"the rows at {where} are out of order"])
        if len(rows):
            last[stream, partition] = int(offsets[-1])
        decided = np.isin(rows["verdict"], (Verdict.UNIQUE, Verdict.DUPLICATE))
        named = np.where(decided, seen.is_original(rows["number"]), rows["number"] == NO_NUMBER)
        named &= rows["verdict"] <= max(Verdict)
        finding.note(
            f"offset {row['offset']} of stream {stream}, partition {partition} names document {row['number']}, "
            "which is no original"
            for row in rows[~named]
        )
        uniques += int(np.count_nonzero(rows["verdict"] == Verdict.UNIQUE))
        duplicates += int(np.count_nonzero(rows["verdict"] == Verdict.DUPLICATE))
    originals = int(np.count_nonzero(seen.present & (seen.roots == np.arange(len(seen.roots), dtype=np.uint64))))
    entered = uniques + (duplicates if parameters.insert == "all" else 0)
    if (uniques, entered) != (originals, int(np.count_nonzero(seen.present))):
        finding.note(
            [
                f"{uniques} unique rows for {originals} originals, {entered} rows that entered for "
                f"{np.count_nonzero(seen.present)} documents"
            ]
        )
    return finding


def _applied(transaction: Transaction) -> Finding:
    """A restoration that is under way, or was broken off, leaves rows behind the applied offset too."""
    streams = contents.numbered_streams(transaction)
    applied = contents.applied_offsets(transaction)
    finding = Finding("applied")
    for stream, partition in contents.journaled_sources(transaction):
        finding.examined += 1
        identity, name = streams.get(stream, (f"number {stream}", ""))
        end = applied.get((stream, partition), 0)
        beyond = _last_offset(transaction, stream, partition)
        if beyond >= end:
            finding.note(
                [
                    f"{name or identity}/{partition} is applied up to {end}, but journaled up to {beyond + 1}: "
                    "damage, or a restoration not yet finished, which the service goes on with when it starts"
                ]
            )
    return finding


def _last_offset(transaction: Transaction, stream: int, partition: int) -> int:
    return max(int(rows["offset"][-1]) for rows in contents.journal_of(transaction, stream, partition) if len(rows))
