"""Rows in a task's state that stay in memory too: added in order, and removed by epoch."""

import struct
from itertools import pairwise

import numpy as np

from index.dataflow.message import Task
from index.dataflow.rows import Retained, Rows

CHUNK_ROWS = 2**12
"""Most rows that a value has: what is added rewrites the last value."""


class KeptRows:
    """Rows with a key's column `high`, under names that begin with a prefix."""

    def __init__(self, prefix: bytes, kind: np.dtype[np.void]):
        self._prefix, self._kind = prefix, kind
        self._rows: Rows | None = None

    def read(self, task: Task) -> Rows:
        """All rows, in order."""
        if self._rows is None:
            chunks: list[bytes] = []
            while content := task.get(self._name(len(chunks))):
                chunks.append(content)
            self._rows = np.frombuffer(b"".join(chunks), self._kind)
        return self._rows

    def add(self, task: Task, rows: Rows) -> None:
        """Put rows behind the others."""
        if len(rows):
            known = self.read(task)
            self._put(task, np.concatenate([known, rows]), len(known) // CHUNK_ROWS)

    def remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Remove rows from epochs before this one."""
        known = self.read(task)
        kept = known[retained.epochs(known["high"]) >= floor]
        if len(kept) < len(known):
            task.remove_all(
                [self._name(number) for number in range(len(kept) // CHUNK_ROWS, len(known) // CHUNK_ROWS + 1)]
            )
            self._put(task, kept, 0)

    def _put(self, task: Task, rows: Rows, first: int) -> None:
        """Put all rows, from the chunk `first` on."""
        bounds = [*range(first * CHUNK_ROWS, len(rows), CHUNK_ROWS), len(rows)]
        values = (rows[begin:end].tobytes() for begin, end in pairwise(bounds))
        task.put_all({self._name(number): value for number, value in enumerate(values, first)})
        self._rows = rows

    def _name(self, number: int) -> bytes:
        return self._prefix + struct.pack("<I", number)
