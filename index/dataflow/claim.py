"""CLAIM: documents with the same block or band meet here, in order. Keyed by the keys' shard.

A document meets every earlier one in its bucket. Later duplicates enter too: CLAIM does not know the verdicts, and the
rule asks for them.

One exception keeps buckets small however often a page is copied: among documents alike in everything compared, only
the first enters. They have the same matches, so a later one is unique only if the first is. Wherever a later one is near
enough, the first is as near, and earlier. If entries may leave, RESOLVE knows which alike documents follow the first.

With retention that holds for each epoch: once an epoch is over its documents have expired, those that followed among them.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from index.dataflow.buckets.in_place import Buckets
from index.dataflow.buckets.segmented import SegmentedBuckets
from index.dataflow.ledger import floors_of
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import (
    ADDS,
    ASKS,
    EXACT_PAGES,
    PAGE_BITS,
    PAIR,
    STAYS,
    Layout,
    Retained,
    Rows,
    by_group,
    packed_by_group,
    places_in_runs,
    rows_of,
    run_begins,
    shard_of_batches,
)
from index.entry import NO_DISTANCE, Verdict
from index.matching.distance import hamming
from index.matching.minhash import mixed
from index.matching.simhash import probe_radii
from index.storage.parameters import Parameters

_KEY = struct.Struct("<QH")

PAIRS_AT_ONCE = 2**18
"""Pairs compared at once: bounds their memory."""


class _Opened(Protocol):
    """Pages as read: their entries in insertion order, page after page, and each page's number of them."""

    @property
    def entries(self) -> Rows: ...

    @property
    def counts(self) -> npt.NDArray[np.int64]: ...

    def add(self, task: Task, places: npt.NDArray[np.intp], entries: Rows) -> None: ...


class _Buckets(Protocol):
    """One key's entries under pages. Its methods are those of `Buckets`."""

    def read(self, task: Task, pages: npt.NDArray[np.uint64]) -> _Opened: ...

    def expire(self, task: Task, floor: int) -> None: ...


class Claim:
    """Pairs each document with the earlier ones that share a key: hits if that gives the distance, else candidates."""

    def __init__(
        self,
        parameters: Parameters,
        layout: Layout,
        shards: int,
        chunk_entries: int,
        segment_entries: int,
        retained: Retained | None = None,
    ):
        """See `Dataflow`."""
        self._parameters, self._layout, self._shards = parameters, layout, shards
        self._retained, self._chunk_entries, self._segment_entries = retained, chunk_entries, segment_entries
        self._buckets: dict[int, _Buckets] = {}
        self._met = PAIR if layout.recalls else layout.hit
        if parameters.banding is None:
            self._radii = np.array(probe_radii(parameters.blocks, parameters.distance_max))

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Match a slot's claims with the stored ones and each other, in order."""
        filed = [each for each in messages if each.kind == Kind.CLAIMS]
        # A message has a batch's claims, which begin with their keys.
        ordered = sorted(filed, key=lambda message: _KEY.unpack_from(message.content))
        claims = rows_of((each.content for each in ordered), self._layout.claim)
        if self._parameters.frames is not None:
            # Messages of ORDER and FRAME have parts of batches.
            claims = np.take(claims, np.lexsort((claims["low"], claims["high"])))
        rejects, near = [np.empty(0, PAIR)], [np.empty(0, self._met)]
        buckets = self._buckets_of(task, messages[0].key)
        for pages, rows, others in self._meet(task, buckets, claims):
            exact, places = pages >= EXACT_PAGES, np.flatnonzero(pages < EXACT_PAGES)
            # An entry that may leave is no original for good: RESOLVE decides short texts too.
            equals = near if self._layout.leaves else rejects
            equals.append(_equal(rows[exact], others[exact]))
            near.append(self._compared(pages[places], np.take(rows, places), np.take(others, places)))
        yield from self._by_original(np.concatenate(rejects), Stage.NAME, Kind.REJECTS, slot)
        pairs = np.concatenate(near)
        if self._met == PAIR:
            yield from self._by_original(pairs, Stage.RECALL, Kind.CANDIDATES, slot)
        elif len(pairs):
            yield Message(Stage.RESOLVE, 0, slot, Kind.HITS, pairs.tobytes())
        for floor in floors_of(messages):
            buckets.expire(task, floor)

    def _buckets_of(self, task: Task, key: int) -> _Buckets:
        """The key's buckets."""
        if key not in self._buckets:
            self._buckets[key] = (
                Buckets(self._layout.entry, self._chunk_entries, self._retained)
                if self._parameters.banding is None
                else SegmentedBuckets(task, self._layout.entry, self._segment_entries, self._retained)
            )
        return self._buckets[key]

    def _by_original(self, pairs: Rows, stage: Stage, kind: Kind, slot: int) -> Iterator[Message]:
        shards = shard_of_batches(pairs["earlier_high"], self._shards)
        for shard, content in packed_by_group(pairs, shards):
            yield Message(stage, shard, slot, kind, content)

    def _meet(self, task: Task, buckets: _Buckets, claims: Rows) -> Iterator[tuple[npt.NDArray[np.int64], Rows, Rows]]:
        """Pairs of a claim and an earlier entry or claim in its page, in portions: pages int64 [m], claims and entries [m].

        claims  in order of documents

        Then enters the claims, except those alike to an earlier one.
        """
        claims = np.take(claims, np.argsort(claims["page"], kind="stable"))
        firsts = run_begins(claims["page"])
        pages, sizes = claims["page"][firsts], np.diff(firsts, append=len(claims))
        claim_pages = np.repeat(np.arange(len(pages)), sizes)
        opened = buckets.read(task, pages)
        stored, counts = opened.entries, opened.counts
        entry_pages = np.repeat(np.arange(len(pages)), counts)
        leading = _leading(claims, claim_pages, stored, entry_pages, self._retained)
        leaders = np.zeros(len(leading), stored.dtype)
        for name in stored.dtype.names or ():
            leaders[name] = claims[name][leading]
        # A page's residents: the stored entries, then its leaders in order. A claim meets a run of them, all earlier.
        pages_of_residents = np.concatenate([entry_pages, claim_pages[leading]])
        residents = np.take(np.concatenate([stored, leaders]), np.argsort(pages_of_residents, kind="stable"))
        resident_counts = np.bincount(pages_of_residents, minlength=len(pages))
        begins = np.cumsum(resident_counts) - resident_counts
        before = np.searchsorted(leading, np.arange(len(claims)))
        earlier = before - np.repeat(before[firsts], sizes)
        lengths = np.where(claims["use"] & ASKS, counts[claim_pages] + earlier, 0)
        for some, rows, others in _runs(begins[claim_pages], lengths):
            asking = some[rows]
            yield pages[claim_pages[asking]].astype(np.int64), np.take(claims, asking), np.take(residents, others)
        opened.add(task, claim_pages[leading], leaders)

    def _compared(self, pages: npt.NDArray[np.int64], claims: Rows, others: Rows) -> Rows:
        parameters = self._parameters
        if parameters.banding is not None:
            return _pairs(claims, others, NO_DISTANCE)
        distances = hamming(claims["words"], others["words"])
        near = np.flatnonzero(distances <= parameters.distance_max)
        claims, others, distances = claims[near], others[near], distances[near]
        blocks = np.bitwise_count((claims["words"] ^ others["words"]).astype(">u8").view(">u2"))
        # A pair that shares several blocks meets in each, and counts in the first.
        first = np.argmax(blocks <= self._radii, axis=1) == pages[near] >> PAGE_BITS
        claims, others, distances = claims[first], others[first], distances[first]
        hits = _pairs(claims, others, distances, self._met)
        if self._met != PAIR:
            for whole, rows in (("whole", claims), ("earlier_whole", others)):
                hits[whole]["fingerprint"], hits[whole]["letters"] = rows["words"], rows["letters"]
        return hits


