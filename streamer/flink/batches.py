"""Input and output of the flow: fingerprint batches as arrivals, and verdicts as batches. Pure."""

import json
import struct
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index import Entries, Source, is_given_back, plain_source
from index.dataflow import Arrival, Decided, Floor
from streamer.flink.seed_batch import holds_seeds, unpack_seeds
from streamer.parts.batches import is_of_engine
from streamer.parts.envelope import Heading, stamp_text
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints, unpack_fingerprints
from streamer.parts.verdict_batch import VerdictBatch, pack_verdicts
from streamer.records.reason import EQUAL_REASONS, recrawl_by

_UPDATES = recrawl_by("update")
"""Reasons by the marks that a flow sets."""

_NO_STAMP = "{}"
_FORGET = "forget"
_PARTITION = struct.Struct("<I")
_PARTITION_AT = 8


def partition_of(content: bytes) -> int:
    """Input partition of a packed batch; 0 for other content, which `arrival` refuses."""
    if len(content) < _PARTITION_AT + _PARTITION.size:
        return 0
    partition: int = _PARTITION.unpack_from(content, _PARTITION_AT)[0]
    return partition


def arrival(content: bytes, time_ms: int, topic: str) -> Arrival:
    """Arrival from a batch with documents or an index's entries. Raises BatchUnreadable.

    topic  its topic, for messages
    """
    where, seeds, floor, forgets = f"a record of {topic}", None, None, None
    if holds_seeds(content):
        heading, batch, seeds = unpack_seeds(content, where)
        entries, content = _nothing(heading) if batch is None else batch.entries, b""
    else:
        batch = unpack_fingerprints(content, where)
        heading, entries = batch.heading, batch.entries
        floor, forgets = _said(heading)
    source, (begin, end) = plain_source(entries.sources[0]), (heading.begin, heading.end)
    entries, given_back = replace(entries, sources=(source,)), is_given_back(heading.stream)
    return Arrival(
        time_ms, source, heading.topic, begin, end, heading.stamp, entries, content, seeds, floor, forgets, given_back
    )


def heartbeat(partition: int) -> bytes:
    """A batch without decisions, which advances a partition's time."""
    return _sign(partition, _NO_STAMP)


def floor_batch(floor: Floor) -> bytes:
    """A heartbeat with a floor: all earlier epochs are over."""
    return _sign(floor.partition, stamp_text({"epoch": str(floor.epoch), "run": str(floor.run)}))


def forget_batch(partition: int, names: npt.NDArray[np.uint64]) -> bytes:
    """A heartbeat that forgets earlier documents by these `name_digests`, uint64 [n]; the log does not have the names."""
    return _sign(partition, stamp_text({_FORGET: names.astype(">u8").tobytes().hex()}))


def _sign(partition: int, stamp: str) -> bytes:
    heading = Heading(stamp, "", "", partition, 0, 0)
    return pack_fingerprints(FingerprintBatch(heading, _nothing(heading), ()))


def _said(heading: Heading) -> tuple[Floor | None, npt.NDArray[np.uint64] | None]:
    """The floor in a heartbeat, and what it forgets. Most have neither."""
    if not is_of_engine(heading) or heading.stamp == _NO_STAMP:
        return None, None
    stamp = json.loads(heading.stamp)
    if _FORGET in stamp:
        return None, np.frombuffer(bytes.fromhex(stamp[_FORGET]), ">u8").astype(np.uint64)
    return Floor(int(stamp["epoch"]), heading.partition, int(stamp["run"])), None


def _nothing(heading: Heading) -> Entries:
    nothing, none = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
    source = Source(heading.stream, heading.partition)
    return Entries(
        (source,), none.astype(np.uint32), nothing, none, none, nothing.reshape(0, 1), nothing.astype(np.int64), ()
    )


def verdict_batch(decided: Decided, decider: str) -> bytes:
    """Verdicts in the form that `route` reads; `decider`: the decider's name."""
    batch = unpack_fingerprints(decided.content, "a batch in the state")
    heading, rows = batch.heading, slice(decided.first, None)
    entries = batch.entries
    return pack_verdicts(
        VerdictBatch(
            heading=Heading(
                heading.stamp, heading.stream, heading.topic, heading.partition, decided.begin, heading.end
            ),
            decider=decider,
            offsets=entries.offsets[rows],
            verdicts=decided.verdicts,
            reasons=decided.reasons(entries.reasons[rows], _UPDATES, EQUAL_REASONS),
            distances=decided.distances,
            ratios=decided.ratios(entries.letters[rows]),
            # A repeated decision is the same, and leaves no sign.
            replayed=decided.verdicts == -1,
            kinds=entries.kinds[rows],
            fingerprints=entries.fingerprints[rows],
            ids=batch.output_ids[rows],
            details=list(batch.details)[rows],
            original_ids=decided.original_ids,
            original_positions=decided.original_positions,
            names=decided.names,
        )
    )
