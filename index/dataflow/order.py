"""ORDER: every document gets its place in the one order in which all are decided. Keyed by partition of the input."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from index.dataflow.message import Arrival, Kind, Message, Stage, Task
from index.dataflow.rows import ADDS, ASKS, PAGE_BITS, Layout, Rows, by_group, document_keys, shard_of, shard_of_batches
from index.dataflow.texts import pack_texts
from index.decide.prepare import require_sound
from index.entry import Entries
from index.entry import Kind as EntryKind
from index.errors import ParametersDiffer
from index.matching.minhash import HASH_BITS, band_keys
from index.matching.simhash import BLOCK_BITS, flips, probe_keys, probe_radii
from index.storage.parameters import Parameters

_STATE = b"recorded"


class Recorded(NamedTuple):
    """What ORDER knows of a partition.

    stamp    of its fingerprints, and of the flow; empty before its first document
    ends     by stream: every offset below is decided
    time_ms  of its last batch, in the order
    """

    stamp: str
    ends: dict[str, int]
    time_ms: int


class Order:
    """Gives out places in the order, and hands every document to whoever looks it up, keeps it, and waits for its verdict."""

    def __init__(self, parameters: Parameters, layout: Layout, stamp: str, shards: int, slot_ms: int, band_bits: int):
        """See `Dataflow`; stamp: all of the flow that must not change as long as its state lives."""
        self._parameters, self._layout = parameters, layout
        self._stamp, self._shards, self._slot_ms, self._band_bits = stamp, shards, slot_ms, band_bits
        self._recalls = parameters.banding is not None or parameters.look is not None
        if parameters.banding is None:
            masks = [flips(radius) for radius in probe_radii(parameters.blocks, parameters.distance_max)]
            self._adds = np.concatenate(masks) == 0

    def arrive(self, task: Task, arrival: Arrival) -> Iterator[Message]:
        """Take a batch from the log; batches of a partition come in the order of the log, and may come again.

        Raises ParametersDiffer where the batch, or the state, belongs to other settings; ValueError for a broken batch.
        """
        known = self._recorded(task)
        stream, ends = arrival.source.stream, known.ends
        # Time goes on with every batch, also an empty one: the watermark does. It never goes back, as the log's clock may.
        time_ms = max(arrival.time_ms, known.time_ms)
        begin = max(arrival.begin, ends.get(stream, 0))
        new = begin < arrival.end
        if new:
            if ends and stream not in ends:
                # A topic that was made again begins at the same offsets: keys must differ all the same.
                time_ms = max(time_ms, known.time_ms + 1)
            ends = {**ends, stream: arrival.end}
            known = self._of_settings(known, arrival)
        task.put(_STATE, json.dumps([known.stamp, ends, time_ms]).encode())
        if not new:
            return
        require_sound(arrival.entries, self._parameters)
        first = int(np.searchsorted(arrival.entries.offsets, np.uint64(begin)))
        entries = arrival.entries.take(np.arange(first, len(arrival.entries)))
        slot = -(-time_ms // self._slot_ms) * self._slot_ms
        yield from self._handed_out(arrival, entries, begin, first, time_ms, slot)

    def _recorded(self, task: Task) -> Recorded:
        content = task.get(_STATE)
        return Recorded("", {}, 0) if content is None else Recorded(*json.loads(content))

    def _of_settings(self, known: Recorded, arrival: Arrival) -> Recorded:
        """What is known, with the settings of its first batch; raises where this one is of others."""
        own = json.dumps([self._stamp, arrival.stamp])
        if known.stamp not in ("", own):
            raise ParametersDiffer(
                f"Partition {arrival.source.partition} of {arrival.name} was decided with other settings so far: {known.stamp}; "
                f"asked {own}. Use those settings, or begin with an empty state."
            )
        return known._replace(stamp=own)

    def _handed_out(
        self, arrival: Arrival, entries: Entries, begin: int, first: int, time_ms: int, slot: int
    ) -> Iterator[Message]:
        partition = arrival.source.partition
        high, low = document_keys(time_ms, partition, begin, len(entries))
        heading = np.array([high, begin, first, len(entries)], "<u8").tobytes()
        kinds = entries.kinds.astype("u1").tobytes()
        yield Message(Stage.JOIN, partition, slot, Kind.BATCH, heading + kinds + arrival.content)
        entering = np.flatnonzero((entries.kinds == EntryKind.NEAR) | (entries.kinds == EntryKind.EXACT))
        if not len(entering):
            return
        of_batch = np.array([high], np.uint64), low[:1]
        keeper = int(shard_of_batches(*of_batch, self._shards)[0])
        texts = [arrival.source.stream, arrival.name, *entries.ids]
        named = heading + entries.offsets.astype("<u8").tobytes() + pack_texts(texts)
        yield Message(Stage.NAME, keeper, slot, Kind.NAMES, named)
        near = np.flatnonzero(entries.kinds == EntryKind.NEAR)
        exact = np.flatnonzero(entries.kinds == EntryKind.EXACT)
        if len(near):
            if self._recalls:
                signatures = self._signatures(entries, near, high, low).tobytes()
                yield Message(Stage.RECALL, keeper, slot, Kind.SIGNATURES, signatures)
                yield Message(Stage.VERIFY, keeper, slot, Kind.SIGNATURES, signatures)
            yield from self._claims(self._near_claims(entries, near, high, low), Kind.NEAR_CLAIMS, slot)
        if len(exact):
            yield from self._claims(self._exact_claims(entries, exact, high, low), Kind.EXACT_CLAIMS, slot)

    def _signatures(self, entries: Entries, rows: npt.NDArray[np.intp], high: int, low: npt.NDArray[np.uint64]) -> Rows:
        signatures = np.zeros(len(rows), self._layout.signature)
        signatures["high"], signatures["low"] = high, low[rows]
        signatures["fingerprint"] = entries.fingerprints[rows]
        if self._parameters.look is not None:
            signatures["look"] = entries.look_rows[rows]
        return signatures

    def _near_claims(
        self, entries: Entries, rows: npt.NDArray[np.intp], high: int, low: npt.NDArray[np.uint64]
    ) -> Rows:
        """Claims of NEAR rows under all keys that they enter or ask."""
        fingerprints, banding = entries.fingerprints[rows], self._parameters.banding
        if banding is not None:
            keys = band_keys(fingerprints, banding)
            hashes = keys & np.uint64(2**HASH_BITS - 1)
            bands = (keys >> np.uint64(HASH_BITS)) << np.uint64(PAGE_BITS)
            pages = bands | (hashes >> np.uint64(HASH_BITS - self._band_bits))
            words, uses = hashes[:, :, None], np.full(keys.shape, ADDS | ASKS, np.uint8)
        else:
            keys = probe_keys(fingerprints, self._parameters.distance_max).astype(np.uint64)
            blocks = (keys >> np.uint64(BLOCK_BITS)) << np.uint64(PAGE_BITS)
            pages = blocks | (keys & np.uint64(2**BLOCK_BITS - 1))
            words = np.broadcast_to(fingerprints[:, None, :], (*keys.shape, fingerprints.shape[1]))
            uses = np.broadcast_to(np.where(self._adds, ADDS | ASKS, ASKS).astype(np.uint8), keys.shape)
        claims = np.zeros(keys.shape, self._layout.near_claim)
        claims["high"], claims["low"] = high, low[rows, None]
        claims["page"], claims["use"], claims["words"] = pages, uses, words
        if "alike" in (claims.dtype.names or ()):
            claims["alike"] = _digests(fingerprints, entries.look_rows[rows])[:, None]
        return claims.reshape(-1)

    def _exact_claims(
        self, entries: Entries, rows: npt.NDArray[np.intp], high: int, low: npt.NDArray[np.uint64]
    ) -> Rows:
        claims = np.zeros(len(rows), self._layout.exact_claim)
        claims["high"], claims["low"], claims["use"] = high, low[rows], ADDS | ASKS
        claims["words"] = entries.fingerprints[rows]
        claims["page"] = _digests(entries.fingerprints[rows], entries.look_rows[rows, :0]) >> np.uint64(PAGE_BITS)
        return claims

    def _claims(self, claims: Rows, kind: Kind, slot: int) -> Iterator[Message]:
        for shard, places in by_group(shard_of(claims["page"], self._shards)):
            yield Message(Stage.CLAIM, shard, slot, kind, claims[places].tobytes())


def _digests(fingerprints: npt.NDArray[np.uint64], looks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """XXH3 of each fingerprint and its look, uint64 [n]."""
    octets = np.ascontiguousarray(fingerprints.astype("<u8", copy=False)).view(np.uint8)
    whole = np.ascontiguousarray(np.hstack([octets, looks]))
    size, content = whole.shape[1], whole.tobytes()
    digests = [xxhash.xxh3_64_intdigest(content[at : at + size]) for at in range(0, len(content), size)]
    return np.array(digests, np.uint64)
