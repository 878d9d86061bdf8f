"""RESOLVE: the rule, for all documents with an earlier match. One key: every decision sees the earlier ones.

Most documents never come here: without a hit a document is unique. `index.decide.rule` decides the others, with a slot's
documents as its rows and all earlier ones as its index.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.leaves import distinct_pairs
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import REJECT, ROW_BITS, Layout, by_group, numbered, rows_of, shard_of_batches
from index.dataflow.rows import Rows as Records
from index.decide.rule import Rows, Walk
from index.entry import NO_DISTANCE, Verdict
from index.entry import Kind as EntryKind
from index.matching.candidates import CandidateSet
from index.matching.distance import Matches, nearest, no_matches
from index.matching.outcome import Outcome
from index.matching.root import limits_of
from index.storage.parameters import Parameters

_NAME = struct.Struct(">cQQ")
_REJECTED, _SIGNATURE = b"r", b"s"

_STATUS = np.dtype([("low", "<u8"), ("root_high", "<u8"), ("root_low", "<u8"), ("entered", "?")])
"""Fate of a rejected document: its original, and whether it is an entry itself."""

_Numbers = npt.NDArray[np.int64]


class _Known(NamedTuple):
    """The documents that a slot needs: both sides of all hits, and their roots, numbered in order.

    high, low  uint64 [n] each, the keys
    counts     bool [n], whether a document is an entry, by the decisions so far
    roots      int64 [n], for a rejected entry its original's number; for all others their own

    fingerprints uint64 [n, words] and looks uint8 [n, look bytes], without columns unless the rule needs them
    """

    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.bool_]
    roots: _Numbers
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]


class Resolve:
    """The operator RESOLVE."""

    def __init__(self, parameters: Parameters, layout: Layout, shards: int):
        """See `Dataflow`."""
        self._parameters, self._layout, self._shards = parameters, layout, shards

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Decide a slot's documents that have hits."""
        settled = [message.content for message in messages if message.kind == Kind.SETTLED]
        if settled:
            self._settle(task, rows_of(settled, self._layout.settled))
        contents = (message.content for message in messages if message.kind == Kind.HITS)
        hits = distinct_pairs(rows_of(contents, self._layout.hit))
        if not len(hits):
            return
        known, hitting, hit = _known(task, hits)
        if self._parameters.root is not None:
            known = self._with_signatures(task, hits, known, hitting, hit)
        # All before the first document with a hit are decided; the others are rows, including this slot's unique ones.
        first = int(hitting.min())
        matches = Matches(hitting, hits["distance"].astype(np.int16), hit.astype(np.uint64))
        outcome = self._decided(matches, known, first)
        rows = np.flatnonzero(outcome.verdicts == Verdict.DUPLICATE)
        originals = _originals(outcome, rows, first)
        self._keep(task, known, outcome, rows, originals, first)
        rejects = np.zeros(len(rows), REJECT)
        rejects["high"], rejects["low"] = known.high[first + rows], known.low[first + rows]
        rejects["of_high"], rejects["of_low"] = known.high[originals], known.low[originals]
        rejects["distance"] = outcome.distances[rows]
        for shard, places in by_group(shard_of_batches(rejects["of_high"], rejects["of_low"], self._shards)):
            yield Message(Stage.NAME, shard, slot, Kind.REJECTS, rejects[places].tobytes())

    def _settle(self, task: Task, settled: Records) -> None:
        status = np.zeros(len(settled), _STATUS)
        status["low"], status["entered"] = settled["low"], True
        status["root_high"], status["root_low"] = settled["of_high"], settled["of_low"]
        for name, places in _batches(settled["high"], settled["low"]):
            task.put(name, status[places].tobytes())
        if self._parameters.root is None:
            return
        _, roots = numbered(settled["of_high"], settled["of_low"])
        for root in settled[roots]:
            look = root["look"].tobytes() if self._parameters.look is not None else b""
            name = _NAME.pack(_SIGNATURE, int(root["of_high"]), int(root["of_low"]))
            task.put(name, root["fingerprint"].tobytes() + look)

    def _decided(self, matches: Matches, known: _Known, first: int) -> Outcome:
        """Apply the rule to documents from `first` on, with the earlier ones as its index."""
        parameters, count = self._parameters, len(known.high) - first
        fingerprints, looks = known.fingerprints, known.looks
        before = matches.numbers < first
        in_index = matches.take(before)
        numbers = in_index.numbers.astype(np.int64)
        counts = known.counts[numbers]
        if parameters.root is not None:
            rows, roots = in_index.rows, known.roots[numbers]
            to_roots = parameters.root_distances(fingerprints[rows], fingerprints[roots], looks[rows], looks[roots])
            counts = counts & (to_roots != NO_DISTANCE)
        best, among = nearest(in_index.take(counts), 1), matches.take(~before)
        pairs = nearest(Matches(among.rows - first, among.distances, among.numbers - np.uint64(first)), None)
        candidates = CandidateSet(fingerprints[first:], looks[first:])
        candidates.add(np.arange(first, dtype=np.uint64), fingerprints[:first], looks[:first])
        given = Matches(best.rows - first, best.distances, known.roots[best.numbers.astype(np.int64)].astype(np.uint64))
        kinds, compared = np.full(count, EntryKind.NEAR, np.uint8), np.zeros(count, np.int64)
        limits = limits_of(parameters.insert, parameters.root, parameters.distance_max, 0)
        walk = Walk(
            Rows(kinds, candidates, given, pairs, no_matches(), None, np.zeros(count, np.bool_), compared),
            limits,
            None if parameters.root is None else parameters.root_distances,
        )
        return walk.decide(first)

    def _with_signatures(self, task: Task, hits: Records, known: _Known, hitting: _Numbers, hit: _Numbers) -> _Known:
        parameters = self._parameters
        fingerprints = np.zeros((len(known.high), parameters.words), np.uint64)
        looks = np.zeros((len(known.high), parameters.look_bytes), np.uint8)
        there = np.zeros(len(known.high), np.bool_)
        for numbers, prefix in ((hitting, ""), (hit, "of_")):
            there[numbers] = True
            fingerprints[numbers] = hits[f"{prefix}fingerprint"]
            if parameters.look is not None:
                looks[numbers] = hits[f"{prefix}look"]
        for number in np.flatnonzero(~there).tolist():
            content = task.get(_NAME.pack(_SIGNATURE, int(known.high[number]), int(known.low[number])))
            assert content is not None, "the signature of a root is kept with its first member"
            fingerprints[number] = np.frombuffer(content, "<u8", parameters.words)
            looks[number] = np.frombuffer(content, np.uint8, offset=8 * parameters.words)
        return known._replace(fingerprints=fingerprints, looks=looks)

    def _keep(
        self, task: Task, known: _Known, outcome: Outcome, rows: _Numbers, originals: _Numbers, first: int
    ) -> None:
        status = np.zeros(len(rows), _STATUS)
        low = known.low[first + rows]
        status["low"], status["entered"] = low, outcome.entering[rows]
        status["root_high"], status["root_low"] = known.high[originals], known.low[originals]
        for name, places in _batches(known.high[first + rows], low):
            task.put(name, status[places].tobytes())
        if self._parameters.root is None:
            return
        for number in np.unique(originals[outcome.entering[rows]]).tolist():
            name = _NAME.pack(_SIGNATURE, int(known.high[number]), int(known.low[number]))
            task.put(name, known.fingerprints[number].astype("<u8").tobytes() + known.looks[number].tobytes())


