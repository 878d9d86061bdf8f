"""A broker in memory, and a transport over it that keeps the contract of `streamer.transports.transport`.

Transactions are atomic. Groups share partitions out cooperatively: an owner gives a partition up at its next read, and
only then another gets it. A newcomer fences the instance of the same name. Offsets may have gaps.

Faults are items of the input: `broker.write("documents", 0, [doc, doc, Crash(), doc])`. A crash belongs to the record
behind it. It strikes once, while the batch with that record is delivered, and leaves the transport dead: open another.
"""

import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from index.entry import Applied, Position, Source
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Batch, Destination, Feed, Headers, Lost, Outgoing, Record
from streamer.records.route import is_given_back, parse_position
from streamer.settings.settings import Settings
from streamer.transports.transport import Assigned, Claim, Trimmed


class CrashPoint(Enum):
    """Point within `deliver` at which the process dies. At BEFORE_DELIVER the batch is decided already."""

    BEFORE_DELIVER = auto()
    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()


@dataclass(frozen=True)
class Crash:
    """An item of the input: the process dies while the record behind it is delivered."""

    at: CrashPoint = CrashPoint.BEFORE_DELIVER


class Crashed(Exception):
    """The process died, and its memory with it. Only a test's driver may catch this."""


@dataclass(frozen=True)
class Stored:
    """A record as a topic holds it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: Headers = ()
    lost: Lost | None = None


@dataclass
class Partition:
    """A log: records by offset, in ascending order; offsets below `first` are gone."""

    records: dict[int, Stored] = field(default_factory=dict)
    crashes: dict[int, list[Crash]] = field(default_factory=dict)
    first: int = 0
    end: int = 0

    def append(self, record: Stored) -> int:
        self.records[self.end] = record
        self.end += 1
        return self.end - 1

    def from_offset(self, offset: int) -> Iterator[tuple[int, Stored]]:
        return ((at, record) for at, record in self.records.items() if at >= offset)


@dataclass
class Topic:
    """A topic under the id that it got when it was made."""

    partitions: list[Partition]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class Group:
    """A consumer group. As the members read, `owners` becomes what `wanted` says."""

    committed: dict[Source, int] = field(default_factory=dict)
    claims: dict[Source, tuple[str, bool]] = field(default_factory=dict)
    delivered: dict[Source, int] = field(default_factory=dict)
    """As the workers note it: brokers that lose commits do not lose this."""
    strangers: tuple[str, ...] = ()

    def commit_without_note(self, source: Source, offset: int) -> None:
        """Commit as another program does."""
        self.committed[source] = offset
        self.claims.pop(source, None)

    members: dict[str, object] = field(default_factory=dict)
    owners: dict[int, object] = field(default_factory=dict)

    def wanted(self, partitions: int) -> dict[int, object]:
        """Member of every partition: as now, except that none has more than its share while another has less."""
        if not self.members:
            return {}
        members = [self.members[name] for name in sorted(self.members)]
        shares = {
            id(member): partitions // len(members) + (number < partitions % len(members))
            for number, member in enumerate(members)
        }
        wanted: dict[int, object] = {}
        for partition in range(partitions):
            owner = self.owners.get(partition)
            if owner is not None and shares.get(id(owner), 0) > 0:
                wanted[partition] = owner
                shares[id(owner)] -= 1
        for partition in range(partitions):
            if partition not in wanted:
                member = next(each for each in members if shares[id(each)] > 0)
                wanted[partition] = member
                shares[id(member)] -= 1
        return wanted


class MemoryBroker:
    """Topics, groups and transactional ids."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.transactional: dict[str, object] = {}

    def create(self, name: str, partitions: int = 1) -> None:
        """Make a topic, or make it anew, without its records and the groups' offsets in it."""
        old = self.topics.get(name)
        if old is not None:
            for group in self.groups.values():
                group.committed = {source: at for source, at in group.committed.items() if source.stream != old.id}
                group.owners = {}
        self.topics[name] = Topic([Partition() for _ in range(partitions)])

    def create_for(self, settings: Settings, partitions: int = 1) -> None:
        """Make the four topics of the settings."""
        topics = settings.topics
        outputs = topics.unique, topics.duplicate, topics.dead_letter
        named = (topics.input, *outputs, topics.stories, topics.protected)
        for name in filter(None, named):
            self.create(name, partitions)

    def write(self, name: str, partition: int, items: Iterable[Stored | bytes | Crash]) -> None:
        """Append records, whole or by their value alone, and the crashes that belong to them."""
        log = self.topics[name].partitions[partition]
        crashes: list[Crash] = []
        for item in items:
            if isinstance(item, Crash):
                crashes.append(item)
                continue
            offset = log.append(item if isinstance(item, Stored) else Stored(None, item))
            if crashes:
                log.crashes[offset] = crashes
                crashes = []

    def skip(self, name: str, partition: int, offsets: int = 1) -> None:
        """Leave a gap, as the end of a transaction does."""
        self.topics[name].partitions[partition].end += offsets

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        """Take the oldest records away, as retention does."""
        log = self.topics[name].partitions[partition]
        log.records = {at: record for at, record in log.records.items() if at >= offset}
        log.first = max(log.first, offset)

    def records(self, name: str) -> list[Stored]:
        """All records of a topic, partition after partition."""
        return [record for log in self.topics[name].partitions for record in log.records.values()]

    def group(self, name: str) -> Group:
        """Group of this name, made when it is first named."""
        return self.groups.setdefault(name, Group())

    def expel(self, group: str, instance: str) -> None:
        """Drop a member from its group, as an elapsed session timeout does. A live member joins again."""
        member = self.group(group).members.pop(instance)
        owners = self.group(group).owners
        self.group(group).owners = {partition: owner for partition, owner in owners.items() if owner is not member}


