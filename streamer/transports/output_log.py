"""Reading input and outputs back by position, and appending earlier records.

Reading is safe during delivery. `extent` asks for committed offsets, then the outputs' ends, then the input's. So the
outputs hold everything below a committed offset, and the input holds every output's record.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from index import Position, Source
from streamer.records.output_headers import OutputHeaders
from streamer.records.record import Destination, Record
from streamer.settings.settings import Batching
from streamer.transports.transport import Claim

ALL_OUTPUTS = tuple(Destination)


class Absent(NamedTuple):
    """No record at a position. `why` ends a sentence.

    >>> f"{Absent('the topic is compacted').why}."
    'the topic is compacted.'
    """

    why: str


RecordsByPosition = Mapping[Position, Record | Absent]

RecordsAt = Callable[[Sequence[Position], Mapping[str, str]], RecordsByPosition]
"""The record at each position, given stream names, or why there is none. Each position takes a request, so ask for a handful.

A file may have changed since its first read.
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """Readable range of input and outputs.

    names      display name per stream
    first      first readable offset per source
    end        offset after the last readable record, per source
    committed  committed offset per source; absent without a commit
    outputs    upper bound for the number of output records, for a progress bar
    inputs     the same for input records
    compacted  whether compaction may have removed input records
    trimmed    destination of each output log without its first records

    >>> source = Source("stream", 0)
    >>> Extent({"stream": "pages"}, {source: 3}, {source: 9}, {source: 9}, outputs=6, inputs=6).compacted
    False
    """

    names: Mapping[str, str]
    first: Mapping[Source, int]
    end: Mapping[Source, int]
    committed: Mapping[Source, int]
    outputs: int
    inputs: int
    compacted: bool = False
    trimmed: Mapping[str, Destination] = field(default_factory=dict)

    def strange_input(self, name: str) -> str:
        """What a stream outside of `names` is, by its name in the index, in words."""
        recreated = name in self.names.values()
        return "an input that was recreated since" if recreated else "another input, which shares the index"


@dataclass(frozen=True, slots=True)
class Output:
    """A record of an output.

    log      the topic's partition, or the file
    offset   its place in the log
    record   with its input position and all headers; None without a position
    is_stamped  whether its topic gave it its timestamp (LogAppendTime)

    >>> from streamer.records.output_headers import parse_headers
    >>> headers = parse_headers((("neardup.verdict", b"unique"),), Destination.UNIQUE)
    >>> Output(Destination.UNIQUE, "unique.jsonl/0", 7, headers, record=None).place
    'unique.jsonl/0/7'
    """

    destination: Destination
    log: str
    offset: int
    headers: OutputHeaders
    record: Record | None
    is_stamped: bool = False

    @property
    def place(self) -> str:
        """`topic/partition/offset` in the output."""
        return f"{self.log}/{self.offset}"


class Way(NamedTuple):
    """A kind of append.

    name    sender; one per group runs at a time, whatever its `kafka.instance`
    target  output to append to; None: the input

    >>> GIVE_BACK.target.value, REPLAY.target
    ('unique', None)
    """

    name: str
    target: Destination | None


GIVE_BACK = Way("give-back", Destination.UNIQUE)
REPLAY = Way("replay", None)


class OutputLog(Protocol):
    """Input and outputs of a service.

    Each appended record names the input position for which it was sent, so the target shows progress. One process appends
    at a time; a successor with the same way takes over.
    """

    has_headers: bool
    """Whether outputs keep keys, timestamps and headers."""

    def open(self, way: Way | None) -> None:
        """Connect. `way`: take over its appending, and end what a predecessor left open. None: only read.

        Raises BrokerUnavailable, SettingsError, TransactionHanging.
        """

    def extent(self) -> Extent:
        """Fix the end of later `inputs` and `outputs`. Without it, each call reads to the end at that moment."""

    def claims(self) -> Mapping[Source, Claim]:
        """The group's committed offsets, with their claims on an index."""

    def inputs(self, since_ms: int | None = None, /) -> Iterator[list[Record]]:
        """Committed input records in batches, in offset order within a source.

        A record with `lost` represents unreadable ones, and may come out of order.

        since_ms  all records from this timestamp on, perhaps with earlier ones; None: all
        """

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, since_ms: int | None = None, /
    ) -> Iterator[list[Output]]:
        """Committed output records in batches, in offset order within a log. `since_ms`: as in `inputs`."""

    def records_at(self, positions: Sequence[Position], names: Mapping[str, str], /) -> RecordsByPosition:
        """See `RecordsAt`."""

    def append(self, records: Sequence[Record]) -> None:
        """Append all records with exactly these headers, or none.

        Raises DeliveryDoubtful, SettingsError; then stop.
        """

    def close(self) -> None:
        """Release every resource; never raises."""


def portions(records: Iterable[Record], bounds: Batching, *, ascending: bool = True) -> Iterator[list[Record]]:
    """Lists within a batch's bounds. `ascending`: offsets increase strictly per source in each list.

    Yields at least one list, empty without records, so that the reader sees time pass.
    """
    portion: list[Record] = []
    size = 0
    last: dict[Source, int] = {}
    for record in records:
        record_size = len(record.value or b"")
        full = len(portion) == bounds.records_max or size + record_size > bounds.bytes_max
        if portion and (full or (ascending and record.offset <= last.get(record.source, -1))):
            yield portion
            portion, size, last = [], 0, {}
        portion.append(record)
        size += record_size
        last[record.source] = record.offset
    yield portion
