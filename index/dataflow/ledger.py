"""Ledger for names in a task's state by epoch, so that what retention has left behind is removed.

Epochs are runs of the log's time (`Retained.epoch_ms`), and an epoch is over once all that it holds has expired. RESOLVE knows
when, and says so in the log (`Floor`). ORDER passes it on to the operators, at one place in the order.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.message import Kind, Message, Task
from index.dataflow.rows import Retained, Rows, by_group

_HEADING = np.dtype([("epoch", "<i8"), ("count", "<u4")])
_LEAF = np.dtype([("high", ">u8"), ("leaf", ">u2")])
_PART = struct.Struct("<qI")
_FLOOR = struct.Struct("<q")


class Ledger:
    """Rows noted by epoch, under names that begin with a prefix."""

    def __init__(self, prefix: bytes, kind: np.dtype[np.void]):
        self._prefix, self._kind = prefix, kind

    def note(self, task: Task, epoch: int, rows: Rows) -> None:
        """Note what was put in an epoch, as rows."""
        if not len(rows):
            return
        heading = self._heading(task)
        counts = dict(heading.tolist())
        count = counts.get(epoch, 0)
        counts[epoch] = count + 1
        heading = np.array(sorted(counts.items()), _HEADING)
        task.put_all({self._prefix: heading.tobytes(), self._prefix + _PART.pack(epoch, count): rows.tobytes()})

    def over(self, task: Task, floor: int) -> Iterator[Rows]:
        """Remove and return what was noted in epochs below the floor."""
        heading = self._heading(task)
        is_over = heading["epoch"] < floor
        for epoch, count in heading[is_over].tolist():
            names = [self._prefix + _PART.pack(epoch, part) for part in range(count)]
            for name in names:
                yield np.frombuffer(task.get(name) or b"", self._kind)
            task.remove_all(names)
        if is_over.any():
            task.put_all({self._prefix: heading[~is_over].tobytes()})

    def _heading(self, task: Task) -> Rows:
        return np.frombuffer(task.get(self._prefix) or b"", _HEADING)


class Leaves:
    """Documents' leaves in a task's state. Without retention they stay."""

    def __init__(self, retained: Retained | None):
        self._retained, self._ledger = retained, Ledger(b"leaves", _LEAF)

    def put(self, task: Task, leaves: dict[bytes, bytes]) -> None:
        """Put leaves, by the names that `rows.leaf_name` gives."""
        task.put_all(leaves)
        if self._retained is not None and leaves:
            names = np.frombuffer(b"".join(leaves), _LEAF)
            for epoch, places in by_group(self._retained.epochs(names["high"].astype(np.uint64))):
                self._ledger.note(task, epoch, names[places])

    def remove(self, task: Task, messages: Sequence[Message]) -> None:
        """Remove leaves from past epochs, as messages say."""
        for floor in floors_of(messages):
            for noted in self._ledger.over(task, floor):
                task.remove_all(noted.view(f"V{_LEAF.itemsize}").tolist())


def pack_floor(epoch: int) -> bytes:
    """Content for a message that says that all earlier epochs are over."""
    return _FLOOR.pack(epoch)


def floors_of(messages: Sequence[Message]) -> list[int]:
    """What messages say about past epochs."""
    return [unpack_floor(each.content) for each in messages if each.kind == Kind.FLOOR]


def unpack_floor(content: bytes) -> int:
    """Revert `pack_floor`."""
    floor: int = _FLOOR.unpack(content)[0]
    return floor
