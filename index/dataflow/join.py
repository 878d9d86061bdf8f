"""JOIN: emits verdicts on whole batches, by ascending offset. Keyed by input partition."""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from index.dataflow.message import Decided, Kind, Message, Task, unpack_texts
from index.dataflow.rows import NAMED, PARTITION_MAX, verdict_parts
from index.entry import NO_DISTANCE, Position, Source, Verdict, naming_originals

_HEADING = struct.Struct("<QQQQ")
_COUNT = struct.Struct("<I")

_BEFORE = np.array([Verdict.UNIQUE, Verdict.UNIQUE, Verdict.UNDECIDABLE, Verdict.DEAD_LETTER], np.uint8)
"""Verdicts before any rejects, by kind."""


class Join:
    """The operator JOIN."""

    def complete(self, task: Task, slot: int, messages: Sequence[Message]) -> Iterator[Decided]:  # noqa: ARG002
        """Verdicts on the slot's batches."""
        decided = dict(_unique(message.content) for message in messages if message.kind == Kind.BATCH)
        for message in messages:
            if message.kind == Kind.NAMED:
                _reject(decided, message.content)
        for high in sorted(decided):
            yield decided[high]


def _unique(content: bytes) -> tuple[int, Decided]:
    """A batch's `high`, and its verdicts before any rejects."""
    high, begin, first, count = _HEADING.unpack_from(content)
    verdicts = _BEFORE[np.frombuffer(content, "u1", count, _HEADING.size)]
    distances, letters = np.full(count, NO_DISTANCE, np.int16), np.zeros(count, np.uint32)
    none, content = [None] * count, content[_HEADING.size + count :]
    partition = high & PARTITION_MAX
    marks = np.zeros(count, np.uint8)
    found = Decided(partition, begin, first, verdicts, distances, [*none], [*none], letters, {}, content, marks)
    return high, found


def _reject(decided: dict[int, Decided], content: bytes) -> None:
    (count,) = _COUNT.unpack_from(content)
    rows = np.frombuffer(content, NAMED, count, _COUNT.size)
    texts = unpack_texts(content, _COUNT.size + rows.nbytes)
    verdicts, marks, former = verdict_parts(rows["verdict"])
    are_named = naming_originals(verdicts)
    # A record that is no entry has no length to compare.
    letters = np.where(former, 0, rows["letters"])
    for place, (high, row) in enumerate(zip(rows["high"].tolist(), rows["low"].tolist(), strict=True)):
        batch = decided[high]
        stream, name, original = texts[3 * place : 3 * place + 3]
        batch.verdicts[row], batch.marks[row] = verdicts[place], marks[place]
        if not are_named[place]:
            continue
        batch.distances[row] = rows["distance"][place]
        batch.original_ids[row], batch.original_letters[row] = original, letters[place]
        source = Source(stream, int(rows["partition"][place]))
        batch.original_positions[row] = Position(source, int(rows["offset"][place]))
        batch.names[stream] = name  # type: ignore[index]
