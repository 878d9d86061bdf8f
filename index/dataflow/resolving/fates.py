"""Fates of documents in RESOLVE's state: one value for each batch, and the last ones in memory.

A value is b"".join([heading, rows that are gone as uint16, members, followers]). The heading counts the rows that are gone,
and with updates the members, without which there are no followers. All its others are unique.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import Task
from index.dataflow.rows import FOLLOWER, ROW_BITS, Layout, Rows, run_begins

BATCHES_KEPT = 2**11
"""Batches in memory, some 10 MB: a copy mostly resembles a recent document, and each read is a call into the engine."""

_NAME = struct.Struct(">Q")
_ROW = np.dtype("<u2")


class Fates(NamedTuple):
    """Fates of n documents in order.

    gone       bool [n], documents that are no entries: dropped duplicates, and entries that left
    places     int64 [m], documents that are members
    members    their rows, as `Layout.settled`
    followers  FOLLOWER [f], entries alike to these documents, in any order
    """

    gone: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64]
    members: Rows
    followers: Rows


class _Value(NamedTuple):
    gone: bytes
    members: bytes
    followers: bytes


class FateStore:
    """Fates by batch. Without updates a batch's value is put once, as its documents share a slot."""

    def __init__(self, layout: Layout):
        self._member = layout.settled
        self._heading = struct.Struct("<II" if layout.leaves else "<I")
        # The last used one comes last.
        self._recent: dict[bytes, bytes] = {}

    def read(self, task: Task, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint16]) -> Fates:
        """Fates of documents with ascending keys, [n] each."""
        begins = run_begins(high)
        values = [self._value(task, name) for name in _names(high[begins])]
        # Batch and row in one number: both ascend.
        runs = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(high)))
        keys = runs << ROW_BITS | low
        gone, members = [value.gone for value in values], [value.members for value in values]
        gone_keys = _runs_of(gone, _ROW) | np.frombuffer(b"".join(gone), _ROW)
        settled = np.frombuffer(b"".join(members), self._member)
        member_keys = _runs_of(members, self._member) | settled["low"]
        asked = np.isin(member_keys, keys, assume_unique=True)
        places = np.searchsorted(keys, member_keys[asked])
        following = [value.followers for value in values]
        followers = np.frombuffer(b"".join(following), FOLLOWER)
        followed = np.isin(_runs_of(following, FOLLOWER) | followers["low"], keys)
        is_gone = np.isin(keys, gone_keys, assume_unique=True)
        return Fates(is_gone, places, np.compress(asked, settled), followers[followed])

    def write(self, task: Task, gone: Rows, members: Rows, followers: Rows) -> Sequence[bytes]:
        """Note documents that are gone, by their keys, members, and each followed document's followers as a whole.

        Returns batches that had no value, by name.
        """
        parts = gone, members, followers
        highs, numbers = np.unique(np.concatenate([part["high"] for part in parts]), return_inverse=True)
        owners, contents = np.split(numbers, np.cumsum([len(part) for part in parts])[:-1]), {}
        new = []
        for batch, name in enumerate(_names(highs)):
            known = self._value(task, name)
            if not any(known):
                new.append(name)
            some, settled, following = (part[own == batch] for part, own in zip(parts, owners, strict=True))
            rows = np.union1d(np.frombuffer(known.gone, _ROW), some["low"].astype(_ROW))
            others = np.frombuffer(known.followers, FOLLOWER)
            others = others[~np.isin(others["low"], following["low"])]
            contents[name] = self._packed(
                len(rows),
                _Value(rows.tobytes(), known.members + settled.tobytes(), others.tobytes() + following.tobytes()),
            )
        task.put_all(contents)
        self._recent.update(contents)
        for name in list(self._recent)[:-BATCHES_KEPT]:
            del self._recent[name]
        return new

    def remove(self, task: Task, names: Sequence[bytes]) -> None:
        """Forget batches' fates."""
        task.remove_all(names)
        for name in names:
            self._recent.pop(name, None)

    def _packed(self, gone: int, value: _Value) -> bytes:
        counts = (gone, len(value.members) // self._member.itemsize)
        return self._heading.pack(*counts[: self._heading.size // 4]) + b"".join(value)

    def _value(self, task: Task, name: bytes) -> _Value:
        content = self._recent.pop(name, None) or task.get(name) or self._heading.pack(*bytes(self._heading.size // 4))
        self._recent[name] = content
        gone, *members = self._heading.unpack_from(content)
        middle = self._heading.size + _ROW.itemsize * gone
        end = middle + members[0] * self._member.itemsize if members else len(content)
        return _Value(content[self._heading.size : middle], content[middle:end], content[end:])


def _names(high: npt.NDArray[np.uint64]) -> Sequence[bytes]:
    return [_NAME.pack(each) for each in high.tolist()]


def _runs_of(contents: Sequence[bytes], kind: np.dtype[np.void] | np.dtype[np.uint16]) -> npt.NDArray[np.int64]:
    """Place of the value that each row comes from, times 2^16: int64 [n]."""
    counts = [len(content) // kind.itemsize for content in contents]
    return np.repeat(np.arange(len(contents)), counts) << ROW_BITS
