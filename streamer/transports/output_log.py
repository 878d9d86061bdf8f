"""The seam for reading input and outputs back by position, and for appending records from earlier outputs.

Reading writes nothing and is safe during delivery. `extent` asks in this order: committed offsets, ends of the outputs, end of
the input. So the outputs hold everything below a committed offset, and the input holds the record of every output.
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
    """No record at a position. `why` ends a sentence."""

    why: str


RecordsByPosition = Mapping[Position, Record | Absent]

RecordsAt = Callable[[Sequence[Position]], RecordsByPosition]
"""The record at each position, or why there is none. Each position takes a request, so ask for a handful.

The record may differ from the one read before: a file may have changed.
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """Readable range of input and outputs.

    names      name of each stream for people
    first      first readable offset per source
    end        offset per source after the last record that is read
    committed  committed offset per source; absent without a commit
    outputs    upper bound for records in the outputs, for a progress bar
    inputs     upper bound for records in the input, for a progress bar
    compacted  whether the input is compacted, so that a position may have no record any more
    trimmed    destination of each log of the outputs that lost its first records
    """

    names: Mapping[str, str]
    first: Mapping[Source, int]
    end: Mapping[Source, int]
    committed: Mapping[Source, int]
    outputs: int
    inputs: int
    compacted: bool = False
    trimmed: Mapping[str, Destination] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output:
    """A record of an output.

    log      the topic's partition, or the file, that holds it
    offset   its place in the log
    headers  parsed headers
    record   the record under its input position, with all headers of the output; None without a position
    """

    destination: Destination
    log: str
    offset: int
    headers: OutputHeaders
    record: Record | None

    @property
    def place(self) -> str:
        """`topic/partition/offset` in the output."""
        return f"{self.log}/{self.offset}"


class Way(NamedTuple):
    """A kind of append.

    name    of the sender; one per group runs at a time
    target  output to append to; None: the input
    """

    name: str
    target: Destination | None


GIVE_BACK = Way("give-back", Destination.UNIQUE)
REPLAY = Way("replay", None)


class OutputLog(Protocol):
    """Input and outputs of a service.

    The target is the truth: each appended record names the position for which it was sent. One process appends at a time. The
    next process with the same way takes over, and reads everything its predecessor appended.
    """

    has_headers: bool
    """Whether outputs keep keys, timestamps and headers."""

    def open(self, way: Way | None) -> None:
        """Connect. `way`: take over its appending, and end what a predecessor left open.

        Raises BrokerUnavailable, SettingsError, TransactionHanging.
        """

    def extent(self) -> Extent:
        """Fix the end of later `inputs` and `outputs`. Without it, each call reads to the current end."""

    def claims(self) -> Mapping[Source, Claim]:
        """Committed offsets of the group, with their claims on an index."""

    def inputs(self, since_ms: int | None = None, /) -> Iterator[list[Record]]:
        """Committed records of the input, in batches, in offset order within a source.

        A record with `lost` represents others that cannot be read, and may come out of order.

        since_ms  at least those with this timestamp or a later one; None: all
        """

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, since_ms: int | None = None, /
    ) -> Iterator[list[Output]]:
        """Committed records of these outputs, in batches, in offset order within a log. `since_ms`: as in `inputs`."""

    def append(self, records: Sequence[Record]) -> None:
        """Append all records, with exactly these headers, to the target, or none.

        Raises DeliveryDoubtful, SettingsError; then stop.
        """

    def close(self) -> None:
        """Release every resource; never raises."""


def portions(records: Iterable[Record], bounds: Batching) -> Iterator[list[Record]]:
    """Lists within the bounds of a batch; in each, the offsets of a source increase strictly.

    Yields at least one list, empty without records, so that the reader sees that time passes.
    """
    portion: list[Record] = []
    size = 0
    last: dict[Source, int] = {}
    for record in records:
        record_size = len(record.value or b"")
        full = len(portion) == bounds.records_max or size + record_size > bounds.bytes_max
        if portion and (full or record.offset <= last.get(record.source, -1)):
            yield portion
            portion, size, last = [], 0, {}
        portion.append(record)
        size += record_size
        last[record.source] = record.offset
    yield portion
