"""Buckets of CLAIM in the state: entries by page, in chunks, so that adding one to a large bucket rewrites little."""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Kind, Task
from index.dataflow.rows import Rows

_HEAD = struct.Struct("<I")
_PAGE = struct.Struct("<BQ")
_CHUNK = struct.Struct("<BQI")


class Buckets:
    """Entries of one kind under pages.

    A page has one open chunk, behind the number of its full ones: b"".join([count, entries]). Full chunks never change.
    """

    def __init__(self, kind: Kind, entry: np.dtype[np.void], chunk_entries: int):
        self._kind, self._entry = int(kind), entry
        self._chunk_bytes = chunk_entries * entry.itemsize

    def read(self, task: Task, pages: Sequence[int]) -> tuple[Rows, npt.NDArray[np.int64]]:
        """Entries of these pages, in the order in which they were added, one page behind the other; how many each has."""
        parts, counts = [], np.zeros(len(pages), np.int64)
        for place, page in enumerate(pages):
            head = task.get(_PAGE.pack(self._kind, page))
            if head is None:
                continue
            (full,) = _HEAD.unpack_from(head)
            for chunk in range(full):
                content = task.get(_CHUNK.pack(self._kind, page, chunk))
                assert content is not None, "a full chunk is never removed"
                parts.append(content)
            parts.append(head[_HEAD.size :])
            counts[place] = (full * self._chunk_bytes + len(head) - _HEAD.size) // self._entry.itemsize
        return np.frombuffer(b"".join(parts), self._entry), counts

    def add(self, task: Task, page: int, entries: Rows) -> None:
        """Add entries behind those of a page."""
        name = _PAGE.pack(self._kind, page)
        head = task.get(name) or _HEAD.pack(0)
        (full,), content = _HEAD.unpack_from(head), head[_HEAD.size :] + entries.tobytes()
        while len(content) >= self._chunk_bytes:
            task.put(_CHUNK.pack(self._kind, page, full), content[: self._chunk_bytes])
            full, content = full + 1, content[self._chunk_bytes :]
        task.put(name, _HEAD.pack(full) + content)
