"""Records in, records out, and the decisions on them.

Nobody changes an object of these classes once it is made. The classes with one object per record are still not frozen:
a frozen object takes four times as long to make, and every document needs four.
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
    """Topic between two parts of a service. A record stays in the partition that it was made from."""

    FINGERPRINTS = "fingerprints"
    VERDICTS = "verdicts"


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that cannot be read, and that a policy skipped: how many offsets, and which and why in words."""

    offsets: int
    why: str


@dataclass(slots=True)
class Record:
    """One record as the transport read it. `topic` is the name of the topic or the file, for people.

    Where `lost` is set, the record stands for others that cannot be read: it has the offset of the first, and no content.
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
        """The offset behind this record, or behind all that it stands for."""
        return self.offset + (self.lost.offsets if self.lost else 1)


@dataclass(slots=True)
class Decision:
    """Verdict on one record, with all that explains it.

    reason       one of a fixed list
    detail       free text for people (the decoder's complaint), never a label
    fingerprint  lower-case hexadecimal, None where there is none

    Only duplicates and suspects have `distance` or `similarity`, `original_id`, `original_position` and `original_stream`
    (the stream of that position).
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

    record   the input, whose key, value bytes and timestamp go out unchanged
    headers  the input's, without those that begin with `neardup.`, and the headers gained; all that are written
    decision None where a part of a service hands on a batch, which is no output
    """

    destination: Destination | Handover
    record: Record
    headers: Headers
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are read together, decided together and delivered together.

    ends      per source in the batch, the offset behind its last record, which is committed and applied
    marks     per source in the batch, an opaque proof of the content up to that end (files; Kafka needs none)
    snapshot  the transport's proof that this worker owned the sources when the records were read; goes back with
              `deliver`. On a batch without records: proof that this worker is a member of the group, even where it owns
              no source
    """

    records: Sequence[Record]
    ends: Mapping[Source, int] = field(default_factory=dict)
    marks: Mapping[Source, bytes] = field(default_factory=dict)
    snapshot: object = None

    def first(self, count: int) -> "Batch":
        """The batch of the first `count` records, at least one, without marks; the batch itself where it has no more."""
        if count == len(self.records):
            return self
        kept = self.records[:count]
        ends = {record.source: record.end for record in kept}
        return Batch(kept, ends, snapshot=self.snapshot)
