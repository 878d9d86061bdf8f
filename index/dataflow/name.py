"""NAME: adds originals' ids and positions to rejects. Keyed by batch shard."""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.ledger import Leaves
from index.dataflow.message import Decided, Kind, Message, Stage, Task, pack_texts, unpack_texts
from index.dataflow.rows import (
    LEAF_ROWS,
    NAMED,
    PAIR,
    Retained,
    by_group,
    leaf_name,
    leaves_of,
    partitions,
    rows_in_leaf,
    rows_of,
)

_HEADING = struct.Struct("<QQQQ")
_COUNT = struct.Struct("<I")


class Name:
    """The operator NAME."""

    def __init__(self, retained: Retained | None):
        """See `Dataflow`."""
        self._leaves = Leaves(retained)

    def keep(self, task: Task, message: Message) -> None:
        """Keep a batch's names."""
        high, _, _, count = _HEADING.unpack_from(message.content)
        offsets = np.frombuffer(message.content, "<u8", count, _HEADING.size)
        letters = np.frombuffer(message.content, "<u4", count, _HEADING.size + offsets.nbytes)
        stream, name, *ids = unpack_texts(message.content, _HEADING.size + offsets.nbytes + letters.nbytes)
        leaves = {}
        for first in range(0, count, LEAF_ROWS):
            some = slice(first, first + LEAF_ROWS)
            leaf = offsets[some].tobytes() + letters[some].tobytes() + pack_texts([stream, name, *ids[some]])
            leaves[leaf_name(high, first)] = _COUNT.pack(len(offsets[some])) + leaf
        self._leaves.put(task, leaves)

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Send rejects on to their partitions."""
        rejects = rows_of((message.content for message in messages if message.kind == Kind.REJECTS), PAIR)
        named = np.zeros(len(rejects), NAMED)
        for column in ("high", "low", "distance", "verdict"):
            named[column] = rejects[column]
        named["partition"] = partitions(rejects["earlier_high"])
        texts = np.empty((len(rejects), 3), object)
        for leaf, places in leaves_of(rejects["earlier_high"], rejects["earlier_low"]):
            content = task.get(leaf)
            assert content is not None, "a document is named before anybody resembles it"
            (count,) = _COUNT.unpack_from(content)
            offsets = np.frombuffer(content, "<u8", count, _COUNT.size)
            letters = np.frombuffer(content, "<u4", count, _COUNT.size + offsets.nbytes)
            stream, name, *ids = unpack_texts(content, _COUNT.size + offsets.nbytes + letters.nbytes)
            rows = rows_in_leaf(rejects["earlier_low"][places])
            named["offset"][places], named["letters"][places] = offsets[rows], letters[rows]
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                texts[place] = stream, name, ids[row]
        for partition, places in by_group(partitions(rejects["high"])):
            content = (
                _COUNT.pack(len(places)) + named[places].tobytes() + pack_texts(texts[places].reshape(-1).tolist())
            )
            yield Message(Stage.JOIN, partition, slot, Kind.NAMED, content)
        self._leaves.remove(task, messages)
