"""VERSIONS: pairs documents with their page's first record. Keyed by the page's shard.

RESOLVE alone knows the fate of that record, and what came after it.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import PAIR, RECORD, packed_by_group, rows_of, run_begins, shard_of_batches
from index.entry import NO_DISTANCE, Verdict

_FIRST = np.dtype([("high", "<u8"), ("low", "<u8")])


class Versions:
    """The operator VERSIONS. Its state has the key of each page's first record."""

    def __init__(self, shards: int):
        """See `Dataflow`."""
        self._shards = shards

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Send documents on pages that came before to RECALL, which adds the first record."""
        records = rows_of((each.content for each in messages), RECORD)
        records = np.take(records, np.lexsort((records["low"], records["high"], records["page"])))
        begins = run_begins(records["page"])
        firsts = np.zeros(len(begins), _FIRST)
        firsts["high"], firsts["low"] = records["high"][begins], records["low"][begins]
        names = records["page"][begins].astype("<u8").view("V8").tolist()
        stored = [task.get(name) for name in names]
        new = np.array([content is None for content in stored], np.bool_)
        firsts[~new] = np.frombuffer(b"".join(content for content in stored if content is not None), _FIRST)
        task.put_all({names[place]: firsts[place].tobytes() for place in np.flatnonzero(new).tolist()})
        again = np.ones(len(records), np.bool_)
        again[begins[new]] = False
        runs = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(records)))[again]
        pairs = np.zeros(len(runs), PAIR)
        for name in ("high", "low"):
            pairs[name], pairs[f"earlier_{name}"] = records[name][again], firsts[name][runs]
        pairs["distance"], pairs["verdict"] = NO_DISTANCE, Verdict.UPDATE
        shards = shard_of_batches(pairs["earlier_high"], pairs["earlier_low"], self._shards)
        for shard, content in packed_by_group(pairs, shards):
            yield Message(Stage.RECALL, shard, slot, Kind.CANDIDATES, content)
