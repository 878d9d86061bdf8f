"""JOIN: emits verdicts on whole batches, by ascending offset. Keyed by input partition."""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.message import Decided, Kind, Message, Task
from index.dataflow.rows import NAMED, ROW_BITS, partitions, row_numbers
from index.dataflow.texts import unpack_texts
from index.entry import NO_DISTANCE, Position, Source, Verdict
from index.entry import Kind as EntryKind

_HEADING = struct.Struct("<QQQQ")
_COUNT = struct.Struct("<I")


class Join:
    """The operator JOIN."""

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Decided]:  # noqa: ARG002
        """Verdicts on the slot's batches."""
        decided: dict[tuple[int, int], Decided] = {}
        for message in messages:
            if message.kind == Kind.BATCH:
                high, begin, batch = _unique(message.content)
                decided[high, begin] = batch
        for message in messages:
            if message.kind == Kind.NAMED:
                _reject(decided, message.content)
        for key in sorted(decided):
            yield decided[key]


def _unique(content: bytes) -> tuple[int, int, Decided]:
    """Key of a batch, and its verdicts before any rejects."""
    high, begin, first, count = _HEADING.unpack_from(content)
    kinds = np.frombuffer(content, "u1", count, _HEADING.size)
    verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
    verdicts[kinds == EntryKind.UNDECIDABLE] = Verdict.UNDECIDABLE
    verdicts[kinds == EntryKind.DEAD_LETTER] = Verdict.DEAD_LETTER
    partition = int(partitions(np.array([high], np.uint64))[0])
    distances = np.full(count, NO_DISTANCE, np.int16)
    rest = content[_HEADING.size + count :]
    return high, begin, Decided(partition, begin, first, verdicts, distances, [None] * count, [None] * count, {}, rest)


def _reject(decided: dict[tuple[int, int], Decided], content: bytes) -> None:
    (count,) = _COUNT.unpack_from(content)
    rows = np.frombuffer(content, NAMED, count, _COUNT.size)
    texts = unpack_texts(content, _COUNT.size + rows.nbytes)
    numbers = row_numbers(rows["low"]).tolist()
    begins = (rows["low"] >> np.uint64(ROW_BITS)).tolist()
    for place, (row, begin) in enumerate(zip(numbers, begins, strict=True)):
        batch = decided[int(rows["high"][place]), begin]
        stream, name, original = texts[3 * place : 3 * place + 3]
        batch.verdicts[row], batch.distances[row] = Verdict.DUPLICATE, rows["distance"][place]
        batch.original_ids[row] = original
        source = Source(stream, int(rows["partition"][place]))
        batch.original_positions[row] = Position(source, int(rows["offset"][place]))
        batch.names[stream] = name  # type: ignore[index]
