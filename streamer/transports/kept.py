"""Records that were read and not handed out yet, and the batches that are cut from them."""

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice

from index import Source
from streamer.records.record import Batch, Record
from streamer.settings.settings import Batching


class Kept:
    """Records in the order in which they were read; those of each source in the order of their offsets."""

    def __init__(self, bounds: Batching) -> None:
        self._bounds = bounds
        self._records: deque[Record] = deque()
        self._peeked: Batch | None = None

    def __len__(self) -> int:
        return len(self._records) + (len(self._peeked.records) if self._peeked else 0)

    def add(self, records: Iterable[Record]) -> None:
        """Take records in."""
        self._records.extend(records)

    def forget(self, sources: Collection[Source]) -> None:
        """Drop all records of these sources."""
        self._records = deque(record for record in self._records if record.source not in sources)
        if self._peeked and not self._peeked.ends.keys().isdisjoint(sources):
            left = [record for record in self._peeked.records if record.source not in sources]
            self._peeked = _batch(left) if left else None

    def first_offsets(self) -> dict[Source, int]:
        """Offset of the first record that is kept of each source."""
        found: dict[Source, int] = {}
        for record in (*(self._peeked.records if self._peeked else ()), *self._records):
            found.setdefault(record.source, record.offset)
        return found

    def peek(self) -> Batch | None:
        """The next batch, if it is full; None else. `cut` gives its very `records`, unless one of them is forgotten."""
        count, is_full = self._next_count()
        if self._peeked is None and is_full:
            self._peeked = self._take(count)
        return self._peeked

    def cut(self) -> Batch:
        """Take the next batch, full or not: the first records, within the bounds of a batch but always a first one."""
        peeked, self._peeked = self._peeked, None
        return peeked or self._take(self._next_count()[0])

    def _next_count(self) -> tuple[int, bool]:
        """How many of the first records fit into a batch, and whether they fill it."""
        value_bytes = 0
        for count, record in enumerate(islice(self._records, self._bounds.records_max)):
            value_bytes += len(record.value or b"")
            if count and value_bytes > self._bounds.bytes_max:
                return count, True
        count = min(len(self._records), self._bounds.records_max)
        return count, count == self._bounds.records_max

    def _take(self, count: int) -> Batch:
        return _batch([self._records.popleft() for _ in range(count)])


def _batch(records: list[Record]) -> Batch:
    return Batch(records, {record.source: record.end for record in records})
