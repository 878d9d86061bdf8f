"""Visibility: entries are visible until they expire by age or number, or are retired one by one.

One transaction retires an entry. Later batches remove it from its tables, a little at a time, so every lookup filters
its matches by visibility.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.storage import layout, log
from index.storage.store import Transaction

RETIRED_KNOWN_MAX = 4_096
"""Retired numbers read at once, in two milliseconds; with more, only the requested ones are read."""

_APART_MAX = 64
"""Requested numbers with a smaller mean gap are read as a range."""


class Visibility:
    """Visibility at one moment, and after every further retirement in the same transaction.

    >>> visibility = opened.read(lambda session: session.visibility)
    >>> visibility.expire_below(5)
    >>> visibility.visible(np.array([4, 5], np.uint64))
    array([False,  True])
    """

    def __init__(self, transaction: Transaction, words: int) -> None:
        self.horizon: layout.Horizon = layout.unpack_horizon(transaction.get(layout.Table.META, layout.HORIZON_KEY))
        self.words, self.transaction = words, transaction
        self._stored = transaction.count(layout.Table.RETIRED)
        few = self._stored <= RETIRED_KNOWN_MAX
        self._retired = layout.unpack_numbers(transaction.keys(layout.Table.RETIRED) if few else [])
        self._keys = {
            (stream, partition): log.key_of(number, rows)
            for stream, partition, number, rows in self.horizon.sources.tolist()
        }
        self._unsure_below = max(self.horizon.sources["number"].tolist(), default=0)

    @property
    def some_have_expired(self) -> bool:
        """Whether any entry ever expired, by number or by age."""
        return self.expired_below > 0

    @property
    def expired_below(self) -> int:
        """No entry from this number on has expired."""
        return max(self.horizon.number, self._unsure_below)

    def expire_below(self, number: int) -> None:
        """Expire entries below this number, from now on."""
        self.horizon = self.horizon._replace(number=max(self.horizon.number, number))

    def note_retired(self, numbers: npt.NDArray[np.uint64]) -> None:
        """Retire entries one by one, from now on: numbers uint64 [n]."""
        self._retired = np.union1d(self._retired, numbers)

    def are_retired(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether each entry is in `retired`: uint64 [n] -> bool [n]."""
        retired = are_among(self._retired, numbers)
        if self._stored > RETIRED_KNOWN_MAX and len(numbers):
            retired |= are_among(self._stored_of(np.unique(numbers)), numbers)
        return retired

    def _stored_of(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Those of these numbers that are in `retired`, perhaps with others: uint64 [n] -> uint64 [m], both ascending."""
        if int(numbers[-1]) - int(numbers[0]) <= _APART_MAX * len(numbers):
            first, last = layout.pack_numbers(numbers[[0, -1]])
            return layout.unpack_numbers(self.transaction.keys(layout.Table.RETIRED, first, last))
        return layout.unpack_numbers(
            [key for key, _ in self.transaction.get_many(layout.Table.RETIRED, layout.pack_numbers(numbers))]
        )

    def visible(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether each document is visible: numbers uint64 [n] -> bool [n]."""
        return self._unexpired(numbers, ~self.are_retired(numbers))

    def are_unexpired(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether each document is unexpired, retired one by one or not: uint64 [n] -> bool [n]."""
        return self._unexpired(numbers, np.ones(len(numbers), np.bool_))

    def _unexpired(self, numbers: npt.NDArray[np.uint64], asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        visible = (numbers >= np.uint64(self.horizon.number)) & asked
        unsure = np.flatnonzero(visible & (numbers < np.uint64(self._unsure_below)))
        if len(unsure):
            visible[unsure] = self._by_source(numbers[unsure])
        return visible

    def row_has_expired(self, key: bytes, stream: int, partition: int) -> bool:
        """Whether a source's rows in this key's batch have expired by age, including rows that entered nothing."""
        return key < self._keys.get((stream, partition), b"")

    def _by_source(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether each document, uint64 [n], is not below its source's horizon: bool [n]; reads the log."""
        stored = log.documents(self.transaction, numbers, self.words)
        sources, inverse = np.unique(stored.sources, return_inverse=True)
        horizons = np.array([self.source_number(*source) for source in sources.tolist()], np.uint64)
        # A document that has left the log has expired.
        return stored.there & (numbers >= horizons[inverse])

    def source_number(self, stream: int, partition: int) -> int:
        """A source's horizon: its entries below this number have expired; 0: none has."""
        return int(layout.LOG_KEY.unpack(self._keys.get((stream, partition), layout.LOG_KEY_BEGIN))[0])

    def expired(self, batches: Iterator[log.Batch]) -> Iterator[tuple[log.Batch, bool]]:
        """Log batches, ascending, with whether all their rows have expired; ends when no later batch can have."""
        for batch in batches:
            if batch.first_number > self.expired_below:
                return
            by_number = batch.end_number <= self.horizon.number and batch.first_number < self.horizon.number
            yield (
                batch,
                by_number
                or all(
                    self.row_has_expired(batch.key, *source) and batch.end_number <= self.source_number(*source)
                    for source in batch.sources.tolist()
                ),
            )


def are_among(some: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether numbers, uint64 [n], are among some ascending ones, uint64 [m]: bool [n]."""
    if not len(some):
        return np.zeros(len(numbers), np.bool_)
    places = np.searchsorted(some, numbers)
    places[places == len(some)] = 0
    among: npt.NDArray[np.bool_] = some[places] == numbers
    return among
