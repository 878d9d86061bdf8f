"""What comes in and what goes out: records, and the decisions made about them.

Nobody changes them once they are made. Those made for every record are not frozen all the same: a frozen one takes four
times as long to make, and there are four to a document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from index.entry import Source, Verdict

Headers = tuple[tuple[str, bytes | None], ...]


class Destination(StrEnum):
    """Where a record goes. Undecidable documents travel with the unique ones."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead-letter"


@dataclass(slots=True)
class Record:
    """One record as the outside handed it to us. `topic` is the topic's or the file's name, for people."""

    source: Source
    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()

    @property
    def position(self) -> str:
        """`topic/partition/offset`, the form that headers, logs and verdict lines use."""
        return f"{self.topic}/{self.source.partition}/{self.offset}"


@dataclass(slots=True)
class Decision:
    """The verdict on one record, with all that explains it.

    `reason` is one of a fixed list; `detail` is free text for people (the decoder's complaint), never a label.
    `fingerprint` is lower-case hexadecimal, None where there is none. `distance` or `similarity`, `original_id`,
    `original_position` and `original_stream` (the stream of that position) stand only on duplicates.
    """

    verdict: Verdict
    reason: str
    id: str | None
    fingerprint: str | None = None
    distance: int | None = None
    original_id: str | None = None
    original_position: str | None = None
    detail: str | None = None
    replayed: bool = False
    original_stream: str | None = None
    similarity: float | None = None


@dataclass(slots=True)
class Outgoing:
    """One record on its way out: the input's key, value bytes, timestamp and headers, and the headers gained."""

    destination: Destination
    record: Record
    headers: Headers
    decision: Decision


@dataclass(frozen=True, slots=True)
class Batch:
    """Records read together, decided together and delivered together.

    ends      for every source in the batch the offset behind its last record: what is committed and applied
    marks     for every source in the batch an opaque proof of the content up to that end (files; Kafka needs none)
    snapshot  the transport's proof that these sources were ours when the records were read; handed back at `deliver`.
              Without records: proof that we belong to those who share the sources, even where none is ours
    """

    records: Sequence[Record]
    ends: Mapping[Source, int] = field(default_factory=dict)
    marks: Mapping[Source, bytes] = field(default_factory=dict)
    snapshot: object = None
