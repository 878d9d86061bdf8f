"""VERSIONS: pairs documents with the record before them on their page. Keyed by the page's shard.

RESOLVE alone knows the fate of that record, and what came before it.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.ledger import Ledger, floors_of
from index.dataflow.message import Decided, Kind, Message, Stage, Task
from index.dataflow.rows import (
    KEY_FIELDS,
    PAIR,
    RECORD,
    Retained,
    by_group,
    packed_by_group,
    rows_of,
    run_begins,
    shard_of_batches,
)
from index.entry import NO_DISTANCE, Verdict

_LATEST = np.dtype(KEY_FIELDS)
_NAME = np.dtype([("page", "V8")])


class Versions:
    """The operator VERSIONS. Its state has each page's latest record, by key."""

    def __init__(self, shards: int, retained: Retained | None):
        """See `Dataflow`."""
        self._shards, self._retained = shards, retained
        self._ledger = Ledger(b"pages", _NAME)

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Message | Decided]:
        """Send documents on pages that came before to RECALL, which adds the record before."""
        records = rows_of((each.content for each in messages if each.kind == Kind.RECORDS), RECORD)
        records = np.take(records, np.lexsort((records["low"], records["high"], records["page"])))
        begins = run_begins(records["page"])
        lasts = np.append(begins[1:], len(records))[: len(begins)] - 1
        names = records["page"][begins].astype("<u8").view("V8")
        stored = [task.get(name) for name in names.tolist()]
        is_new = np.array([content is None for content in stored], np.bool_)
        before = np.zeros(len(records), _LATEST)
        for part in ("high", "low"):
            before[part][1:] = records[part][:-1]
        before[begins[~is_new]] = np.frombuffer(b"".join(each for each in stored if each is not None), _LATEST)
        latest = np.zeros(len(lasts), _LATEST)
        for part in ("high", "low"):
            latest[part] = records[part][lasts]
        values = latest.view(f"V{_LATEST.itemsize}").tolist()
        task.put_all(dict(zip(names.tolist(), values, strict=True)))
        again = np.ones(len(records), np.bool_)
        again[begins[is_new]] = False
        pairs = np.zeros(int(again.sum()), PAIR)
        for part in ("high", "low"):
            pairs[part], pairs[f"earlier_{part}"] = records[part][again], before[part][again]
        pairs["distance"], pairs["verdict"] = NO_DISTANCE, Verdict.UPDATE
        shards = shard_of_batches(pairs["earlier_high"], self._shards)
        for shard, content in packed_by_group(pairs, shards):
            yield Message(Stage.RECALL, shard, slot, Kind.CANDIDATES, content)
        if self._retained is not None:
            for epoch, places in by_group(self._retained.epochs(records["high"][lasts])):
                noted = np.zeros(len(places), _NAME)
                noted["page"] = names[places]
                self._ledger.note(task, epoch, noted)
            for floor in floors_of(messages):
                self._remove(task, floor, self._retained)

    def _remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Forget pages whose latest record is in an epoch that is over."""
        for noted in self._ledger.over(task, floor):
            names = noted["page"].tolist()
            stored = [task.get(name) for name in names]
            there = [(name, content) for name, content in zip(names, stored, strict=True) if content is not None]
            latest = np.frombuffer(b"".join(content for _, content in there), _LATEST)
            is_over = retained.epochs(latest["high"]) < floor
            task.remove_all([there[place][0] for place in np.flatnonzero(is_over).tolist()])
