"""Fates of duplicates in RESOLVE's state: one value for each batch, and the last ones in memory.

A value is b"".join([number of dropped rows, dropped rows as uint16, members]). All others of the batch are unique.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.rows import ROW_BITS, Rows, numbered, row_numbers, run_begins

BATCHES_KEPT = 2**11
"""Batches in memory, some 10 MB: a copy mostly resembles a recent document, and each read is a call into the engine."""

_NAME = struct.Struct(">QQ")
_COUNT = struct.Struct("<I")
_ROW = np.dtype("<u2")


class Fates(NamedTuple):
    """Fates of n documents in order.

    dropped  bool [n], duplicates that are no entries
    places   int64 [m], documents that are members
    members  their rows, as `Layout.settled`
    """

    dropped: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64]
    members: Rows


class FateStore:
    """Fates by batch. A batch's documents share a slot, so its value is put once."""

    def __init__(self, member: np.dtype[np.void]):
        """member: `Layout.settled`."""
        self._member = member
        # The last used one comes last.
        self._recent: dict[bytes, bytes] = {}

    def read(self, task: Task, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> Fates:
        """Fates of documents with ascending keys, uint64 [n] each."""
        begins = run_begins(high, low >> np.uint64(ROW_BITS))
        contents = [self._content(task, name) for name in _names(high[begins], low[begins])]
        ends = [_COUNT.size + _ROW.itemsize * _COUNT.unpack_from(content)[0] for content in contents]
        dropped = [content[_COUNT.size : end] for content, end in zip(contents, ends, strict=True)]
        settled = [content[end:] for content, end in zip(contents, ends, strict=True)]
        # Batch and row in one number: both ascend.
        runs = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(high)))
        keys = runs << ROW_BITS | row_numbers(low)
        dropped_keys = _runs_of(dropped, _ROW) | np.frombuffer(b"".join(dropped), _ROW)
        members = np.frombuffer(b"".join(settled), self._member)
        member_keys = _runs_of(settled, self._member) | row_numbers(members["low"])
        asked = np.isin(member_keys, keys, assume_unique=True)
        places = np.searchsorted(keys, member_keys[asked])
        return Fates(np.isin(keys, dropped_keys, assume_unique=True), places, np.compress(asked, members))

    def write(self, task: Task, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], members: Rows) -> None:
        """Put the fates of whole batches: keys of dropped duplicates, uint64 [n] each, and members."""
        highs, lows = np.concatenate([high, members["high"]]), np.concatenate([low, members["low"]])
        numbers, distinct = numbered(highs, lows >> np.uint64(ROW_BITS))
        rows, contents = row_numbers(low).astype(_ROW), {}
        dropped_batches, member_batches = np.split(numbers, [len(high)])
        for batch, name in enumerate(_names(highs[distinct], lows[distinct])):
            some, settled = rows[dropped_batches == batch], members[member_batches == batch]
            contents[name] = _COUNT.pack(len(some)) + some.tobytes() + settled.tobytes()
        task.put_all(contents)
        self._recent.update(contents)
        for name in list(self._recent)[:-BATCHES_KEPT]:
            del self._recent[name]

    def _content(self, task: Task, name: bytes) -> bytes:
        content = self._recent.pop(name, None) or task.get(name) or _COUNT.pack(0)
        self._recent[name] = content
        return content


def _names(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> Sequence[bytes]:
    begins = low >> np.uint64(ROW_BITS)
    return [_NAME.pack(*each) for each in zip(high.tolist(), begins.tolist(), strict=True)]


def _runs_of(contents: Sequence[bytes], kind: np.dtype[np.void] | np.dtype[np.uint16]) -> npt.NDArray[np.int64]:
    """Place of the value that each row comes from, times 2^16: int64 [n]."""
    counts = [len(content) // kind.itemsize for content in contents]
    return np.repeat(np.arange(len(contents)), counts) << ROW_BITS
