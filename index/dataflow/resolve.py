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
from index.decide.recrawl import no_pages
from index.decide.rule import rule_of
from index.entry import NO_DISTANCE, Verdict, naming_originals
from index.entry import Kind as EntryKind
from index.kernels.judge import Documents
from index.kernels.meet import no_chains
from index.kernels.walk import NO_ORIGIN, Candidates, Outcomes, walk
from index.matching.distance import Matches
from index.matching.outcome import ROW_ORDER
from index.session import Longer
from index.storage.parameters import Parameters


class _Known(NamedTuple):
    """The documents that a slot needs: those of its hits in order, and roots of members before the slot's own.

    high, low  uint64 [n] each, the keys
    whole      `Layout.whole` [n]
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
        shards = shard_of_batches(rejects["earlier_high"], rejects["earlier_low"], self._shards)
        for shard, content in packed_by_group(rejects, shards):
            yield Message(Stage.NAME, shard, slot, Kind.REJECTS, content)

    def _known(self, task: Task, hits: Records) -> tuple[_Known, Matches]:
        """The documents, and by their numbers the hits that count: those of entries, as far as it is decided."""
        columns = [np.concatenate([hits[name], hits[f"earlier_{name}"]]) for name in ("high", "low", "whole")]
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
            np.concatenate([column[:before], fates.members[f"earlier_{name}"], column[before:]])
            for name, column in (("high", high), ("low", low), ("whole", whole))
        )
        counts = np.append(~fates.dropped, True)[np.minimum(hit, before)]
        hit = np.where(hit < before, hit, hit + len(fates.members))
        matches = Matches(hitting - before, hits["distance"].astype(np.int16), hit.astype(np.uint64))
        return _Known(high, low, whole, roots, first), matches.take(counts)

    def _decided(self, known: _Known, matches: Matches) -> Outcomes:
        """Apply the rule to documents from `first` on, with the earlier ones as its index."""
        documents, first = _documents(known), known.first
        count = len(known.high) - first
        # Places of rows come first, those of earlier documents behind them.
        numbers = matches.numbers.astype(np.int64)
        places = np.where(numbers < first, numbers + count, numbers - first)
        order = np.argsort(matches.rows, kind="stable")
        begins = np.searchsorted(matches.rows[order], np.arange(count + 1))
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
        rule = rule_of(self._parameters, self._longer)
        walk(candidates, no_chains(count), no_pages(count), documents, outcomes, rule, False)
        return outcomes

    def _rejects(self, task: Task, known: _Known, outcome: Outcomes) -> Records:
        """The slot's documents that name an original, as PAIR; puts the fates of duplicates."""
        rows, count = np.flatnonzero(naming_originals(outcome.verdicts)), len(outcome.verdicts)
        # With 5 rows and 3 earlier documents, place 6 is the second of the latter, and row 1 is number 4.
        named = outcome.named[rows]
        originals = np.where(named >= count, named - count, named + known.first)
        rejects = np.zeros(len(rows), PAIR)
        rejects["distance"], rejects["verdict"] = outcome.distances[rows], outcome.verdicts[rows]
        for prefix, numbers in (("", known.first + rows), ("earlier_", originals)):
            rejects[f"{prefix}high"], rejects[f"{prefix}low"] = known.high[numbers], known.low[numbers]
        member = outcome.entering[rows] & (rejects["verdict"] == Verdict.DUPLICATE)
        members = np.zeros(np.count_nonzero(member), self._layout.settled)
        for name in ("high", "low", "earlier_high", "earlier_low"):
            members[name] = rejects[name][member]
        members["earlier_whole"] = known.whole[originals[member]]
        dropped = ~outcome.entering[rows]
        self._fates.write(task, rejects["high"][dropped], rejects["low"][dropped], members)
        return rejects


def _documents(known: _Known) -> Documents:
    """Columns of the slot's rows, and behind them of the earlier documents."""
    first, size = known.first, len(known.high)
    whole = np.concatenate([known.whole[first:], known.whole[:first]])
    count = size - first
    roots = np.concatenate([np.arange(count), known.roots + count])
    return Documents(
        order=np.concatenate(
            [np.arange(ROW_ORDER, ROW_ORDER + count, dtype=np.uint64), np.arange(first, dtype=np.uint64)]
        ),
        fingerprints=np.ascontiguousarray(whole["fingerprint"]),
        looks=np.ascontiguousarray(whole["look"]),
        kinds=np.full(size, EntryKind.NEAR, np.uint8),
        roots=roots,
        delivered=roots == np.arange(size),
        lost=np.zeros(size, np.bool_),
        # Without a column of letters all are 0, unknown.
        lengths=whole["letters"].sum(axis=1, dtype=np.int64),
        ids=np.zeros(size, np.uint64),
        hosts=np.zeros(size, np.uint32),
        digests=np.zeros((size, 2), np.uint64),
    )
