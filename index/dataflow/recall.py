"""RECALL: adds the earlier document's fingerprint and look to candidates. Keyed by batch shard."""

from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.ledger import Leaves
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import (
    PAIR,
    Layout,
    Retained,
    Rows,
    distinct_pairs,
    leaves_of,
    packed_by_group,
    rows_of,
    shard_of_batches,
)


class Recall:
    """The operator RECALL. Pairs that met in several bands go on once."""

    def __init__(self, layout: Layout, shards: int, retained: Retained | None):
        """See `Dataflow`."""
        self._layout, self._shards = layout, shards
        self._leaves = Leaves(retained)

    def keep(self, task: Task, message: Message) -> None:
        """Keep a batch's signatures."""
        self._keep(task, rows_of([message.content], self._layout.signature))

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Keep parts of batches, and send the candidates on."""
        parts = rows_of((each.content for each in messages if each.kind == Kind.PARTS), self._layout.signature)
        self._keep(task, np.take(parts, np.lexsort((parts["low"], parts["high"]))))
        pairs = distinct_pairs(rows_of((each.content for each in messages if each.kind == Kind.CANDIDATES), PAIR))
        recalled = np.zeros(len(pairs), self._layout.recalled)
        for column in PAIR.names or ():
            recalled[column] = pairs[column]
        for name, places in leaves_of(pairs["earlier_high"], pairs["earlier_low"]):
            content = task.get(name)
            assert content is not None, "a document is kept before anybody meets it"
            kept = np.frombuffer(content, self._layout.kept)
            here = np.searchsorted(kept["low"], pairs["earlier_low"][places])
            recalled["earlier_whole"][places] = kept["whole"][here]
            recalled["earlier_tag"][places] = kept["tag"][here]
        for shard, content in packed_by_group(recalled, shard_of_batches(pairs["high"], self._shards)):
            yield Message(Stage.VERIFY, shard, slot, Kind.RECALLED, content)
        self._leaves.remove(task, messages)

    def _keep(self, task: Task, signatures: Rows) -> None:
        kept = np.zeros(len(signatures), self._layout.kept)
        for name in kept.dtype.names or ():
            kept[name] = signatures[name]
        leaves = leaves_of(signatures["high"], signatures["low"])
        self._leaves.put(task, {name: kept[places].tobytes() for name, places in leaves})
