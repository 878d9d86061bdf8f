"""What an index said of a seed's records, for RESOLVE: it takes these decisions as they are, and walks over nothing."""

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Kind, Message, Stage
from index.dataflow.resolving.given_back import GIVEN_BACK
from index.dataflow.rows import (
    PAIR,
    RECALLED_ONLY,
    RECORDED,
    UNNAMED,
    Rows,
    packed_by_group,
    shard_of_batches,
)
from index.entry import NO_DISTANCE

_NUMBER = struct.Struct("<QQ")


def are_entries(history: Rows) -> npt.NDArray[np.bool_]:
    """Whether each record, HISTORY [n], is an entry that counts, bool [n]."""
    counting: npt.NDArray[np.bool_] = history["entered"] & ~history["gone"]
    return counting


def pack_number(high: int, number: int) -> bytes:
    """A batch's key, and the index's number for its first entry: retention has removed some before."""
    return _NUMBER.pack(high, number)


def numbers_of(messages: Iterable[Message]) -> dict[int, int]:
    """Numbers by key, in order."""
    return dict(sorted(_NUMBER.unpack(each.content) for each in messages if each.kind == Kind.NUMBERED))


def history_messages(
    history: Rows, names: npt.NDArray[np.uint64], high: int, low: npt.NDArray[np.uint16], slot: int, shards: int
) -> Iterator[Message]:
    """Decisions on a batch, HISTORY [n], to RESOLVE, and what they name to RECALL; names: uint64 [n, 2], `name_digests`."""
    recorded = np.zeros(len(history), RECORDED)
    recorded["high"], recorded["low"], recorded["history"] = high, low, history
    yield Message(Stage.RESOLVE, 0, slot, Kind.RECORDED, recorded.tobytes())
    given_back = np.flatnonzero(history["given_back"])
    if len(given_back):
        rows = np.zeros(len(given_back), GIVEN_BACK)
        rows["high"], rows["low"], rows["names"] = high, low[given_back], names[given_back]
        yield Message(Stage.RESOLVE, 0, slot, Kind.GIVEN_BACK, rows.tobytes())
    is_own = (history["named_high"] == np.uint64(high)) & (history["named_low"] == low)
    # RESOLVE keeps a page's counts, though the records before have left the index: its own document stands for a former one.
    counts = (history["returns"] | history["strangers"]) != 0
    naming = np.flatnonzero((counts | ~is_own) & (history["named_high"] != np.uint64(UNNAMED)))
    pairs = np.zeros(len(naming), PAIR)
    pairs["high"], pairs["low"], pairs["distance"], pairs["verdict"] = high, low[naming], NO_DISTANCE, RECALLED_ONLY
    for part in ("high", "low"):
        pairs[f"earlier_{part}"] = history[f"named_{part}"][naming]
    for shard, content in packed_by_group(pairs, shard_of_batches(pairs["earlier_high"], shards)):
        yield Message(Stage.RECALL, shard, slot, Kind.CANDIDATES, content)