class MemoryTransport:
    """streamer.transports.transport.Transport over a MemoryBroker; never waits."""

    takes_headers = True

    def __init__(self, broker: MemoryBroker, settings: Settings, instance: str, index: str = "") -> None:
        self._broker = broker
        self._index = index
        self._settings = settings
        self._instance = instance
        self._identity = f"{settings.kafka.group}:{instance}"
        self._topics = {
            Destination.UNIQUE: settings.topics.unique,
            Destination.DUPLICATE: settings.topics.duplicate,
            Destination.DEAD_LETTER: settings.topics.dead_letter,
        }
        feeds = {Feed.STORIES: settings.topics.stories, Feed.PROTECTED: settings.topics.protected}
        self._topics |= {feed: topic for feed, topic in feeds.items() if topic is not None}
        self._stream = ""
        self._member: object = None
        self._owned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._peeked: tuple[dict[int, int], Batch] | None = None
        self._usable = False

    def open(self) -> None:
        """See Transport."""
        for name in (self._settings.topics.input, *self._topics.values()):
            if name not in self._broker.topics:
                raise SettingsError(f"no topic {name!r}: make it with `streamer topics create`")
        self._stream = self._input.id
        self._broker.transactional[self._identity] = self
        group = self._group
        predecessor = group.members.get(self._instance)
        self._join()
        # A static member that comes back takes its predecessor's partitions over at once.
        group.owners = {
            partition: self._member if owner is predecessor else owner for partition, owner in group.owners.items()
        }
        self._usable = True

    def read(self) -> Batch | Assigned:
        """See Transport."""
        self._require_usable()
        if self._input.id != self._stream:
            raise DeliveryDoubtful(f"the topic {self._settings.topics.input!r} was deleted and recreated")
        if self._instance not in self._group.members:
            self._owned, self._positions = set(), {}
            self._join()
        self._follow_assignment()
        if unsought := self._owned - self._positions.keys():
            sources = tuple(Source(self._stream, partition) for partition in sorted(unsought))
            every = (Source(self._stream, partition) for partition in range(len(self._input.partitions)))
            others = tuple(source for source in every if source not in sources)
            return Assigned(sources, {self._stream: self._settings.topics.input}, others)
        peeked, self._peeked = self._peeked, None
        if peeked is not None and peeked[0] == self._positions:
            batch = replace(peeked[1], snapshot=self._member)
            self._positions |= {source.partition: end for source, end in batch.ends.items()}
            return batch
        return self._next_batch()

    def peek(self, place: int = 0) -> Batch | None:
        """See Transport."""
        if place:
            return None
        before = dict(self._positions)
        batch = self._next_batch()
        self._positions = before
        full = len(batch.records) == self._settings.batch.records_max
        if self._peeked is None or self._peeked[0] != before:
            self._peeked = (dict(before), replace(batch, snapshot=None)) if full else None
        return self._peeked[1] if self._peeked else None

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        """See Transport."""
        return {source: self._group.committed.get(source) for source in sources}

    def claims(self, sources: Iterable[Source]) -> dict[Source, Claim | None]:
        """See Transport."""
        found = self.committed(sources)
        return {source: None if offset is None else self._claim(source, offset) for source, offset in found.items()}

    def _claim(self, source: Source, offset: int) -> Claim:
        noted = self._group.claims.get(source)
        delivered = self._group.delivered.get(source, 0)
        if noted is None:
            return Claim(offset, "", in_use=True, foreign=True, delivered=delivered)
        return Claim(offset, *noted, delivered=delivered)

    def strangers(self) -> tuple[str, ...]:
        """See Transport."""
        return self._group.strangers

    def first_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return {source: self._log(source).first for source in sources}

    def end_offsets(self, sources: Iterable[Source]) -> dict[Source, int]:
        """See Transport."""
        return {source: self._log(source).end for source in sources}

    def seek(self, source: Source, offset: int, _applied: Applied | None) -> None:
        """See Transport."""
        assert source.partition in self._owned, f"{source} is not assigned"
        self._positions[source.partition] = offset
        self._group.delivered[source] = offset

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        """See Transport; raises Crashed where the input says so."""
        self._require_usable()
        if not outgoing and not batch.ends:
            return
        crash = self._crash_in(batch)
        if crash is CrashPoint.BEFORE_DELIVER:
            self._die(crash)
        self._require_ownership(batch)
        staged = [(self._output(each), stored(each)) for each in outgoing]
        if crash is CrashPoint.BEFORE_COMMIT:
            self._die(crash)
        for log, record in staged:
            log.append(record)
        self._group.committed.update(batch.ends)
        self._group.claims.update(dict.fromkeys(batch.ends, (self._index, True)))
        if crash is CrashPoint.AFTER_COMMIT:
            self._die(crash)
        self._group.delivered.update(batch.ends)

    def commit_start(self, offsets: Mapping[Source, int], *, restoring: bool = False) -> None:
        """See Transport."""
        owners = self._group.owners
        if any(
            owners.get(source.partition) is not self._member for source in offsets if source.partition in self._owned
        ):
            raise DeliveryDoubtful(f"{sorted(offsets)} may belong to another worker by now")
        self._group.committed.update(offsets)
        self._group.claims.update(dict.fromkeys(offsets, (self._index, not restoring)))
        if not restoring:
            self._group.delivered.update(offsets)

    def changelog(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[list[Record]]:
        """See Transport."""
        for destination in destinations:
            found: list[Record] = []
            given_back: list[Record] = []
            for record in self._broker.records(self._topics[destination]):
                position = parse_position(record.headers)
                if position is not None and is_given_back(record.headers):
                    given_back.append(self._record(position.source, position.offset, record))
                elif position is not None and position.offset in ranges.get(position.source, ()):
                    found.append(self._record(position.source, position.offset, record))
            yield from ([record] for record in given_back)
            found.sort(key=lambda record: (record.source, record.offset))
            size = self._settings.batch.records_max
            yield from (found[start : start + size] for start in range(0, len(found), size))

    def inputs_at(self, positions: Collection[Position]) -> Iterator[list[Record]]:
        """See Transport."""
        logs = self._input.partitions
        found = [(each, logs[each.source.partition].records.get(each.offset)) for each in sorted(positions)]
        yield [self._record(each.source, each.offset, record) for each, record in found if record is not None]

    def trimmed(self, ranges: Mapping[Source, range], destinations: Sequence[Destination]) -> Iterator[Trimmed | None]:
        """See Transport."""
        for destination in destinations:
            for number, log in enumerate(self._broker.topics[self._topics[destination]].partitions):
                positions = [parse_position(record.headers) for record in log.records.values()]
                before = {at.source for at in positions if at and at.offset < ranges.get(at.source, range(0)).start}
                if log.first and ranges.keys() - before:
                    times = [record.timestamp_ms for record in log.records.values()]
                    sources = tuple(sorted(ranges.keys() - before))
                    place = f"{self._topics[destination]}/{number}"
                    yield Trimmed(place, f"begins at offset {log.first}", sources, times[0] if times else None)
            yield None

    def lags(self) -> dict[Source, int]:
        """See Transport."""
        logs = self._input.partitions
        return {
            Source(self._stream, partition): logs[partition].end - position
            for partition, position in self._positions.items()
        }

    def last_contact_seconds(self) -> None:
        """See Transport."""

    def unowned(self) -> tuple[Source, ...]:
        """None: one process reads all."""
        return ()

    def close(self) -> None:
        """See Transport. A static member stays in its group until it is expelled."""
        self._usable = False

    @property
    def _input(self) -> Topic:
        return self._broker.topics[self._settings.topics.input]

    @property
    def _group(self) -> Group:
        return self._broker.group(self._settings.kafka.group)

    def _log(self, source: Source) -> Partition:
        if source.stream != self._input.id:
            raise DeliveryDoubtful(f"{source} is of another topic than the one read now")
        return self._input.partitions[source.partition]

    def _join(self) -> None:
        self._member = object()
        self._group.members[self._instance] = self._member

    def _require_usable(self) -> None:
        if not self._usable:
            raise DeliveryDoubtful("this transport is closed, dead or in doubt")
        if self._broker.transactional[self._identity] is not self:
            self._usable = False
            raise DeliveryDoubtful(f"another worker runs as instance {self._instance!r} of this group")

    def _require_ownership(self, batch: Batch) -> None:
        ours = batch.snapshot is self._member and self._group.members.get(self._instance) is self._member
        if not ours or any(self._group.owners.get(source.partition) is not self._member for source in batch.ends):
            self._usable = False
            raise DeliveryDoubtful("the group gave the batch's sources to another worker")

    def _follow_assignment(self) -> None:
        """Give up partitions that another should own, and take free ones that this member should own."""
        group, member = self._group, self._member
        wanted = group.wanted(len(self._input.partitions))
        for partition, owner in list(group.owners.items()):
            if owner is member and wanted[partition] is not member:
                del group.owners[partition]
        for partition, wanted_owner in wanted.items():
            if wanted_owner is member:
                group.owners.setdefault(partition, member)
        owned = {partition for partition, owner in group.owners.items() if owner is member}
        gained = owned - self._owned
        self._owned = owned
        self._positions = {
            partition: position
            for partition, position in self._positions.items()
            if partition in owned and partition not in gained
        }

    def _next_batch(self) -> Batch:
        bounds = self._settings.batch
        records: list[Record] = []
        ends: dict[Source, int] = {}
        value_bytes = 0
        for partition, position in sorted(self._positions.items()):
            log = self._input.partitions[partition]
            if position < log.first:
                del self._positions[partition]
                break
            source = Source(self._stream, partition)
            for offset, found in log.from_offset(position):
                value_bytes += len(found.value or b"")
                if len(records) == bounds.records_max or (records and value_bytes > bounds.bytes_max):
                    return Batch(records, ends, snapshot=self._member)
                records.append(self._record(source, offset, found))
                ends[source] = offset + 1
                self._positions[partition] = offset + 1
        return Batch(records, ends, snapshot=self._member)

    def _record(self, source: Source, offset: int, found: Stored) -> Record:
        return Record(
            source=source,
            topic=self._settings.topics.input,
            offset=offset,
            key=found.key,
            value=found.value,
            timestamp_ms=found.timestamp_ms,
            headers=found.headers,
            lost=found.lost,
        )

    def _output(self, outgoing: Outgoing) -> Partition:
        logs = self._broker.topics[self._topics[outgoing.destination]].partitions
        return logs[zlib.crc32(outgoing.record.key or b"") % len(logs)]

    def _crash_in(self, batch: Batch) -> CrashPoint | None:
        for record in batch.records:
            crashes = self._log(record.source).crashes.get(record.offset)
            if crashes:
                return crashes.pop(0).at
        return None

    def _die(self, point: CrashPoint) -> None:
        self._usable = False
        raise Crashed(point.name)


def stored(outgoing: Outgoing) -> Stored:
    """Record that an output becomes in its topic; a header without a value gets an empty one."""
    record = outgoing.record
    headers = tuple((name, value or b"") for name, value in outgoing.headers)
    return Stored(record.key, record.value, record.timestamp_ms, headers)
