"""Ages in ORDER: how far a partition's documents have expired by record time, as `index.decide.retention` defines it.

A source's time depends on its own records alone, and a partition's batches come in their order. So ORDER knows it.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.dataflow.message import SourceAge, Task
from index.decide.retention import watermark_ms
from index.storage.layout import Times

NOWHERE = (2**64 - 1, 0)
"""In place of a key: a partition that has no documents yet."""

_STATE = b"ages"
_HEADING = struct.Struct("<qQQQQQQ")
_NOTE = struct.Struct("<qQQ")
_PLACE = struct.Struct("<QQQQQQI")


class Place(NamedTuple):
    """A batch's place, for RESOLVE.

    high        its rows'
    begin, end  keys: its source's documents from the first one to before the second one have expired by age
    run         its partition's `Floor.run`
    may_enter   bool [n], rows that are compared
    """

    high: int
    begin: tuple[int, int]
    end: tuple[int, int]
    run: int
    may_enter: npt.NDArray[np.bool_]


def pack_place(place: Place) -> bytes:
    """A place as bytes."""
    head = _PLACE.pack(place.high, *place.begin, *place.end, place.run, len(place.may_enter))
    return head + np.packbits(place.may_enter).tobytes()


def unpack_place(content: bytes) -> Place:
    """Revert `pack_place`."""
    high, begin_high, begin_low, end_high, end_low, run, count = _PLACE.unpack_from(content)
    bits = np.unpackbits(np.frombuffer(content, np.uint8, offset=_PLACE.size), count=count)
    return Place(high, (begin_high, begin_low), (end_high, end_low), run, bits.astype(np.bool_))


class _State(NamedTuple):
    """A source's time, its notes from `first` to before `last`, and what has expired."""

    watermark_ms: int
    first: int
    last: int
    begin: tuple[int, int]
    end: tuple[int, int]
    latest_ms: npt.NDArray[np.int64]
    stream: bytes


class Ages:
    """A partition's record times. Its state has a note for each value that the source's time had and that counts."""

    def __init__(self, age_max_ms: int):
        """age_max_ms: as in `index.session.Retention`."""
        self._age_max_ms = age_max_ms

    def begin(self, task: Task, age: SourceAge) -> None:
        """Go on from what an index knows of the partition's source, which replaces an earlier one."""
        values = {_note(number): _NOTE.pack(*note) for number, note in enumerate(age.notes.tolist())}
        task.put_all(values)
        stream = age.stream.encode("utf-8", "surrogatepass")
        self._write(task, _State(age.watermark_ms, 0, len(values), age.begin, age.end, age.latest_ms, stream))

    def enter(self, task: Task, key: tuple[int, int], count: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """As `advance`, for documents that were given back: they expire by the partition's time, and do not move it.

        Both keys are NOWHERE in a partition that has no documents yet.
        """
        state = self._read(task)
        if state is None:
            return NOWHERE, NOWHERE
        if state.watermark_ms >= 0:
            # The source's time has a note: it reaches beyond these documents from now on.
            note = _NOTE.pack(state.watermark_ms, key[0], key[1] + count)
            task.put_all({_note(state.last - 1): note})
        return state.begin, state.end

    def advance(
        self, task: Task, stream: str, key: tuple[int, int], times_ms: npt.NDArray[np.int64]
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Begin and end of what has expired, as in `Place`, with the record times that a batch with this key has."""
        state = self._read(task)
        if state is None or state.stream != stream.encode("utf-8", "surrogatepass"):
            # A recreated topic is another source, and the former one's entries stay as they are.
            if state is not None:
                task.remove_all([_note(number) for number in range(state.first, state.last)])
            encoded = stream.encode("utf-8", "surrogatepass")
            state = _State(-1, 0, 0, key, key, np.empty(0, np.int64), encoded)
        times = watermark_ms(Times(state.watermark_ms, state.latest_ms), times_ms)
        state = self._expired(task, state, times.watermark_ms - self._age_max_ms)
        if times.watermark_ms >= 0:
            # A note has the log's end at the source's time.
            number = state.last - (state.last > state.first and times.watermark_ms == state.watermark_ms)
            task.put_all({_note(number): _NOTE.pack(times.watermark_ms, key[0], key[1] + len(times_ms))})
            state = state._replace(last=number + 1)
        self._write(task, state._replace(watermark_ms=times.watermark_ms, latest_ms=times.latest_ms))
        return state.begin, state.end

    def _expired(self, task: Task, state: _State, oldest_ms: int) -> _State:
        """The state without notes from before `oldest_ms`."""
        end, first = state.end, state.first
        while first < state.last:
            note = _NOTE.unpack(task.get(_note(first)) or b"")
            if note[0] >= oldest_ms or oldest_ms <= 0:
                break
            end, first = note[1:], first + 1
        task.remove_all([_note(number) for number in range(state.first, first)])
        return state._replace(first=first, end=end)

    def _read(self, task: Task) -> _State | None:
        content = task.get(_STATE)
        if content is None:
            return None
        time_ms, first, last, begin_high, begin_low, end_high, end_low = _HEADING.unpack_from(content)
        count = content[_HEADING.size]
        latest_ms = np.frombuffer(content, "<i8", count, _HEADING.size + 1)
        stream = content[_HEADING.size + 1 + latest_ms.nbytes :]
        return _State(time_ms, first, last, (begin_high, begin_low), (end_high, end_low), latest_ms, stream)

    def _write(self, task: Task, state: _State) -> None:
        head = _HEADING.pack(state.watermark_ms, state.first, state.last, *state.begin, *state.end)
        latest = bytes([len(state.latest_ms)]) + state.latest_ms.astype("<i8").tobytes()
        task.put_all({_STATE: head + latest + state.stream})


def _note(number: int) -> bytes:
    return _STATE + number.to_bytes(8, "little")
