"""What the transports in `decide` and `route` leave to the one over Kafka that they wrap."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from index import Position, Source
from streamer.records.record import Batch, Destination, Record
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Claim, Transport, Trimmed


class Wrapper(Transport):
    """Base for a transport around one over Kafka. Reading and delivering are the wrapper's own."""

    takes_headers = True

    def __init__(self, kafka: KafkaTransport) -> None:
        self.kafka = kafka

    def open(self) -> None:
        """See Transport."""
        self.kafka.open()

    def peek(self, place: int = 0) -> Batch | None:
        """See Transport."""
        return self.kafka.peek(place)

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """See Transport."""
        return {source: None if claim is None else claim.offset for source, claim in self.claims(sources).items()}

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """See Transport."""
        return self.kafka.claims(sources)

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return self.kafka.first_offsets(sources)

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return self.kafka.end_offsets(sources)

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """See Transport."""
        self.kafka.commit_start(offsets, restoring=restoring)

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport."""
        return self.kafka.changelog(ranges, destinations)

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """See Transport."""
        return self.kafka.inputs_at(positions)

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """See Transport."""
        return self.kafka.trimmed(ranges, destinations)

    def strangers(self) -> tuple[str, ...]:
        """See Transport."""
        return self.kafka.strangers()
