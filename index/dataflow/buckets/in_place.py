"""Buckets of blocks in the state: entries by page, in chunks, so that an insertion rewrites little. A block has many.

With retention a bucket drops what has expired when it is read, and buckets of short texts, which may never be, by a list.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.ledger import Ledger, pack_floor, unpack_floor
from index.dataflow.message import Task
from index.dataflow.rows import EXACT_PAGES, Retained, Rows, by_group, run_begins

_SHORT_BYTES = 6
"""Bytes that hold the number of a band or block and the value to look up there."""

_FULL = struct.Struct("<I")
_CHUNK = struct.Struct("<8sI")
_PAGE = np.dtype([("page", "<u8")])
_FLOOR = b"floor"


class Buckets:
    """Entries under pages.

    A page holds its open chunk's entries, then how many full chunks it has, if any. Full chunks change only if
    entries expire.
    """

    def __init__(self, entry: np.dtype[np.void], chunk_entries: int, retained: Retained | None = None):
        self._entry, self._chunk_entries = entry, chunk_entries
        self._retained, self._exact = retained, Ledger(b"exact", _PAGE)

    def read(self, task: Task, pages: npt.NDArray[np.uint64]) -> "Opened":
        """Read distinct pages, uint64 [pages], and drop entries from past epochs."""
        opened = self._opened(task, pages)
        if self._retained is None:
            return opened
        kept = self._retained.epochs(opened.entries["high"]) >= _floor(task)
        return opened if kept.all() else self._keep(task, opened, kept)

    def expire(self, task: Task, floor: int) -> None:
        """Forget the epochs before `floor`."""
        # A log repeats floors after a crash.
        if floor > _floor(task):
            task.put_all({_FLOOR: pack_floor(floor)})
        for noted in self._exact.over(task, floor):
            self.read(task, np.unique(noted["page"]))

    def _opened(self, task: Task, pages: npt.NDArray[np.uint64]) -> "Opened":
        names = _names(pages)
        heads = [task.get(name) or b"" for name in names]
        contents, full = heads.copy(), np.zeros(len(pages), np.int64)
        counts, rests = np.divmod(np.fromiter(map(len, heads), np.int64, len(pages)), self._entry.itemsize)
        for place in np.flatnonzero(rests).tolist():
            heads[place], (full[place],) = heads[place][: -_FULL.size], _FULL.unpack(heads[place][-_FULL.size :])
            contents[place] = b"".join([*_chunks(task, names[place], int(full[place])), heads[place]])
        entries = np.frombuffer(b"".join(contents), self._entry)
        return Opened(entries, counts + full * self._chunk_entries, pages, names, heads, full, self)

    def add(self, task: Task, opened: "Opened", places: npt.NDArray[np.intp], entries: Rows) -> None:
        """See `Opened.add`."""
        added, begins = entries.view(f"V{entries.itemsize}").tolist(), run_begins(places)
        at, bounds = places[begins], pairwise([*begins.tolist(), len(places)])
        parts = [added[begin] if end - begin == 1 else b"".join(added[begin:end]) for begin, end in bounds]
        contents = {
            opened.names[place]: opened.heads[place] + part for place, part in zip(at.tolist(), parts, strict=True)
        }
        full = opened.full[at]
        counts = opened.counts[at] - full * self._chunk_entries + np.diff(begins, append=len(places))
        for place in at[(full > 0) | (counts >= self._chunk_entries)].tolist():
            contents |= self._chunked(opened.names[place], int(opened.full[place]), contents[opened.names[place]])
        task.put_all(contents)
        self._note_exact(task, opened.pages[places], entries)

    def _note_exact(self, task: Task, pages: npt.NDArray[np.uint64], entries: Rows) -> None:
        """Note the pages of short texts that enter, by epoch."""
        if self._retained is not None:
            exact = pages >= EXACT_PAGES
            for epoch, places in by_group(self._retained.epochs(entries["high"][exact])):
                self._exact.note(task, epoch, pages[exact][places].view(_PAGE))

    def _keep(self, task: Task, opened: "Opened", kept: npt.NDArray[np.bool_]) -> "Opened":
        """Keep some entries on opened pages, bool [entries]; returns the pages as they are then."""
        pages = np.repeat(np.arange(len(opened.names)), opened.counts)
        counts = np.bincount(pages[kept], minlength=len(opened.names))
        entries, heads, full, ends = opened.entries[kept], list(opened.heads), opened.full.copy(), np.cumsum(counts)
        contents: dict[bytes, bytes] = {}
        removed: list[bytes] = []
        for place in np.flatnonzero(counts < opened.counts).tolist():
            name, content = opened.names[place], entries[ends[place] - counts[place] : ends[place]].tobytes()
            removed += [name, *(_CHUNK.pack(name, chunk) for chunk in range(int(opened.full[place])))]
            chunks = self._chunked(name, 0, content) if counts[place] >= self._chunk_entries else {name: content}
            heads[place], full[place] = content, 0
            if len(chunks) > 1:
                full[place] = len(chunks) - 1
                heads[place] = chunks[name][: -_FULL.size]
            if content:
                contents |= chunks
        task.remove_all(removed)
        task.put_all(contents)
        return Opened(entries, counts, opened.pages, opened.names, heads, full, self)

    def _chunked(self, name: bytes, full: int, content: bytes) -> dict[bytes, bytes]:
        """A page after `full` chunks: new full chunks, and the open one."""
        size = self._chunk_entries * self._entry.itemsize
        new = range(len(content) // size)
        chunks = {_CHUNK.pack(name, full + chunk): content[chunk * size : (chunk + 1) * size] for chunk in new}
        return {**chunks, name: content[len(new) * size :] + _FULL.pack(full + len(new))}


def _floor(task: Task) -> int:
    content = task.get(_FLOOR)
    return 0 if content is None else unpack_floor(content)


def _names(pages: npt.NDArray[np.uint64]) -> list[bytes]:
    """Pages' names, uint64 [n]: without the highest bytes, which only EXACT documents' pages use."""
    octets = pages.astype("<u8").view(np.uint8).reshape(-1, 8)
    # Unlike numpy's bytes, void keeps zeros at the end.
    names: list[bytes] = np.ascontiguousarray(octets[:, :_SHORT_BYTES]).view(f"V{_SHORT_BYTES}").ravel().tolist()
    for place in np.flatnonzero(octets[:, _SHORT_BYTES:].any(axis=1)).tolist():
        names[place] = octets[place].tobytes()
    return names


def _chunks(task: Task, name: bytes, count: int) -> Iterator[bytes]:
    for chunk in range(count):
        content = task.get(_CHUNK.pack(name, chunk))
        assert content is not None, "a full chunk is never removed without its page"
        yield content


class Opened(NamedTuple):
    """Pages as read.

    entries  in insertion order, page after page
    counts   int64 [pages], each page's entries
    pages    uint64 [pages]
    names    of the pages in the state
    heads    each page's open chunk
    full     int64 [pages], each page's number of full chunks
    """

    entries: Rows
    counts: npt.NDArray[np.int64]
    pages: npt.NDArray[np.uint64]
    names: Sequence[bytes]
    heads: Sequence[bytes]
    full: npt.NDArray[np.int64]
    buckets: Buckets

    def add(self, task: Task, places: npt.NDArray[np.intp], entries: Rows) -> None:
        """Append entries to these pages; places: intp [n], ascending."""
        self.buckets.add(task, self, places, entries)