def _known(task: Task, hits: Records) -> tuple[_Known, _Numbers, _Numbers]:
    """All documents that hits mention, and each hit's two numbers."""
    high, low, of_high, of_low = (hits[name].astype(np.uint64) for name in ("high", "low", "of_high", "of_low"))
    statuses = []
    for name, places in _batches(of_high, of_low):
        content = task.get(name)
        if content is not None:
            kept = np.frombuffer(content, _STATUS)
            kept = kept[np.isin(kept["low"], of_low[places])]
            statuses.append((np.full(len(kept), of_high[places[0]]), kept))
    rejected = np.concatenate([np.empty(0, np.uint64), *(each for each, _ in statuses)])
    status = np.concatenate([np.empty(0, _STATUS), *(kept for _, kept in statuses)])
    entered = status["entered"]
    highs = np.concatenate([high, of_high, rejected, status["root_high"][entered]])
    lows = np.concatenate([low, of_low, status["low"], status["root_low"][entered]])
    numbers, distinct = numbered(highs, lows)
    hitting, hit, of_rejected, of_roots = np.split(numbers, np.cumsum([len(high), len(high), len(status)]))
    counts, roots = np.ones(len(distinct), np.bool_), np.arange(len(distinct))
    counts[of_rejected], roots[of_rejected[entered]] = entered, of_roots
    unread = np.empty((len(distinct), 0), np.uint64), np.empty((len(distinct), 0), np.uint8)
    return _Known(highs[distinct], lows[distinct], counts, roots, *unread), hitting, hit


def _originals(outcome: Outcome, rows: _Numbers, first: int) -> _Numbers:
    """Numbers of these rows' originals among the known documents. The rule numbers entering rows from `first` on."""
    originals = outcome.originals[rows].astype(np.int64)
    return np.concatenate([np.arange(first), first + np.flatnonzero(outcome.entering)])[originals]


def _batches(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> Iterator[tuple[bytes, npt.NDArray[np.intp]]]:
    begins = low >> np.uint64(ROW_BITS)
    distinct, inverse = np.unique(np.stack([high, begins], axis=1), axis=0, return_inverse=True)
    for batch, places in by_group(inverse.reshape(-1)):
        yield _NAME.pack(_REJECTED, *distinct[batch].tolist()), places
