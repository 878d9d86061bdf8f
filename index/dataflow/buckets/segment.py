"""Segment of buckets in the state: entries ordered by page, in leaves. What finds a leaf is in memory."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.buckets.page_filter import filter_of, may_have
from index.dataflow.message import Task
from index.dataflow.rows import Rows, places_in_runs

LEAF_ENTRIES = 64
"""Entries in a leaf, which a look-up reads whole. A program with another number reads the same state."""

_LEAF = struct.Struct("<cII")
_DIRECTORY = struct.Struct("<cI")
_COUNT = struct.Struct("<I")


class Segment(NamedTuple):
    """Where a segment's entries are.

    number  unique in its key
    fences  uint64 [leaves], first pages of the leaves, ascending
    words   `page_filter` over its pages
    """

    number: int
    fences: npt.NDArray[np.uint64]
    words: npt.NDArray[np.uint64]

    @classmethod
    def write(cls, task: Task, number: int, filed: Rows) -> "Segment":
        """Write entries, ordered by page."""
        fences = filed["page"][::LEAF_ENTRIES].copy()
        segment = cls(number, fences, filter_of(filed["page"]))
        octets = np.ascontiguousarray(filed).view(np.uint8).reshape(len(filed), filed.itemsize)
        # By byte columns, most of which repeat: RocksDB compresses them.
        leaves = {
            _leaf_name(number, leaf): octets[leaf * LEAF_ENTRIES : (leaf + 1) * LEAF_ENTRIES].T.tobytes()
            for leaf in range(len(fences))
        }
        directory = _COUNT.pack(len(fences)) + fences.tobytes() + segment.words.tobytes()
        task.put_all({_DIRECTORY.pack(b"d", number): directory, **leaves})
        return segment

    @classmethod
    def find(cls, task: Task, number: int) -> "Segment":
        """Read what finds a segment's entries."""
        directory = task.get(_DIRECTORY.pack(b"d", number))
        assert directory is not None, "a segment in the list has a directory"
        (leaves,) = _COUNT.unpack_from(directory)
        fences = np.frombuffer(directory, "<u8", leaves, _COUNT.size)
        return cls(number, fences, np.frombuffer(directory, "<u8", offset=_COUNT.size + fences.nbytes))

    def whole(self, task: Task, kind: np.dtype[np.void]) -> Rows:
        """Read all entries."""
        return self._read(task, range(len(self.fences)), kind)

    def leaves_with(self, task: Task, pages: npt.NDArray[np.uint64], kind: np.dtype[np.void]) -> Rows:
        """Read the leaves that may hold these pages, uint64 [n] ascending."""
        asked = pages[may_have(self.words, pages)]
        # A page that begins a leaf may have entries in the one before.
        firsts = np.maximum(np.searchsorted(self.fences, asked) - 1, 0)
        counts = np.searchsorted(self.fences, asked, "right") - firsts
        return self._read(task, np.unique(places_in_runs(firsts, counts)).tolist(), kind)

    def remove(self, task: Task) -> None:
        """Remove the segment from the state."""
        names = [_leaf_name(self.number, leaf) for leaf in range(len(self.fences))]
        task.remove_all([_DIRECTORY.pack(b"d", self.number), *names])

    def _read(self, task: Task, leaves: Sequence[int], kind: np.dtype[np.void]) -> Rows:
        columns = [np.frombuffer(each, np.uint8).reshape(kind.itemsize, -1) for each in self._contents(task, leaves)]
        octets = np.concatenate([np.empty((kind.itemsize, 0), np.uint8), *columns], axis=1)
        return np.ascontiguousarray(octets.T).reshape(-1).view(kind)

    def _contents(self, task: Task, leaves: Sequence[int]) -> Iterator[bytes]:
        for leaf in leaves:
            content = task.get(_leaf_name(self.number, leaf))
            assert content is not None, "a leaf is removed with its segment alone"
            yield content


def _leaf_name(number: int, leaf: int) -> bytes:
    return _LEAF.pack(b"l", number, leaf)
