"""Which entries still count: not those that expired by age or by number, nor those that were forgotten.

An entry is retired from one transaction to the next; the tables it stands in are cleaned of it later, a little with every
batch. So whoever finds an entry asks here whether it counts.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from index.storage import log
from index.storage.layout import HORIZON_KEY, Horizon, Table, unpack_horizon, unpack_numbers
from index.storage.store import Transaction


class Visibility:
    """The retired entries of one moment, and those that are retired in the same transaction."""

    def __init__(self, transaction: Transaction, words: int) -> None:
        self.horizon: Horizon = unpack_horizon(transaction.get(Table.META, HORIZON_KEY))
        self._words = words
        self._retired = unpack_numbers(transaction.keys(Table.RETIRED))
        self._sources = {
            (int(each["stream"]), int(each["partition"])): int(each["number"]) for each in self.horizon.sources
        }
        self._unsure_below = max(self._sources.values(), default=0)

    @property
    def all_are(self) -> bool:
        """Whether nothing was ever retired."""
        return not self.some_have_expired and not len(self._retired)

    @property
    def some_have_expired(self) -> bool:
        """Whether anything ever expired by number or by age."""
        return self.horizon.number > 0 or self._unsure_below > 0

    def note_retired(self, numbers: npt.NDArray[np.uint64]) -> None:
        """These, uint64 [n], are retired from now on, one by one."""
        self._retired = np.union1d(self._retired, numbers)

    def are_retired(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these, uint64 [n], were retired one by one, in `retired`: bool [n]."""
        if not len(self._retired):
            return np.zeros(len(numbers), np.bool_)
        places = np.searchsorted(self._retired, numbers)
        places[places == len(self._retired)] = 0
        found: npt.NDArray[np.bool_] = self._retired[places] == numbers
        return found

    def are(self, transaction: Transaction, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these documents, uint64 [n], are not retired: bool [n]."""
        alive = (numbers >= np.uint64(self.horizon.number)) & ~self.are_retired(numbers)
        unsure = np.flatnonzero(alive & (numbers < np.uint64(self._unsure_below)))
        if len(unsure):
            alive[unsure] = self._by_source(transaction, numbers[unsure])
        return alive

    def _by_source(self, transaction: Transaction, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        distinct, inverse = np.unique(numbers, return_inverse=True)
        # What is in the log no more has expired.
        alive = np.zeros(len(distinct), np.bool_)
        for batch, documents, places in log.holding(transaction, distinct, self._words):
            of_sources = np.array([self.source_number(*source) for source in batch.sources.tolist()], np.uint64)
            of_rows = of_sources[batch.rows["source"][batch.entered()[documents]]]
            alive[places] = distinct[places] >= of_rows
        return alive[inverse]

    def source_number(self, stream: int, partition: int) -> int:
        """Entries of this source below this number have expired."""
        return self._sources.get((stream, partition), 0)

    def expired(self, batches: Iterator[log.Batch]) -> Iterator[tuple[log.Batch, bool]]:
        """Batches with whether all that they hold has expired; ends where none behind can have."""
        horizons = {(int(each["stream"]), int(each["partition"])): each for each in self.horizon.sources}
        limit = max(self.horizon.number, self._unsure_below)
        for batch in batches:
            if batch.first_number > limit:
                return
            by_number = batch.end_number <= self.horizon.number and batch.first_number < self.horizon.number
            yield batch, by_number or all(_is_behind(batch, horizons.get(each)) for each in batch.sources.tolist())


def _is_behind(batch: log.Batch, horizon: np.void | None) -> bool:
    if horizon is None:
        return False
    number, rows = int(horizon["number"]), int(horizon["rows"])
    return batch.key < log.key_of(number, rows) and batch.end_number <= number
