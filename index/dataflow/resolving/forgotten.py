"""Names that were forgotten, in RESOLVE's state: documents with such a name no longer count, if they came before.

So no operator has to find a document by its id, and RESOLVE alone hears of it. With retention a name leaves once its epoch is
over, as all documents before have then expired.
"""

import struct
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.rows import Retained, Rows

FORGOTTEN = np.dtype([("name", "<u8"), ("high", "<u8"), ("low", "<u8")])
"""One of a document's `rows.name_digests`, and the key below which documents with that name do not count."""

CHUNK_ROWS = 2**12
"""Most names that a value has: a forgotten document rewrites the last value."""

_STATE = b"forgotten"


class ForgottenNames:
    """Forgotten names. They stay in memory, 24 bytes each."""

    def __init__(self) -> None:
        self._written: Rows | None = None
        """As in the state, in order."""
        self._sorted = np.zeros(0, FORGOTTEN)
        """Each name with its last key, by name."""

    def add(self, task: Task, rows: Rows) -> None:
        """Forget, as FORGOTTEN with keys above all earlier ones."""
        if len(rows):
            known = self._read(task)
            self._put(task, np.concatenate([known, rows]), len(known) // CHUNK_ROWS)

    def are(self, task: Task, documents: Rows) -> npt.NDArray[np.bool_]:
        """Whether documents were forgotten, bool [n]; as `Layout.signature` with a tag."""
        self._read(task)
        forgotten = np.zeros(len(documents), np.bool_)
        if not len(self._sorted):
            return forgotten
        for names in documents["tag"]["names"][:, 0].T:
            places = np.minimum(np.searchsorted(self._sorted["name"], names), len(self._sorted) - 1)
            found = self._sorted[places]
            highs = documents["high"]
            before = (highs < found["high"]) | ((highs == found["high"]) & (documents["low"] < found["low"]))
            forgotten |= before & (found["name"] == names)
        return forgotten

    def remove(self, task: Task, floor: int, retained: Retained) -> None:
        """Remove names from epochs before this one."""
        known = self._read(task)
        kept = known[retained.epochs(known["high"]) >= floor]
        if len(kept) < len(known):
            task.remove_all([_chunk(number) for number in range(len(kept) // CHUNK_ROWS, len(known) // CHUNK_ROWS + 1)])
            self._put(task, kept, 0)

    def _read(self, task: Task) -> Rows:
        if self._written is None:
            chunks: list[bytes] = []
            while content := task.get(_chunk(len(chunks))):
                chunks.append(content)
            self._set(np.frombuffer(b"".join(chunks), FORGOTTEN))
        assert self._written is not None
        return self._written

    def _put(self, task: Task, rows: Rows, first: int) -> None:
        """Put all names, from the chunk `first` on."""
        bounds = [*range(first * CHUNK_ROWS, len(rows), CHUNK_ROWS), len(rows)]
        values = (rows[begin:end].tobytes() for begin, end in pairwise(bounds))
        task.put_all({_chunk(number): value for number, value in enumerate(values, first)})
        self._set(rows)

    def _set(self, rows: Rows) -> None:
        self._written = rows
        # The last of equal names has the highest key.
        _, places = np.unique(rows["name"][::-1], return_index=True)
        self._sorted = rows[::-1][places]


def _chunk(number: int) -> bytes:
    return _STATE + struct.pack("<I", number)
