"""Transport for `route`, around another one: releases an input record once its verdict is known.

Prefetched documents wait here, so every read is a heartbeat to the group. A committed offset's note names the place of its
verdicts; without one, the transport searches for it. Each partition has separate bounds, so none can block another's records
or verdicts:

    records   once two batches wait, each partition keeps at most its share, and continues when half of it has left
    verdicts  a partition prefetches its share of BATCHES_AHEAD batches of documents, and one fetch

A partition with a waiting next record always continues: its verdicts all concern earlier records, and are dropped
before the next poll. So every record with a readable verdict comes out.
"""

from collections.abc import Sequence

from index import Applied, Source
from streamer.errors import RecoveryRefused, VerdictsMissing
from streamer.parts.verdict_log import VerdictLog
from streamer.parts.verdict_rows import VerdictRows, verdicts_on
from streamer.parts.wrapper import Wrapper
from streamer.records.record import Batch, Destination, Outgoing
from streamer.service.recovery import UNDELIVERED_OFFSETS_MAX
from streamer.settings.parts import settings_of
from streamer.settings.settings import Settings
from streamer.transports.buffer import BATCHES_KEPT, RecordBuffer
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned


class RoutingTransport(Wrapper):
    """See the module."""

    def __init__(self, kafka: KafkaTransport, buffer: RecordBuffer, verdicts: VerdictLog, settings: Settings) -> None:
        """
        buffer    of `kafka`, with a gate at what has verdicts
        settings  of the part
        """
        super().__init__(kafka)
        self._buffer, self._verdicts, self._settings = buffer, verdicts, settings
        self._held: dict[Source, int] = {}

    @classmethod
    def over_kafka(cls, settings: Settings, instance: str, stamp: str) -> "RoutingTransport":
        """The transport of a worker. `settings` are the whole service's; `stamp` is its own stamp as text."""
        chosen = settings_of(settings, "route")
        verdicts = VerdictLog(chosen, stamp)
        buffer = RecordBuffer(chosen.batch, gate=verdicts.reached)
        return cls(KafkaTransport(chosen, instance, buffer=buffer), buffer, verdicts, chosen)

    def open(self) -> None:
        """See Transport."""
        self.kafka.open()
        self._verdicts.open(self.kafka.id_of(self._settings.topics.verdicts))

    def read(self) -> Batch | Assigned:
        """See Transport. Records without a verdict wait; an empty batch marks time."""
        for source, offset in self._buffer.first_offsets().items():
            # Verdicts on records that the input has lost would take up room.
            self._verdicts.drop(source, offset)
        waits = self._buffer.waiting_count() > 0 and not self._buffer.ready_count()
        if self._verdicts.poll(self._settings.batch.wait_ms if waits else 0):
            self.kafka.note_answer()
        self._buffer.release()
        self._bound_waiting()
        event = self.kafka.read()
        self._forget_lost()
        return event

    def delivered_to(self, source: Source, offset: int) -> int:
        """Offset after the last record below `offset` in the outputs; 0 without one near it."""
        return self.delivered_within(source, range(max(0, offset - UNDELIVERED_OFFSETS_MAX), offset))

    def delivered_within(self, source: Source, offsets: range) -> int:
        """Offset after the last record at these offsets in the outputs; 0 without one."""
        found = (
            record.offset
            for records in self.changelog({source: offsets}, list(Destination))
            for record in records
            if record.source == source and record.offset in offsets
        )
        return max(found, default=-1) + 1

    def waiting(self) -> int:
        """Number of read records without a verdict."""
        return self._buffer.waiting_count()

    def verdicts_on(self, batch: Batch) -> VerdictRows:
        """Verdicts on a batch's records. Raises RecoveryRefused for a missing one."""
        sources = {record.source for record in batch.records}
        try:
            return verdicts_on(batch.records, {source: self._verdicts.batches_of(source) for source in sources})
        except VerdictsMissing as error:
            raise RecoveryRefused(
                f"{error}: there are verdicts on what follows it in {self._settings.topics.verdicts!r}, and none on this record. "
                "They were deleted, or a group's offsets were changed. Nothing is lost: set the offsets of group "
                f"{self._settings.kafka.group + '.fingerprint'!r} back to that record, and it is fingerprinted and decided "
                "again, or answered by the journal."
            ) from error

    def seek(self, source: Source, offset: int, applied: Applied | None) -> None:
        """See Transport."""
        self._held.pop(source, None)
        self.kafka.seek(source, offset, applied)
        claim = self.claims([source])[source]
        place = claim.place if claim is not None and claim.offset == offset else None
        self._verdicts.begin(source, offset, place)

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """See Transport. Commits name the deciding index, and the next verdicts' place."""
        self.kafka.index = self._verdicts.decider or self.kafka.index
        places = {source: self._verdicts.place(source, end) for source, end in batch.ends.items()}
        self.kafka.deliver(batch, outgoing, places)
        for source, end in batch.ends.items():
            self._verdicts.drop(source, end)

    def close(self) -> None:
        """See Transport."""
        self._verdicts.close()
        self.kafka.close()

    def _bound_waiting(self) -> None:
        """Pause partitions with a full share of waiting records; resume those with half of it free."""
        bound = BATCHES_KEPT * self._settings.batch.records_max
        share = max(1, bound // max(1, len(self.kafka.begun())))
        if self._buffer.waiting_count() >= bound:
            ends = self._buffer.hold_back(share)
            for source in ends.keys() - self._held.keys():
                self.kafka.hold(source)
            self._held |= ends
        for source in sorted(self._held):
            if self._buffer.waiting_of(source) <= share // 2:
                self.kafka.resume(source, self._held.pop(source))

    def _forget_lost(self) -> None:
        """Forget the sources that went to other workers, or are to begin again."""
        begun = frozenset(self.kafka.begun())
        self._held = {source: end for source, end in self._held.items() if source in begun}
        self._verdicts.keep(begun)
