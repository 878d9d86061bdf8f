"""Sending once more over the broker in memory. It crashes where a test says: `crashes` are struck one after the other."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from index.entry import Position, Source
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.evidence import Output
from streamer.transports.resending import Way
from streamer.transports.transport import Claim
from tests.support.memory_broker import Crashed, CrashPoint, MemoryBroker, Stored
from tests.support.memory_evidence import MemoryEvidence


@dataclass
class MemoryResending:
    """See streamer.transports.resending.Resending.

    crashes  points at which the next sends die; None: this one arrives
    """

    broker: MemoryBroker
    settings: Settings
    way: Way
    index: str = ""
    crashes: list[CrashPoint | None] = field(default_factory=list)

    @property
    def identity(self) -> str:
        return f"{self.settings.kafka.group}-{self.way.name}"

    def open(self, *, to_send: bool) -> None:
        if to_send:
            self.broker.transactional[self.identity] = self

    def claims(self) -> Mapping[Source, Claim]:
        group = self.broker.group(self.settings.kafka.group)
        return {
            source: Claim(offset, *group.claims.get(source, ("", True))) for source, offset in group.committed.items()
        }

    def outputs(self, since_ms: int | None, /) -> Iterator[list[Output]]:
        for found in MemoryEvidence(self.broker, self.settings).outputs():
            mine = [each for each in found if each.destination is self.way.origin and each.record is not None]
            for each in mine:
                topic, _, partition = each.log.rpartition("/")
                stored = self.broker.topics[topic].partitions[int(partition)].records[each.offset]
                assert each.record is not None
                each.record.headers = stored.headers
            yield [each for each in mine if each.record and (since_ms is None or each.record.timestamp_ms >= since_ms)]

    def sent(self, since_ms: int | None, /) -> Iterator[list[Position]]:
        records = [each for each in self._target() if since_ms is None or each.timestamp_ms >= since_ms]
        found = (self.way.position(record.headers) for record in records)
        yield [position for position in found if position is not None]

    def send(self, records: Sequence[Record]) -> None:
        if self.broker.transactional[self.identity] is not self:
            raise DeliveryDoubtful("another command took over")
        crash = self.crashes.pop(0) if self.crashes else None
        if crash in (CrashPoint.BEFORE_DELIVER, CrashPoint.BEFORE_COMMIT):
            raise Crashed(crash.name)
        logs = self.broker.topics[self._name()].partitions
        for record in records:
            headers = tuple((name, value or b"") for name, value in record.headers)
            log = logs[zlib.crc32(record.key or b"") % len(logs)]
            log.append(Stored(record.key, record.value, record.timestamp_ms, headers))
        if crash is CrashPoint.AFTER_COMMIT:
            raise Crashed(crash.name)

    def close(self) -> None:
        pass

    def _name(self) -> str:
        return self.settings.topics.input if self.way.target is None else self.settings.topics.unique

    def _target(self) -> list[Stored]:
        return self.broker.records(self._name())
