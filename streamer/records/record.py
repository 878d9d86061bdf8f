"""Input records, output records, and the decisions on them.

Objects never change. Classes with one object per record are not frozen, since frozen ones take four times as long to
make.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from index import Source, Verdict, base_of

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]


class Destination(StrEnum):
    """Output for a record. Undecidable documents and suspects join the unique ones.

    >>> [Destination(name).name for name in ("unique", "dead-letter")]
    ['UNIQUE', 'DEAD_LETTER']
    """

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead-letter"


class Handover(StrEnum):
    """Topic between two parts of a service, partitioned as the input.

    >>> [str(topic) for topic in Handover]
    ['fingerprints', 'verdicts']
    """

    FINGERPRINTS = "fingerprints"
    VERDICTS = "verdicts"


class Feed(StrEnum):
    """Something that is delivered with the outputs and is none: nothing is recovered from it.

    STORIES    the latest value of each story, in a compacted topic
    PROTECTED  copies: records that resemble an entry in a protected set

    >>> f"topics.{Feed.STORIES}"
    'topics.stories'
    """

    STORIES = "stories"
    PROTECTED = "protected"


@dataclass(frozen=True, slots=True)
class Lost:
    """Unreadable records that a policy skipped: number and reason.

    >>> lost = Lost(offsets=3, why="the checksum does not fit")
    >>> f"{lost.offsets} records: {lost.why}"
    '3 records: the checksum does not fit'
    """

    offsets: int
    why: str


@dataclass(slots=True)
class Record:
    """One record as the transport read it; `topic` may be a file's name.

    With `lost`, it represents unreadable records: the first one's offset, and no content.

    >>> Record(Source("stream", 0), "pages", 7, key=None, value=b"{}", timestamp_ms=0).position
    'pages/0/7'
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
        """`topic/partition/offset`, as in headers, logs and verdict lines."""
        return f"{self.topic}/{self.source.partition}/{self.offset}"

    @property
    def end(self) -> int:
        """Offset after this record and all that it represents."""
        return self.offset + (self.lost.offsets if self.lost else 1)


@dataclass(frozen=True, slots=True)
class ProtectedMatch:
    """An entry in a protected set that a document resembles, with the similarity or the distance in bits.

    >>> ProtectedMatch("evaluation", "q17", similarity=0.91).as_json()
    {'set': 'evaluation', 'id': 'q17', 'similarity': 0.91}
    """

    set_name: str
    id: str
    similarity: float | None = None
    distance: int | None = None

    def as_json(self) -> dict[str, str | float]:
        """As headers, verdict lines and answers show it."""
        shown: dict[str, str | float] = {"set": self.set_name, "id": self.id}
        shown |= {} if self.similarity is None else {"similarity": self.similarity}
        return shown | ({} if self.distance is None else {"distance": self.distance})


@dataclass(slots=True)
class Decision:
    """Verdict on one record, with its explanation.

    detail       for people (the decoder's complaint), never a label
    fingerprint  lower-case hexadecimal

    relation     one of `relation.RELATIONS`
    length       the document's length divided by the original's, as far as known
    new          estimated share of its shingles that the original lacks; MinHash only
    protected    what it resembles in protected sets, which decides nothing

    Only documents that name an original have `distance` or `similarity`, `original_*`, `relation`, `length` and `new`.

    >>> decision = Decision(Verdict.DUPLICATE, "near", "b", distance=2, original_id="a")
    >>> f"{decision.id} is a {decision.verdict.label} with the original {decision.original_id}"
    'b is a duplicate with the original a'
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
    relation: str | None = None
    length: float | None = None
    new: float | None = None
    protected: tuple[ProtectedMatch, ...] = ()

    @property
    def base(self) -> str | None:
        """Name of the base set that has the original; None for one of the index itself."""
        base = None if self.original_stream is None else base_of(self.original_stream)
        return None if base is None else base.name


@dataclass(slots=True)
class Outgoing:
    """One record on its way out.

    record    the input: key, value bytes and timestamp go out unchanged
    headers   the input's except `neardup.*`, and the added ones
    decision  None for a batch between parts, a story, and a copy for `Feed.PROTECTED`, which are no outputs

    >>> record = Record(Source("stream", 0), "pages", 7, key=None, value=b"{}", timestamp_ms=0)
    >>> out = Outgoing(Destination.UNIQUE, record, headers=(("neardup.verdict", b"unique"),))
    >>> out.record.value, dict(out.headers)
    (b'{}', {'neardup.verdict': b'unique'})
    """

    destination: Destination | Handover | Feed
    record: Record
    headers: Headers
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are read, decided and delivered together.

    ends      by source, the offset after its last record: committed and applied
    marks     by source, an opaque proof of the content up to that end (files; Kafka needs none)
    snapshot  the transport's proof, for `deliver`, that this worker owned the sources at the read; without records, proof
              of membership in the group

    >>> records = [Record(Source("stream", 0), "pages", offset, None, b"{}", 0) for offset in (7, 8)]
    >>> Batch(records, {Source("stream", 0): 9}).part(0, 1).ends
    {Source(stream='stream', partition=0): 8}
    """

    records: Sequence[Record]
    ends: Mapping[Source, int] = field(default_factory=dict)
    marks: Mapping[Source, bytes] = field(default_factory=dict)
    snapshot: object = None

    def part(self, begin: int, end: int) -> "Batch":
        """The batch with these of its records, at least one, without marks; itself if these are all."""
        if end - begin == len(self.records):
            return self
        kept = self.records[begin:end]
        return Batch(kept, {record.source: record.end for record in kept}, snapshot=self.snapshot)
