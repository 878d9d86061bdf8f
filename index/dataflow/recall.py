"""RECALL: adds the earlier document's fingerprint and look to candidates. Keyed by batch shard."""

from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.leaves import distinct_pairs, leaves_of
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import PAIR, Layout, packed_by_group, rows_of, shard_of_batches


class Recall:
    """The operator RECALL. Pairs that met in several bands go on once."""

    def __init__(self, layout: Layout, shards: int):
        """See `Dataflow`."""
        self._layout, self._shards = layout, shards

    def keep(self, task: Task, message: Message) -> None:
        """Keep a batch's signatures."""
        signatures = rows_of([message.content], self._layout.signature)
        leaves = leaves_of(signatures["high"], signatures["low"])
        task.put_all({name: signatures[places].tobytes() for name, places in leaves})

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Send the candidates on."""
        pairs = distinct_pairs(rows_of((message.content for message in messages), PAIR))
        recalled = np.zeros(len(pairs), self._layout.recalled)
        for column in PAIR.names or ():
            recalled[column] = pairs[column]
        for name, places in leaves_of(pairs["of_high"], pairs["of_low"]):
            content = task.get(name)
            assert content is not None, "a document is kept before anybody meets it"
            kept = np.frombuffer(content, self._layout.signature)
            here = np.searchsorted(kept["low"], pairs["of_low"][places])
            recalled["of_whole"][places] = kept["whole"][here]
        for shard, content in packed_by_group(recalled, shard_of_batches(pairs["high"], pairs["low"], self._shards)):
            yield Message(Stage.VERIFY, shard, slot, Kind.RECALLED, content)
