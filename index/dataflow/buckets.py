"""Buckets of CLAIM in the state: entries by page, in chunks, so that an insertion rewrites little."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Kind, Task
from index.dataflow.rows import Rows

_HEAD = struct.Struct("<I")
_PAGE = struct.Struct("<BQ")
_CHUNK = struct.Struct("<BQI")


class Buckets:
    """Entries of one kind under pages.

    A page's open chunk follows its count of full ones: b"".join([count, entries]). Full chunks never change.
    """

    def __init__(self, kind: Kind, entry: np.dtype[np.void], chunk_entries: int):
        self._kind, self._entry = int(kind), entry
        self._chunk_bytes = chunk_entries * entry.itemsize

    def read(self, task: Task, pages: Sequence[int]) -> "Opened":
        """Read distinct pages."""
        heads, parts, counts = [], [], np.zeros(len(pages), np.int64)
        for place, page in enumerate(pages):
            head = task.get(_PAGE.pack(self._kind, page))
            heads.append(head)
            if head is None:
                continue
            (full,) = _HEAD.unpack_from(head)
            for chunk in range(full):
                content = task.get(_CHUNK.pack(self._kind, page, chunk))
                assert content is not None, "a full chunk is never removed"
                parts.append(content)
            parts.append(head[_HEAD.size :])
            counts[place] = (full * self._chunk_bytes + len(head) - _HEAD.size) // self._entry.itemsize
        return Opened(np.frombuffer(b"".join(parts), self._entry), counts, pages, heads)

    def add(self, task: Task, opened: "Opened", places: npt.NDArray[np.intp], entries: Rows) -> None:
        """Append entries to opened pages; places: intp [n], ascending, their pages among the opened ones."""
        content, size = entries.tobytes(), entries.dtype.itemsize
        of_pages, begins = np.unique(places, return_index=True)
        bounds = pairwise([*begins.tolist(), len(places)])
        for place, (begin, end) in zip(of_pages.tolist(), bounds, strict=True):
            self._append(task, opened.pages[place], opened.heads[place], content[begin * size : end * size])

    def _append(self, task: Task, page: int, head: bytes | None, added: bytes) -> None:
        full, content = 0, added
        if head is not None:
            (full,), content = _HEAD.unpack_from(head), head[_HEAD.size :] + added
        while len(content) >= self._chunk_bytes:
            task.put(_CHUNK.pack(self._kind, page, full), content[: self._chunk_bytes])
            full, content = full + 1, content[self._chunk_bytes :]
        task.put(_PAGE.pack(self._kind, page), _HEAD.pack(full) + content)


class Opened(NamedTuple):
    """Pages as read.

    entries  in insertion order, page after page
    counts   int64 [pages], each page's entries
    heads    full chunk count and open chunk of each page, None without entries
    """

    entries: Rows
    counts: npt.NDArray[np.int64]
    pages: Sequence[int]
    heads: Sequence[bytes | None]
