"""Buckets of bands in the state: a log-structured merge tree for each key, as a band's bucket rarely has two entries.

New entries are a log in the state, and ordered in memory. Once there are many they become a segment, and segments of one
level become one of the next. A document whose buckets are new reads nothing: filters say so. A value for each bucket
would take as many reads and writes through Flink as a document has bands.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.buckets.segment import Segment
from index.dataflow.ledger import pack_floor, unpack_floor
from index.dataflow.message import Task
from index.dataflow.rows import Retained, Rows, places_in_runs

GROWTH = 4
"""As many segments become one on the next level. With fewer an entry is written more often, with more it is sought in more."""

MERGED_ENTRIES_MAX = 2**20
"""Entries in the largest merge: bounds its memory, and how long the flow waits for it."""

LOG_VALUES_MAX = 64
"""Values in the log, until they become one: a start reads them all."""

_LOG = struct.Struct("<cI")
_LIST, _FLOOR = b"segments", b"floor"

_LISTED = np.dtype([("number", "<u4"), ("level", "u1"), ("entries", "<u4"), ("half", "<i8")])
"""A segment in the list. Half of its entries, or more, are from epochs up to `half`."""


class SegmentedBuckets:
    """One key's entries under pages. Remembers what it read and wrote, so all calls have the same key's task."""

    def __init__(self, task: Task, entry: np.dtype[np.void], segment_entries: int, retained: Retained | None):
        """Read what finds the key's entries.

        segment_entries  the least of a new segment
        """
        self._filed = np.dtype([("page", "<u8"), ("entry", entry)])
        self._segment_entries, self._retained = segment_entries, retained
        self._listed = np.frombuffer(task.get(_LIST) or b"", _LISTED)
        self._segments = [Segment.find(task, number) for number in self._listed["number"].tolist()]
        log = list[bytes]()
        while (content := task.get(_log_name(len(log)))) is not None:
            log.append(content)
        self._log_values = len(log)
        self._recent = _by_page(np.frombuffer(b"".join(log), self._filed))
        floor = task.get(_FLOOR)
        self.floor: int = 0 if floor is None else unpack_floor(floor)

    def read(self, task: Task, pages: npt.NDArray[np.uint64]) -> "Found":
        """Read distinct pages, uint64 [pages] ascending, without entries from past epochs."""
        sources = [segment.leaves_with(task, pages, self._filed) for segment in self._segments]
        some, at = zip(*(_under(pages, filed) for filed in (*sources, self._recent)), strict=True)
        filed, places = np.concatenate(some), np.concatenate(at)
        # Sources come from the oldest to the newest, and the sort keeps that order.
        order = np.argsort(places, kind="stable")
        order = order[self._count(filed)[order]]
        return Found(filed["entry"][order], np.bincount(places[order], minlength=len(pages)), pages, self)

    def add(self, task: Task, pages: npt.NDArray[np.uint64], entries: Rows) -> None:
        """Add entries under pages, uint64 [n]."""
        if not len(entries):
            return
        filed = np.empty(len(entries), self._filed)
        filed["page"], filed["entry"] = pages, entries
        self._recent = _by_page(np.concatenate([self._recent, filed]))
        if len(self._recent) >= self._segment_entries:
            self._clear_log(task)
            self._replace(task, len(self._segments), 0, self._recent)
            self._recent = self._recent[:0]
            self._merge(task)
            return
        if self._log_values == LOG_VALUES_MAX:
            self._clear_log(task)
            filed = self._recent
        task.put_all({_log_name(self._log_values): filed.tobytes()})
        self._log_values += 1

    def expire(self, task: Task, floor: int) -> None:
        """Forget the epochs before `floor`. Until a segment is written again up to half of its entries are from such."""
        # A log repeats floors after a crash.
        if floor <= self.floor:
            return
        self.floor = floor
        task.put_all({_FLOOR: pack_floor(floor)})
        for place in np.flatnonzero(self._listed["half"] < floor).tolist()[::-1]:
            filed = self._segments[place].whole(task, self._filed)
            self._replace(task, place, int(self._listed["level"][place]), filed, place + 1)

    def _merge(self, task: Task) -> None:
        """Merge the newest segments as long as there are enough of one level."""
        while True:
            newest = self._listed[-GROWTH:]
            is_level = len(newest) == GROWTH and (newest["level"] == newest["level"][0]).all()
            if not is_level or newest["entries"].sum(dtype=np.int64) > MERGED_ENTRIES_MAX:
                return
            begin = len(self._segments) - GROWTH
            filed = np.concatenate([segment.whole(task, self._filed) for segment in self._segments[begin:]])
            self._replace(task, begin, int(newest["level"][0]) + 1, filed, len(self._segments))

    def _replace(self, task: Task, begin: int, level: int, filed: Rows, end: int | None = None) -> None:
        """Put one segment of these entries, from the oldest to the newest, in the place of segments [begin, end)."""
        end = begin if end is None else end
        filed = _by_page(filed[self._count(filed)])
        for segment in self._segments[begin:end]:
            segment.remove(task)
        number = 1 + max((segment.number for segment in self._segments), default=-1)
        self._segments[begin:end] = [Segment.write(task, number, filed)] if len(filed) else []
        new = np.array([(number, level, len(filed), self._half(filed))] if len(filed) else [], _LISTED)
        self._listed = np.concatenate([self._listed[:begin], new, self._listed[end:]])
        task.put_all({_LIST: self._listed.tobytes()})

    def _half(self, filed: Rows) -> int:
        if self._retained is None or not len(filed):
            return 0
        epochs = self._retained.epochs(filed["entry"]["high"])
        return int(np.partition(epochs, len(epochs) // 2)[len(epochs) // 2])

    def _count(self, filed: Rows) -> npt.NDArray[np.bool_]:
        """Whether entries are from epochs that are not over, bool [n]."""
        if self._retained is None:
            return np.ones(len(filed), np.bool_)
        return self._retained.epochs(filed["entry"]["high"]) >= self.floor

    def _clear_log(self, task: Task) -> None:
        task.remove_all([_log_name(value) for value in range(self._log_values)])
        self._log_values = 0


class Found(NamedTuple):
    """Pages as read.

    entries  in insertion order, page after page
    counts   int64 [pages], each page's entries
    """

    entries: Rows
    counts: npt.NDArray[np.int64]
    pages: npt.NDArray[np.uint64]
    buckets: SegmentedBuckets

    def add(self, task: Task, places: npt.NDArray[np.intp], entries: Rows) -> None:
        """Append entries to these pages; places: intp [n], ascending."""
        self.buckets.add(task, self.pages[places], entries)


def _under(pages: npt.NDArray[np.uint64], filed: Rows) -> tuple[Rows, npt.NDArray[np.intp]]:
    """Entries under these pages, with each one's place among them, intp [m]; entries ordered by page."""
    own = np.ascontiguousarray(filed["page"])
    begins = np.searchsorted(own, pages)
    counts = np.searchsorted(own, pages, "right") - begins
    return filed[places_in_runs(begins, counts)], np.repeat(np.arange(len(pages)), counts)


def _by_page(filed: Rows) -> Rows:
    return filed[np.argsort(filed["page"], kind="stable")]


def _log_name(value: int) -> bytes:
    return _LOG.pack(b"r", value)
