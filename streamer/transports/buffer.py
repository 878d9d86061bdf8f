"""Buffer that cuts records into batches."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from itertools import groupby, islice
from operator import attrgetter

from index import Source
from streamer.records.record import Batch, Record
from streamer.settings.settings import Batching

BATCHES_KEPT = 2
"""Full batches kept: the next one, and the one peeked at meanwhile."""


class RecordBuffer:
    """Records in reading order.

    gate  per source, an offset: only records below it are ready, later ones wait; None: no limit

    >>> buffer = RecordBuffer(Batching(records_max=2))
    >>> buffer.add(Record(Source("stream", 0), "pages", offset, None, b"{}", 0) for offset in range(3))
    >>> [record.offset for record in buffer.cut().records], len(buffer)
    ([0, 1], 1)
    """

    def __init__(self, bounds: Batching, gate: Callable[[Source], int] | None = None) -> None:
        self._bounds, self._gate = bounds, gate
        self._records: deque[Record] = deque()
        self._value_bytes = 0
        self._waiting: dict[Source, deque[Record]] = {}
        self._peeked: Batch | None = None

    def __len__(self) -> int:
        return self.ready_count() + self.waiting_count()

    def ready_count(self) -> int:
        """Number of records ready for a batch."""
        return len(self._records) + (len(self._peeked.records) if self._peeked else 0)

    def room(self) -> int:
        """Records to poll for: BATCHES_KEPT full batches, by records and bytes, without those that are ready; at least 1."""
        is_full = self._value_bytes >= BATCHES_KEPT * self._bounds.bytes_max
        return 1 if is_full else max(1, BATCHES_KEPT * self._bounds.records_max - self.ready_count())

    def waiting_count(self) -> int:
        """Number of records before the gate."""
        return sum(map(len, self._waiting.values()))

    def waiting_of(self, source: Source) -> int:
        """Number of one source's records before the gate."""
        return len(self._waiting.get(source, ()))

    def hold_back(self, share: int) -> dict[Source, int]:
        """Drop waiting records beyond `share` per source. Returns the end of each full share."""
        ends: dict[Source, int] = {}
        for source, records in self._waiting.items():
            if len(records) >= share:
                while len(records) > share:
                    records.pop()
                ends[source] = records[-1].end
        return ends

    def add(self, records: Iterable[Record]) -> None:
        """Append records."""
        if self._gate is None:
            self._append(records)
            return
        for record in records:
            self._waiting.setdefault(record.source, deque()).append(record)
        self.release()

    def release(self) -> None:
        """Move waiting records that the gate now passes to the ready ones."""
        if self._gate is None:
            return
        for source, records in self._waiting.items():
            below, passed = self._gate(source), list[Record]()
            while records and records[0].offset < below:
                passed.append(records.popleft())
            self._append(passed)

    def forget(self, sources: Collection[Source]) -> None:
        """Drop all records of these sources."""
        self._waiting = {source: records for source, records in self._waiting.items() if source not in sources}
        kept, self._records, self._value_bytes = self._records, deque(), 0
        self._append(record for record in kept if record.source not in sources)
        if self._peeked and not self._peeked.ends.keys().isdisjoint(sources):
            left = [record for record in self._peeked.records if record.source not in sources]
            self._peeked = _batch(left) if left else None

    def first_offsets(self) -> dict[Source, int]:
        """First buffered offset per source."""
        firsts: dict[Source, int] = {}
        for record in (*(self._peeked.records if self._peeked else ()), *self._records):
            firsts.setdefault(record.source, record.offset)
        for source, records in self._waiting.items():
            if records:
                firsts.setdefault(source, records[0].offset)
        return firsts

    def peek(self) -> Batch | None:
        """Next batch if full, else None. `cut` returns the same `records`, unless `forget` intervenes."""
        if self._peeked is None:
            count, is_full = self._next_count()
            self._peeked = self._take(count) if is_full else None
        return self._peeked

    def cut(self) -> Batch:
        """Remove and return the next batch, full or not, with at least one record."""
        peeked, self._peeked = self._peeked, None
        return peeked or self._take(self._next_count()[0])

    def _append(self, records: Iterable[Record]) -> None:
        ready = list(records)
        self._records.extend(ready)
        self._value_bytes += _size(ready)

    def _next_count(self) -> tuple[int, bool]:
        if self._value_bytes > self._bounds.bytes_max:
            value_bytes = 0
            for count, record in enumerate(islice(self._records, self._bounds.records_max)):
                value_bytes += _size((record,))
                if count and value_bytes > self._bounds.bytes_max:
                    return count, True
        count = min(len(self._records), self._bounds.records_max)
        return count, count == self._bounds.records_max

    def _take(self, count: int) -> Batch:
        records = [self._records.popleft() for _ in range(count)]
        self._value_bytes -= _size(records)
        return _batch(records)


def _size(records: Iterable[Record]) -> int:
    return sum([len(record.value) for record in records if record.value])


def _batch(records: list[Record]) -> Batch:
    # Records of one source come in runs: only the last of each run is asked.
    return Batch(records, {source: deque(run, 1)[0].end for source, run in groupby(records, _source_of)})


_source_of = attrgetter("source")
