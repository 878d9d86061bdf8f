"""Input records, output records, and the decisions on them.

Objects of these classes never change. The classes with one object per record are still not frozen: a frozen object takes four
times as long to make, and every document needs four.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from index import Source, Verdict

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]


class Destination(StrEnum):
    """Output that a record goes to. Undecidable documents and suspects go with the unique ones."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead-letter"


class Handover(StrEnum):
    """Topic between two parts of a service. A record stays in its input's partition."""

    FINGERPRINTS = "fingerprints"
    VERDICTS = "verdicts"


@dataclass(frozen=True, slots=True)
class Lost:
    """Unreadable records that a policy skipped: the number of offsets, and which and why in words."""

    offsets: int
    why: str


@dataclass(slots=True)
class Record:
    """One record as the transport read it. `topic` is the name of the topic or the file, for people.

    With `lost`, the record represents others that cannot be read: it has the first one's offset, and no content.
    """

    source: Source
    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()
    lost: Lost | None = None

    @property
    def position(self) -> str:
        """`topic/partition/offset`, the form of positions in headers, logs and verdict lines."""
        return f"{self.topic}/{self.source.partition}/{self.offset}"

    @property
    def end(self) -> int:
        """The offset after this record, or after all that it represents."""
        return self.offset + (self.lost.offsets if self.lost else 1)


@dataclass(slots=True)
class Decision:
    """Verdict on one record, with its explanation.

    reason       one of a fixed list
    detail       free text for people (the decoder's complaint), never a label
    fingerprint  lower-case hexadecimal, None without one

    Only duplicates and suspects have `distance` or `similarity`, `original_id`, `original_position` and `original_stream` (that
    position's stream).
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
    """One record on its way out.

    record    the input, whose key, value bytes and timestamp go out unchanged
    headers   all headers to write: the input's, without those that begin with `neardup.`, and the added ones
    decision  None if a part of a service hands on a batch, which is no output
    """

    destination: Destination | Handover
    record: Record
    headers: Headers
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are read, decided and delivered together.

    ends      by source, the offset after its last record, which is committed and applied
    marks     by source, an opaque proof of the content up to that end (files; Kafka needs none)
    snapshot  the transport's proof that this worker owned the sources when the records were read; goes back with
              `deliver`. In a batch without records: proof that this worker is a member of the group, even without
              sources
    """

    records: Sequence[Record]
    ends: Mapping[Source, int] = field(default_factory=dict)
    marks: Mapping[Source, bytes] = field(default_factory=dict)
    snapshot: object = None

    def first(self, count: int) -> "Batch":
        """The batch with the first `count` records, at least one, without marks; the batch itself if it has no more."""
        if count == len(self.records):
            return self
        kept = self.records[:count]
        ends = {record.source: record.end for record in kept}
        return Batch(kept, ends, snapshot=self.snapshot)
