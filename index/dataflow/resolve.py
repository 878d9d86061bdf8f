"""RESOLVE: the rule, for all documents with an earlier match. One key: every decision sees the earlier ones.

Most documents never come here: without a hit a document is unique. `index.decide.rule` decides the others, with a slot's
documents as its rows and all earlier ones as its index.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.fates import FateStore
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import PAIR, Layout, numbered, packed_by_group, rows_of, shard_of_batches
from index.dataflow.rows import Rows as Records
from index.decide.rule import Rows, Walk
from index.entry import Kind as EntryKind
from index.entry import Verdict, naming_originals
from index.kernels.minhash import UNMEASURED
from index.matching.candidates import ROW_ORDER, CandidateSet
from index.matching.distance import Matches, no_matches
from index.matching.outcome import Outcome
from index.matching.root import limits_of
from index.session import Longer
from index.storage.parameters import Parameters


class _Known(NamedTuple):
    """The documents that a slot needs: those of its hits in order, and roots of members before the slot's own.

    high, low  uint64 [n] each, the keys
    whole      `Layout.rule` [n]
    roots      int64 [first], root of each decided document
    first      the slot's first document with a hit: all before are decided, all from it on are not, unique ones among them
    """

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    whole: Records
    roots: npt.NDArray[np.int64]
    first: int


class Resolve:
    """The operator RESOLVE."""

    def __init__(self, parameters: Parameters, longer: Longer | None, layout: Layout, shards: int):
        """See `Dataflow`."""
        self._parameters, self._layout, self._shards = parameters, layout, shards
        self._longer = 0 if longer is None else longer.ten_thousandths
        self._fates = FateStore(layout.settled)
        # Compiled loops may hang in a JVM's thread: they restore the thread state of whichever operator came there first.
        self._own_thread = ThreadPoolExecutor(1)

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Decide a slot's documents that have hits."""
        settled = rows_of((each.content for each in messages if each.kind == Kind.SETTLED), self._layout.settled)
        if len(settled):
            self._fates.write(task, settled["high"][:0], settled["low"][:0], settled)
        hits = rows_of((each.content for each in messages if each.kind == Kind.HITS), self._layout.hit)
        if not len(hits):
            return
        known, matches = self._known(task, hits)
        outcome = self._own_thread.submit(self._decided, known, matches).result()
        rejects = self._rejects(task, known, outcome)
        shards = shard_of_batches(rejects["of_high"], rejects["of_low"], self._shards)
        for shard, content in packed_by_group(rejects, shards):
            yield Message(Stage.NAME, shard, slot, Kind.REJECTS, content)

    def _known(self, task: Task, hits: Records) -> tuple[_Known, Matches]:
        """The documents, and by their numbers the hits that count: those of entries, as far as it is decided."""
        columns = [np.concatenate([hits[name], hits[f"of_{name}"]]) for name in ("high", "low", "whole")]
        numbers, distinct = numbered(*columns[:2])
        high, low, whole = (np.take(column, distinct) for column in columns)
        hitting, hit = np.split(numbers, 2)
        before = int(hitting.min())
        fates = self._fates.read(task, high[:before], low[:before])
        # Documents 0 to 3, the first two decided, and one member become 0, 1, its root, 2, 3.
        first = before + len(fates.members)
        roots = np.arange(first)
        roots[fates.places] = roots[before:]
        high, low, whole = (
            np.concatenate([column[:before], fates.members[f"of_{name}"], column[before:]])
            for name, column in (("high", high), ("low", low), ("whole", whole))
        )
        counts = np.append(~fates.dropped, True)[np.minimum(hit, before)]
        hit = np.where(hit < before, hit, hit + len(fates.members))
        matches = Matches(hitting - before, hits["distance"].astype(np.int16), hit.astype(np.uint64))
        return _Known(high, low, whole, roots, first), matches.take(counts)

    def _decided(self, known: _Known, matches: Matches) -> Outcome:
        """Apply the rule to documents from `first` on, with the earlier ones as its index."""
        parameters, first, bin_bits = self._parameters, known.first, 0
        fingerprints, looks = known.whole["fingerprint"], known.whole["look"]
        to_roots = None if parameters.root is None else parameters.root_distances
        if parameters.banding is not None and to_roots is not None:
            # Roots of rows are known in the walk alone. It measures signatures, to matches and roots, without a stop.
            matches.distances[:] = UNMEASURED
            to_roots, bin_bits = None, parameters.banding.bin_bits
        before = matches.numbers < first
        among = matches.take(~before)
        pairs = Matches(among.rows, among.distances, among.numbers - np.uint64(first))
        # Without a column of letters all are 0, unknown.
        letters, numbers = known.whole["letters"].sum(axis=1, dtype=np.int64), np.arange(first, dtype=np.uint64)
        candidates = CandidateSet(fingerprints[first:], looks[first:], letters[first:])
        decided = numbers, fingerprints[:first], looks[:first], letters[:first]
        candidates.add(*decided, known.roots.astype(np.uint64))
        kinds, compared = np.full(candidates.rows, EntryKind.NEAR, np.uint8), np.zeros(candidates.rows, np.int64)
        apart = np.zeros(candidates.rows, np.bool_)
        rows = Rows(kinds, candidates, matches.take(before), pairs, no_matches(), None, apart, compared)
        limits = limits_of(parameters.insert, parameters.root, parameters.distance_max, bin_bits, self._longer)
        return Walk(rows, limits, to_roots).decide(first)

    def _rejects(self, task: Task, known: _Known, outcome: Outcome) -> Records:
        """The slot's documents that name an original, as PAIR; puts the fates of duplicates."""
        rows = np.flatnonzero(naming_originals(outcome.verdicts))
        # Orders from ROW_ORDER on are rows, others are numbers already.
        originals = outcome.orders[rows]
        originals = np.where(originals < ROW_ORDER, originals, originals - np.uint64(ROW_ORDER - known.first))
        originals = originals.astype(np.int64)
        rejects = np.zeros(len(rows), PAIR)
        rejects["distance"], rejects["verdict"] = outcome.distances[rows], outcome.verdicts[rows]
        for prefix, numbers in (("", known.first + rows), ("of_", originals)):
            rejects[f"{prefix}high"], rejects[f"{prefix}low"] = known.high[numbers], known.low[numbers]
        member = outcome.entering[rows] & (rejects["verdict"] == Verdict.DUPLICATE)
        members = np.zeros(np.count_nonzero(member), self._layout.settled)
        for name in ("high", "low", "of_high", "of_low"):
            members[name] = rejects[name][member]
        members["of_whole"] = known.whole[originals[member]]
        dropped = ~outcome.entering[rows]
        self._fates.write(task, rejects["high"][dropped], rejects["low"][dropped], members)
        return rejects
