"""Retention in RESOLVE: which entries have expired before each batch, and which epochs are over.

By number, the horizon is the number of the next entry less `entries_max`. Numbers count the documents that entered, so a queue in
the state has those of each batch, until the horizon has passed it.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.ages import NOWHERE, Place
from index.dataflow.message import Floor, Task
from index.dataflow.resolving.horizon import SOURCE_HORIZON, Horizon
from index.dataflow.rows import PARTITION_BITS, PARTITION_MAX, Retained, Rows

_STATE = b"retention"
_HEADING = struct.Struct("<QQQQQqQQ")
_BATCH = struct.Struct("<QQ")


class _State(NamedTuple):
    """What is kept.

    next_number  for the next entry
    first, last  batches in the queue: from the first one to before the last one
    high, low    documents below this key have expired by number
    floor        first epoch that was not over at the last `Floor`
    run          `Floor.run`, with its partition
    sources      SOURCE_HORIZON [s]
    """

    next_number: int
    first: int
    last: int
    high: int
    low: int
    floor: int
    partition: int
    run: int
    sources: Rows


class RetentionState:
    """The horizon, batch after batch."""

    def __init__(self, retained: Retained):
        """See `Dataflow`."""
        self._retained = retained
        self._state: _State | None = None

    def before(self, task: Task, place: Place) -> Horizon:
        """The horizon for a batch. Batches come in order."""
        state = self._read(task)
        if not state.run:
            state = state._replace(partition=place.high & PARTITION_MAX, run=place.run)
        # A partition without documents has no source yet, which would hold back all epochs.
        if self._retained.retention.age_max_ms is not None and place.end != NOWHERE:
            state = state._replace(sources=_with_source(state.sources, place))
        entries_max = self._retained.retention.entries_max
        if entries_max is not None and state.next_number > entries_max:
            state = self._moved(task, state, state.next_number - entries_max, place.high)
        self._state = state
        return Horizon(state.high, state.low, state.sources)

    def count_on(self, task: Task, number: int | None) -> None:
        """Give this number to the next entry: that of a seed, whose index has lost some before. None: go on."""
        if number is not None:
            self._state = self._read(task)._replace(next_number=number)

    def enter(self, task: Task, place: Place, entered: npt.NDArray[np.bool_]) -> None:
        """Count a batch's entries, bool [n]."""
        state, count = self._read(task), int(np.count_nonzero(entered))
        if count and self._retained.retention.entries_max is not None:
            batch = _BATCH.pack(state.next_number, place.high) + np.packbits(entered).tobytes()
            task.put_all({_batch(state.last): batch})
            state = state._replace(last=state.last + 1)
        self._state = state._replace(next_number=state.next_number + count)

    def floor(self, task: Task) -> Floor | None:
        """The first epoch that is not over, if it is a later one than before."""
        state = self._read(task)
        high = state.high
        if self._retained.retention.age_max_ms is not None:
            # All that is older than what counts of any source.
            high = max(high, int(state.sources["end_high"].min(initial=2**64 - 1)) if len(state.sources) else 0)
        epoch = (high >> PARTITION_BITS) // self._retained.epoch_ms
        if epoch <= state.floor:
            return None
        self._state = state._replace(floor=epoch)
        return Floor(epoch, state.partition, state.run)

    def latest_floor(self, task: Task) -> int:
        """First epoch that was not over at the last floor."""
        return self._read(task).floor

    def write(self, task: Task) -> None:
        """Put what changed."""
        state = self._read(task)
        task.put_all({_STATE: _HEADING.pack(*state[:8]) + state.sources.tobytes()})

    def _moved(self, task: Task, state: _State, horizon: int, end: int) -> _State:
        """Move to the key of the entry with this number, past batches whose entries are all older; end: above all keys."""
        first = state.first
        while True:
            if first == state.last:
                return state._replace(first=first, high=end, low=0)
            number, high, entered = self._batch(task, first)
            if horizon < number + len(entered):
                break
            task.remove_all([_batch(first)])
            first += 1
        # The entry with this number may have left the index that a seed came from: then the next one.
        return state._replace(first=first, high=high, low=int(entered[max(0, horizon - number)]))

    def _batch(self, task: Task, place: int) -> tuple[int, int, npt.NDArray[np.int64]]:
        """Number of a batch's first entry, its rows' `high`, and those that entered."""
        content = task.get(_batch(place))
        assert content is not None, "the entries that count are in the queue"
        bits = np.unpackbits(np.frombuffer(content, np.uint8, offset=_BATCH.size))
        return *_BATCH.unpack_from(content), np.flatnonzero(bits)

    def _read(self, task: Task) -> _State:
        if self._state is None:
            content = task.get(_STATE)
            if content is None:
                self._state = _State(0, 0, 0, 0, 0, 0, 0, 0, np.zeros(0, SOURCE_HORIZON))
            else:
                sources = np.frombuffer(content, SOURCE_HORIZON, offset=_HEADING.size)
                numbers: tuple[int, int, int, int, int, int, int, int] = _HEADING.unpack_from(content)
                self._state = _State(*numbers, sources)
        return self._state


def _with_source(sources: Rows, place: Place) -> Rows:
    """Sources with what has expired of a batch's own."""
    source = np.array([(place.high & PARTITION_MAX, *place.begin, *place.end)], SOURCE_HORIZON)
    same = np.ones(len(sources), np.bool_)
    for name in ("partition", "begin_high", "begin_low"):
        same &= sources[name] == source[name]
    return np.concatenate([sources[~same], source])


def _batch(place: int) -> bytes:
    return _STATE + place.to_bytes(8, "little")