def _leading(
    claims: Rows,
    claim_pages: npt.NDArray[np.intp],
    stored: Rows,
    entry_pages: npt.NDArray[np.intp],
    retained: Retained | None,
) -> npt.NDArray[np.intp]:
    """Claims that enter, ascending: without an alike entry or earlier claim in their page, and with retention in their epoch.

    Those that stay enter whatever is alike.
    """
    adding = np.flatnonzero(claims["use"] & ADDS)
    # Page and values in one number, as unlikely to collide as other digests of 64 bits.
    digests = np.concatenate([entry_pages, claim_pages[adding]]).astype(np.uint64)
    for name in ("words", "letters", "alike"):
        for column in np.concatenate([stored[name], claims[name][adding]]).T:
            digests = mixed(digests) ^ column
    if retained is not None:
        highs = np.concatenate([stored["high"], claims["high"][adding]])
        digests = mixed(digests) ^ retained.epochs(highs).astype(np.uint64)
    staying = np.flatnonzero(claims["use"][adding] & STAYS)
    digests[len(stored) + staying] = mixed(digests[len(stored) + staying]) ^ staying.astype(np.uint64)
    _, first = np.unique(digests, return_index=True)
    return np.sort(adding[first[first >= len(stored)] - len(stored)])


def _runs(
    begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Each row with all places in its run, in portions: rows int64 [r], their places in `rows` int64 [m], places int64 [m]."""
    asking = np.flatnonzero(lengths)
    portions = np.cumsum(lengths[asking]) // PAIRS_AT_ONCE
    for _, some in by_group(portions):
        rows = asking[some]
        row_lengths = lengths[rows]
        repeated = np.repeat(np.arange(len(rows)), row_lengths)
        yield rows, repeated, places_in_runs(begins[rows], row_lengths)


def _equal(claims: Rows, others: Rows) -> Rows:
    """Pairs of equal words."""
    equal = (claims["words"] == others["words"]).all(axis=1)
    return _pairs(claims[equal], others[equal], 0)


def _pairs(claims: Rows, others: Rows, distances: npt.NDArray[np.int16] | int, kind: np.dtype[np.void] = PAIR) -> Rows:
    pairs = np.zeros(len(claims), kind)
    for name in ("high", "low"):
        pairs[name], pairs[f"earlier_{name}"] = claims[name], others[name]
    pairs["distance"], pairs["verdict"] = distances, Verdict.DUPLICATE
    return pairs
