"""The seam of verification: what stands outside, read as any consumer of committed records reads it.

Evidence is taken beside a running service, and writes nothing. The order of taking it makes that safe: first the committed
offsets, then the ends of the outputs, last the end of the input. So everything below a committed offset stands in the
outputs as read, and every output belongs to a record of the input as read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from index import Source
from streamer.records.record import Destination, Record
from streamer.records.told import Told


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the evidence reaches.

    names      name of each stream for people
    first      first offset per source that can still be read
    end        offset per source behind the last record that is read
    committed  committed offset per source; none where nothing was ever committed
    outputs    most records that the outputs can hold, for a progress bar
    inputs     most records that the input can hold, for a progress bar
    compacted  whether the input drops records whose key came again, so that a position of it may have no record any more
    trimmed    destination of each log of the outputs whose first records are gone
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
    told    what it tells of itself
    record  the record under its input position, with the headers that came with the input; None where it names no position
    """

    destination: Destination
    log: str
    offset: int
    told: Told
    record: Record | None

    @property
    def place(self) -> str:
        """`topic/partition/offset` in the output."""
        return f"{self.log}/{self.offset}"


class Evidence(Protocol):
    """Input and outputs, to be read once each."""

    has_headers: bool
    """Whether outputs keep keys, timestamps and headers."""

    def extent(self) -> Extent:
        """Take the evidence: no later record is read. Call this once, before anything else."""

    def inputs(self) -> Iterator[list[Record]]:
        """All records of the input, in batches, in offset order within a source.

        A record with `lost` stands for others that cannot be read, and may come out of order.
        """

    def outputs(self) -> Iterator[list[Output]]:
        """All records of the outputs, in batches, in offset order within a log."""
