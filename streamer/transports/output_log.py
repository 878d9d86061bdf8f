"""The seam for reading input and outputs back by position, and for appending records that came out before.

Reading writes nothing and may run during delivery. `extent` makes that safe by its order: first the committed offsets, then
the ends of the outputs, last the end of the input. So the outputs hold everything below a committed offset, and the input
holds the record of every output.
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
    """No record at a position: why not, in words that end a sentence."""

    why: str


RecordsByPosition = Mapping[Position, Record | Absent]

RecordsAt = Callable[[Sequence[Position]], RecordsByPosition]
"""The record at each position, or why there is none. Takes a step for each, so ask for a handful.

It does not promise that the record is the one that was read before: a file may have changed.
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far input and outputs reach.

    names      name of each stream for people
    first      first offset per source that can still be read
    end        offset per source after the last record that is read
    committed  committed offset per source; none for a source without a commit
    outputs    most records that the outputs can hold, for a progress bar
    inputs     most records that the input can hold, for a progress bar
    compacted  whether the input drops records whose key came again, so that a position may have no record any more
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

    log     the topic's partition, or the file, that holds it
    offset  its place in the log
    headers  what its own headers say
    record  the record under its input position, with all headers of the output; None without a position
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
    """A way for records that came out before.

    name    of the sender, one of the group at a time
    target  output that they go to; None: the input
    """

    name: str
    target: Destination | None


GIVE_BACK = Way("give-back", Destination.UNIQUE)
REPLAY = Way("replay", None)


class OutputLog(Protocol):
    """Input and outputs of a service.

    The target of a way is the truth: an appended record names the position that it was sent for. One process appends at a
    time. The next one of the same way takes over, and reads all that its predecessor appended.
    """

    has_headers: bool
    """Whether outputs keep keys, timestamps and headers."""

    def open(self, way: Way | None) -> None:
        """Connect. `way`: take over its appending, and end what a predecessor left open.

        Raises BrokerUnavailable, SettingsError, TransactionHanging.
        """

    def extent(self) -> Extent:
        """Fix how far `inputs` and `outputs` read from now on. Without it they read all that is there at their call."""

    def claims(self) -> Mapping[Source, Claim]:
        """Committed offsets of the group, and their claims of an index."""

    def inputs(self, since_ms: int | None = None, /) -> Iterator[list[Record]]:
        """Committed records of the input, in batches, in offset order within a source.

        A record with `lost` stands for others that cannot be read, and may come out of order.

        since_ms  at least those with this timestamp or a later one; None: all
        """

    def outputs(
        self, destinations: Sequence[Destination] = ALL_OUTPUTS, since_ms: int | None = None, /
    ) -> Iterator[list[Output]]:
        """Committed records of these outputs, in batches, in offset order within a log. `since_ms`: as in `inputs`."""

    def append(self, records: Sequence[Record]) -> None:
        """Append all records, with exactly these headers, to the target of the way, or none.

        Raises DeliveryDoubtful, SettingsError; then do not go on.
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
