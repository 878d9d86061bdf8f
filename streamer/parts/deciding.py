"""Transport for `decide`, around another one: reads fingerprint batches, and exposes their documents.

Recovery compares document offsets with the index, so all methods except `read` and `deliver` take document sources and
offsets. A committed offset's note has the document offset as its place.

    decided    every document below it has a verdict: committed here, or delivered by `route`
    delivered  committed in `kafka.group`: a service without parts may have delivered more than was decided here

The index restores documents below `delivered` from the outputs, and later ones below `decided` from the input and the
verdicts. Written verdicts are final.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from index import Applied, Position, Source
from streamer.errors import RecoveryRefused
from streamer.parts.batches import Batches
from streamer.parts.fingerprint_batch import FingerprintBatch, unpack_fingerprints
from streamer.parts.undelivered import read_undelivered
from streamer.parts.wrapper import Wrapper
from streamer.records.record import Batch, Destination, Outgoing, Record
from streamer.settings.parts import settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.changelog import find_trimmed, read_changelog
from streamer.transports.kafka.output_log import read_inputs
from streamer.transports.kafka.topics import claims_of_group
from streamer.transports.kafka.transport import NO_PLACES, KafkaTransport
from streamer.transports.transport import Assigned, Claim, Place, Trimmed

_KNOWN_SECONDS = 5.0

_NO_END = 2**62
"""Document end: more fingerprints may come at any time."""


class DecidingTransport(Wrapper):
    """See the module. `settings` are the whole service's."""

    def __init__(self, settings: Settings, instance: str, index: str) -> None:
        self._settings, self._whole = settings_of(settings, "decide"), settings
        super().__init__(KafkaTransport(self._settings, instance, index))
        self._batches: Batches[FingerprintBatch] = Batches(
            self._settings, settings.topics.fingerprints, unpack_fingerprints
        )
        self._streams: dict[int, str] = {}
        self._delivered: Mapping[Source, Claim] = {}
        self._records: dict[tuple[Source, int], int] = {}
        self._known: tuple[Assigned, Assigned] | None = None
        self._known_seconds = 0.0

    def read(self) -> Batch | Assigned:
        """See Transport. Records are fingerprint batches; assigned sources are the documents'."""
        event = self.kafka.read()
        return self._of_documents(event) if isinstance(event, Assigned) else event

    def stream_of(self, partition: int) -> str:
        """Id of the input topic whose documents this partition decides."""
        return self._streams.get(partition, "")

    def decided_to(self, partition: int) -> int:
        """Committed document offset in this partition: all documents below have verdicts."""
        claim = self._own_claim(partition)
        return claim.place.offset if claim is not None and claim.place is not None else 0

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """See Transport."""
        claims: dict[Source, Claim | None] = {}
        for source in sources:
            claim = self._own_claim(source.partition)
            delivered = self._delivered.get(source)
            decided = claim.place.offset if claim and claim.place and claim.place.stream == source.stream else None
            offsets = [each for each in (decided, delivered.offset if delivered else None) if each is not None]
            of = claim or delivered
            # A foreign offset here names no documents; the delivered offset counts then.
            foreign = delivered is not None and delivered.foreign and delivered.offset > (decided or 0)
            claims[source] = replace(of, offset=max(offsets), foreign=foreign) if of and offsets else None
        return claims

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport: the first document with a fingerprint; 0 if no fingerprints were ever deleted.

        `fingerprint` counts its skipped documents.
        """
        return {source: self._first_of(source, claim) for source, claim in self.claims(sources).items()}

    def _first_of(self, source: Source, claim: Claim | None) -> int:
        partition, extent = source.partition, self._batches.extent(source.partition)
        first = self._batches.first_in(partition, extent) if extent.start else None
        if claim is not None and first is not None and first.batch.heading.begin > claim.offset:
            # They may reappear after the remaining ones.
            first = self._batches.first_in(partition, range(self._record_at(source, claim.offset), extent.stop))
        return first.batch.heading.begin if first is not None and first.batch.heading.stream == source.stream else 0

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport. The end is unknown."""
        return dict.fromkeys(sources, _NO_END)

    def seek(self, source: Source, offset: int, _applied: Applied | None) -> None:
        """See Transport."""
        self.kafka.seek(self._of_record(source), self._record_at(source, offset), None)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing], places: Mapping[Source, Place] = NO_PLACES) -> None:
        """See Transport. A place is the end of the decided documents."""
        self.kafka.deliver(batch, outgoing, places)

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """See Transport."""
        self.kafka.commit_start(
            {self._of_record(source): self._record_at(source, offset) for source, offset in offsets.items()},
            {self._of_record(source): Place(source.stream, offset) for source, offset in offsets.items()},
            restoring=restoring,
        )

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport: delivered records, then merely decided ones in their later form."""
        delivered, decided = self._parted(ranges)
        routing = settings_of(self._whole, "route")
        read = [read_changelog(self._whole, delivered, destinations)] if delivered else []
        read += [read_undelivered(routing, source, offsets, destinations) for source, offsets in decided.items()]
        for records in chain.from_iterable(read):
            self.kafka.note_answer()
            yield records

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """See Transport: the documents, not their fingerprints."""
        return read_inputs(self._whole, positions)

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """See Transport."""
        delivered, _ = self._parted(ranges)
        return find_trimmed(self._whole, delivered, destinations) if delivered else iter(())

    def close(self) -> None:
        """See Transport."""
        self._batches.close()
        self.kafka.close()

    def _parted(self, ranges: Mapping[Source, range]) -> tuple[dict[Source, range], dict[Source, range]]:
        delivered, decided = {}, {}
        for source, whole in ranges.items():
            claim = self._delivered.get(source)
            cut = min(max(whole.start, claim.offset if claim else 0), whole.stop)
            if whole.start < cut:
                delivered[source] = range(whole.start, cut)
            if cut < whole.stop:
                decided[source] = range(cut, whole.stop)
        return delivered, decided

    def _of_documents(self, assigned: Assigned) -> Assigned:
        """Sources of the documents in these partitions, cached for a moment because every read assigns them until they begin."""
        now_seconds = time.monotonic()
        if self._known is None or self._known[0] != assigned or now_seconds - self._known_seconds > _KNOWN_SECONDS:
            self._known, self._known_seconds = (assigned, self._looked_up(assigned)), now_seconds
        return self._known[1]

    def _looked_up(self, assigned: Assigned) -> Assigned:
        self._delivered = claims_of_group(self._whole)
        self._records.clear()
        name = self._whole.topics.input
        current = self.kafka.id_of(name)
        ours = {source.partition for source in assigned.sources}
        for source in assigned.sources + assigned.others:
            at = source.partition
            self._streams[at] = self._stream_at(at, current) if at in ours else self._stream_of_other(at, current)
        return Assigned(
            tuple(Source(self._streams[source.partition], source.partition) for source in assigned.sources),
            dict.fromkeys(self._streams.values(), name) | {current: name},
            tuple(Source(self._streams[source.partition], source.partition) for source in assigned.others),
        )

    def _stream_at(self, partition: int, current: str) -> str:
        """Stream of the next batch to decide; without one, the current input's."""
        extent, claim = self._batches.extent(partition), self._own_claim(partition)
        begin = extent.start if claim is None or claim.place is None else max(extent.start, claim.offset)
        if begin > extent.stop:
            where = f"{self._settings.topics.input}/{partition}"
            raise RecoveryRefused(
                f"{where}: group {self._settings.kafka.group!r} is at {begin}, and the topic ends at {extent.stop}: it lost "
                "records. Let `fingerprint` write them again: reset its group to the offsets of the input's group."
            )
        upcoming = self._batches.first_in(partition, range(begin, extent.stop))
        return current if upcoming is None else upcoming.batch.heading.stream

    def _stream_of_other(self, partition: int, current: str) -> str:
        claim = self._own_claim(partition)
        return current if claim is None or claim.place is None else claim.place.stream

    def _own_claim(self, partition: int) -> Claim | None:
        source = Source(self.kafka.stream, partition)
        return self.kafka.claims([source])[source]

    def _record_at(self, source: Source, offset: int) -> int:
        if (source, offset) not in self._records:
            claim = self._own_claim(source.partition)
            noted = claim is not None and claim.place == Place(source.stream, offset)
            if claim is not None and noted and claim.offset >= self._batches.extent(source.partition).start:
                at = claim.offset
            else:
                at = self._batches.covering(source.partition, source.stream, offset)
            self._records[source, offset] = at
        return self._records[source, offset]

    def _of_record(self, source: Source) -> Source:
        return Source(self.kafka.stream, source.partition)
