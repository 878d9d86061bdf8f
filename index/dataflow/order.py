"""ORDER: gives every document its place in the single decision order. Keyed by input partition."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from index.dataflow.ages import NOWHERE, Ages, Place, pack_place
from index.dataflow.filing import Filing
from index.dataflow.history import are_entries, history_messages, pack_number
from index.dataflow.ledger import pack_floor
from index.dataflow.message import NO_NUMBER, Arrival, Floor, Kind, Message, Seeds, Stage, Task, pack_texts
from index.dataflow.resolving.forgotten import FORGOTTEN
from index.dataflow.resolving.given_back import GIVEN_BACK
from index.dataflow.rows import (
    PARTITION_BITS,
    RECORD,
    TAG,
    UNNAMED,
    Layout,
    Retained,
    Rows,
    document_keys,
    name_digests,
    packed_by_group,
    shard_of,
    shard_of_batches,
)
from index.decide.prepare import digests_of, require_sound
from index.entry import Entries
from index.entry import Kind as EntryKind
from index.errors import Difference, StateDiffersError
from index.frames.samples import groups_of
from index.matching.host_sketch import NO_HOST, host_keys
from index.storage import log
from index.storage.parameters import Parameters

_STATE = b"recorded"
_FINGERPRINT_PREFIX = "fingerprint."
_KEEPERS = (Stage.CLAIM, Stage.VERSIONS, Stage.RECALL, Stage.NAME)


class Recorded(NamedTuple):
    """Known facts about a partition.

    stamp    settings for its fingerprints and the flow, by name; empty before its first document
    ends     by stream: exclusive end of the decided offsets
    time_ms  least time of its next batch, in the order
    seeding  whether seeds from an index came, and more will
    run      as in `Floor`, with retention
    until_ms as in `Seeds`
    """

    stamp: dict[str, str]
    ends: dict[str, int]
    time_ms: int
    seeding: bool = False
    run: int = 0
    until_ms: int = -1


class Order:
    """The operator ORDER: sends every document to look-up, storage and JOIN."""

    def __init__(
        self,
        parameters: Parameters,
        layout: Layout,
        filing: Filing,
        stamp: Mapping[str, str],
        shards: int,
        slot_ms: int,
        *,
        incomplete: bool = False,
        retained: Retained | None = None,
        stages: Sequence[Stage] = (),
    ):
        """See `Dataflow`; stamp: as `Dataflow.stamp`; stages: those in use."""
        self._incomplete, self._retained = incomplete, retained
        age_max_ms = None if retained is None else retained.retention.age_max_ms
        self._ages = None if age_max_ms is None else Ages(age_max_ms)
        self._keepers = tuple(stage for stage in _KEEPERS if stage in stages)
        self._parameters, self._layout, self._filing = parameters, layout, filing
        self._stamp, self._shards, self._slot_ms = dict(stamp), shards, slot_ms

    def arrive(self, task: Task, arrival: Arrival) -> Iterator[Message]:
        """Take a batch from the log; a partition's batches come in log order, and may come again.

        Raises StateDiffersError if the batch or the state has other settings; ValueError for an unsound batch, for seeds that
        are late or incomplete, and for documents without the ones before.
        """
        known = self._recorded(task)
        flow_stamp = {name: value for name, value in known.stamp.items() if not name.startswith(_FINGERPRINT_PREFIX)}
        _require_same(flow_stamp, self._stamp)
        if arrival.seeds is not None:
            yield from self._seeded(task, known, arrival, arrival.seeds)
            return
        if known.seeding:
            raise ValueError(
                f"Partition {arrival.source.partition} lacks entries of the index that it was to be seeded with. Go on with the "
                "job that seeds, from this state, until it has all; docs/flink.md says how to tell."
            )
        is_known = arrival.time_ms <= known.until_ms
        if arrival.given_back:
            if is_known:
                return
            yield from self._given_back(task, known, arrival)
            return
        stream, ends = arrival.source.stream, known.ends
        # Every batch advances time, even an empty one, as the watermark does. The log's clock may go back; this time does not.
        time_ms = max(arrival.time_ms, known.time_ms)
        begin = max(arrival.begin, ends.get(stream, 0))
        new = begin < arrival.end
        if new:
            if begin > 0 and not (ends or self._incomplete):
                raise ValueError(
                    f"Partition {arrival.source.partition} of {arrival.name} begins at offset {begin:,}, and this job has no "
                    "state: its verdicts would ignore the documents before. Go on from a savepoint, seed the job, or submit it "
                    "with --incomplete if the input begins there."
                )
            ends = {**ends, stream: arrival.end}
            known = self._drawn(self._with_settings(known, arrival))
        # Only one batch has a time, so time and row are a key. Repeated ones count too: the order follows from the log alone.
        self._record(task, known._replace(ends=ends, time_ms=time_ms + (arrival.begin < arrival.end)))
        if arrival.floor is not None and arrival.floor.run == known.run:
            yield from self._passed_on(arrival.floor, self._slot_of(time_ms))
        if arrival.forgets is not None and not is_known:
            yield self._forgotten(arrival.forgets, time_ms, arrival.source.partition)
        if not new:
            return
        require_sound(arrival.entries, self._parameters)
        first = int(np.searchsorted(arrival.entries.offsets, np.uint64(begin)))
        entries = arrival.entries.take(np.arange(first, len(arrival.entries)))
        if self._retained is not None and len(entries):
            high = time_ms << PARTITION_BITS | arrival.source.partition
            yield self._placed(task, arrival, entries, high, known.run)
        yield from self._handed_out(arrival, entries, begin, first, time_ms)

    def _given_back(self, task: Task, known: Recorded, arrival: Arrival) -> Iterator[Message]:
        """Documents that enter undecided, behind all of this partition so far."""
        self._require_leaving("given back")
        require_sound(arrival.entries, self._parameters)
        known, time_ms = self._drawn(self._with_settings(known, arrival)), max(arrival.time_ms, known.time_ms)
        self._record(task, known._replace(time_ms=time_ms + 1))
        entries = arrival.entries.take(np.flatnonzero(arrival.entries.kinds <= EntryKind.EXACT))
        if not len(entries):
            return
        high, low = document_keys(time_ms, arrival.source.partition, len(entries))
        rows = np.zeros(len(entries), GIVEN_BACK)
        rows["high"], rows["low"], rows["names"] = high, low, self._names(entries)
        yield Message(Stage.RESOLVE, 0, self._slot_of(time_ms), Kind.GIVEN_BACK, rows.tobytes())
        if self._retained is not None:
            yield self._placed(task, arrival, entries, high, known.run)
        yield from self._handed_out(arrival, entries, arrival.begin, 0, time_ms)

    def _drawn(self, known: Recorded) -> Recorded:
        """With retention, the known facts with a number for floors."""
        if self._retained is None or known.run:
            return known
        return known._replace(run=secrets.randbelow(2**63) + 1)

    def _require_leaving(self, what: str) -> None:
        if not self._layout.leaves:
            raise ValueError(
                f"Documents are to be {what}, and in this job no entry leaves: it has neither updates nor retention. Submit it "
                'without the state and with index.recrawl = "update", and replay the log.'
            )

    def _passed_on(self, floor: Floor, slot: int) -> Iterator[Message]:
        """A floor for all that keep documents."""
        for stage in self._keepers:
            for shard in range(self._shards):
                yield Message(stage, shard, slot, Kind.FLOOR, pack_floor(floor.epoch))

    def _forgotten(self, names: npt.NDArray[np.uint64], time_ms: int, partition: int) -> Message:
        """Names for RESOLVE, whose documents leave between this partition's batches."""
        self._require_leaving("forgotten")
        rows = np.zeros(len(names), FORGOTTEN)
        rows["name"], rows["high"] = names, time_ms << PARTITION_BITS | partition
        return Message(Stage.RESOLVE, 0, self._slot_of(time_ms), Kind.FORGOTTEN, rows.tobytes())

    def _recorded(self, task: Task) -> Recorded:
        content = task.get(_STATE)
        return Recorded({}, {}, 0) if content is None else Recorded(*json.loads(content))

    def _record(self, task: Task, known: Recorded) -> None:
        task.put_all({_STATE: json.dumps(known).encode()})

    def _with_settings(self, known: Recorded, arrival: Arrival) -> Recorded:
        """The known facts with the first batch's settings; raises if this batch's differ."""
        own = self._stamp | {f"{_FINGERPRINT_PREFIX}{name}": value for name, value in json.loads(arrival.stamp).items()}
        _require_same(known.stamp, own)
        return known._replace(stamp=own)

    def _seeded(self, task: Task, known: Recorded, arrival: Arrival, seeds: Seeds) -> Iterator[Message]:
        """Seeds precede all other documents, in the index's order, and need no verdict."""
        if len(arrival.entries) and self._layout.leaves != (seeds.history is not None):
            raise ValueError(
                f"Partition {arrival.source.partition} of {arrival.name} has the entries of an index as another "
                "index.recrawl or retention needs them. Write them again with the settings of this job: streamer index seed"
            )
        if known.ends or arrival.time_ms <= known.time_ms:
            raise ValueError(
                f"Partition {arrival.source.partition} of {arrival.name} gets entries of an index twice, or too late: seed a job "
                "that has no state, from a topic that was written once."
            )
        known = self._drawn(self._with_settings(known, arrival))
        ends = dict(seeds.ends or {})
        seeding = seeds.ends is None
        self._record(task, known._replace(ends=ends, time_ms=arrival.time_ms, seeding=seeding, until_ms=seeds.until_ms))
        if seeds.sample is not None:
            yield Message(Stage.FRAME, seeds.sample[0], self._slot_of(arrival.time_ms), Kind.SAMPLE, seeds.sample[1])
        if len(arrival.entries):
            require_sound(arrival.entries, self._parameters, stored=True)
            yield from self._handed_out(arrival, arrival.entries, arrival.begin, 0, arrival.time_ms)
        if self._retained is not None:
            yield from self._placed_seeds(task, arrival, seeds, known.run)

    def _handed_out(
        self, arrival: Arrival, entries: Entries, begin: int, first: int, time_ms: int
    ) -> Iterator[Message]:
        partition, seeds = arrival.source.partition, arrival.seeds
        slot = self._slot_of(time_ms)
        high, low = document_keys(time_ms, partition, len(entries))
        heading = np.array([high, begin, first, len(entries)], "<u8").tobytes()
        if seeds is None and not arrival.given_back:
            kinds = entries.kinds.astype("u1").tobytes()
            yield Message(Stage.JOIN, partition, slot, Kind.BATCH, heading + kinds + arrival.content)
        elif seeds is not None and len(seeds.members):
            yield Message(Stage.RESOLVE, 0, slot, Kind.SETTLED, self._settled(seeds, high, low).tobytes())
        history = None if seeds is None else seeds.history
        if history is not None:
            entries = replace(entries, host_digests=np.ascontiguousarray(history["host"]))
            yield from history_messages(history, self._names(entries), high, low, slot, self._shards)
        entering = np.flatnonzero((entries.kinds == EntryKind.NEAR) | (entries.kinds == EntryKind.EXACT))
        if not len(entering):
            return
        keeper = int(shard_of_batches(np.array([high], np.uint64), self._shards)[0])
        texts = [arrival.source.stream, arrival.name, *entries.ids]
        columns = entries.offsets.astype("<u8").tobytes() + entries.letters.astype("<u4").tobytes()
        yield Message(Stage.NAME, keeper, slot, Kind.NAMES, heading + columns + pack_texts(texts))
        tags, entering_rows = self._tags(entries), None
        if seeds is not None:
            entering_rows = np.ones(len(entries), np.bool_) if history is None else are_entries(history)
        if history is not None:
            # Without its document a record is no version.
            tags["page"][history["named_high"] == np.uint64(UNNAMED)] = 0
        yield from self._records(tags, high, low, slot)
        near, exact = (self._signatures(entries, kind, high, low, tags) for kind in (EntryKind.NEAR, EntryKind.EXACT))
        if self._parameters.frames is not None and seeds is None:
            hosts = host_keys(entries.hosts or [None] * len(entries))[entries.kinds == EntryKind.NEAR]
            kind = Kind.KNOWN_PAGES if arrival.given_back else Kind.PAGES
            yield from self._pages(near[hosts != NO_HOST], hosts[hosts != NO_HOST], slot, kind)
            near = near[hosts == NO_HOST]
        yield from self._filing.filed(near, slot, exact, seeded=entering_rows)

    def _placed(self, task: Task, arrival: Arrival, entries: Entries, high: int, run: int) -> Message:
        """A batch's place, for RESOLVE; high: of its rows."""
        key, nothing = (high, 0), (0, 0)
        expired = nothing, nothing
        if self._ages is not None and arrival.given_back:
            expired = self._ages.enter(task, key, len(entries))
        elif self._ages is not None:
            expired = self._ages.advance(task, arrival.source.stream, key, entries.times_ms)
        place = Place(high, *expired, run, entries.kinds <= EntryKind.EXACT)
        return Message(Stage.RESOLVE, 0, self._slot_of(high >> PARTITION_BITS), Kind.PLACES, pack_place(place))

    def _placed_seeds(self, task: Task, arrival: Arrival, seeds: Seeds, run: int) -> Iterator[Message]:
        """A seed's places: its rows', or how far each source has expired."""
        high = arrival.time_ms << PARTITION_BITS | arrival.source.partition
        places = []
        if seeds.number != NO_NUMBER:
            content = pack_number(high, seeds.number)
            yield Message(Stage.RESOLVE, 0, self._slot_of(arrival.time_ms), Kind.NUMBERED, content)
        if seeds.history is not None:
            places.append(Place(high, NOWHERE, NOWHERE, run, seeds.history["entered"]))
        if self._ages is not None:
            for age in seeds.ages:
                self._ages.begin(task, age)
                places.append(Place(high, age.begin, age.end, run, np.empty(0, np.bool_)))
        for place in places:
            yield Message(Stage.RESOLVE, 0, self._slot_of(arrival.time_ms), Kind.PLACES, pack_place(place))

    def _slot_of(self, time_ms: int) -> int:
        return -(-time_ms // self._slot_ms) * self._slot_ms

    def _tags(self, entries: Entries) -> Rows:
        """Each document's TAG, [n, 1]; [n, 0] without updates."""
        tags = np.zeros((len(entries), int(self._layout.leaves)), TAG)
        if not self._layout.leaves:
            return tags
        tags["kind"], tags["digests"] = entries.kinds[:, None], digests_of(entries)[:, None]
        tags["names"], usable = self._names(entries)[:, None], _usable(entries)
        if Stage.VERSIONS not in self._keepers:
            return tags
        hosts = log.host_digests(entries).tolist()
        for row in np.flatnonzero(usable & (entries.kinds <= EntryKind.EXACT)).tolist():
            if entries.ids[row]:
                octets = entries.ids[row].encode("utf-8", "surrogatepass")
                # 0 says that there is none.
                tags["page"][row] = xxhash.xxh3_64_intdigest(octets, hosts[row]) or 1
        return tags

    def _names(self, entries: Entries) -> npt.NDArray[np.uint64]:
        """Each document's `name_digests`, uint64 [n, 2]."""
        names = np.array([name_digests(id_) for id_ in entries.ids], np.uint64).reshape(-1, 2)
        for row in np.flatnonzero(~_usable(entries)).tolist():
            partition = entries.sources[entries.source_numbers[row]].partition
            # Its position names it: the topic before that is no scope.
            if entries.ids[row].endswith(f"/{partition}/{entries.offsets[row]}"):
                names[row, 1] = 0
        return names

    def _records(self, tags: Rows, high: int, low: npt.NDArray[np.uint16], slot: int) -> Iterator[Message]:
        pages = tags["page"].ravel()
        rows = np.flatnonzero(pages)
        records = np.zeros(len(rows), RECORD)
        records["high"], records["low"], records["page"] = high, low[rows], pages[rows]
        for shard, content in packed_by_group(records, shard_of(records["page"], self._shards)):
            yield Message(Stage.VERSIONS, shard, slot, Kind.RECORDS, content)

    def _signatures(
        self, entries: Entries, kind: EntryKind, high: int, low: npt.NDArray[np.uint16], tags: Rows
    ) -> Rows:
        """The documents of a kind, as `Layout.signature`; EXACT ones are compared by their fingerprints alone."""
        rows = np.flatnonzero(entries.kinds == kind)
        signatures, is_near = np.zeros(len(rows), self._layout.signature), kind == EntryKind.NEAR
        signatures["high"], signatures["low"] = high, low[rows]
        looks, letters = entries.look_rows[rows] * is_near, entries.letters[rows] * np.uint32(is_near)
        signatures["whole"] = self._filing.wholes(entries.fingerprints[rows], looks, letters)
        signatures["tag"] = tags[rows]
        return signatures

    def _pages(self, signatures: Rows, hosts: npt.NDArray[np.uint64], slot: int, kind: Kind) -> Iterator[Message]:
        pages = np.zeros(len(hosts), self._layout.page)
        pages["host"] = hosts
        for name in ("high", "low", "whole", "tag"):
            pages[name] = signatures[name]
        for group, content in packed_by_group(pages, groups_of(hosts)):
            yield Message(Stage.FRAME, group, slot, kind, content)

    def _settled(self, seeds: Seeds, high: int, low: npt.NDArray[np.uint16]) -> Rows:
        settled = np.zeros(len(seeds.members), self._layout.settled)
        settled["high"], settled["low"] = high, low[seeds.members]
        settled["earlier_high"], settled["earlier_low"] = seeds.roots.T
        settled["earlier_whole"] = self._filing.wholes(seeds.fingerprints, seeds.looks, seeds.letters)
        return settled


def _usable(entries: Entries) -> npt.NDArray[np.bool_]:
    """Whether documents brought their ids along, bool [n]."""
    return np.ones(len(entries), np.bool_) if entries.named is None else entries.named


def _require_same(stored: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Raise StateDiffersError if a state has other settings; an empty state has none."""
    names = sorted(name for name in stored.keys() | asked.keys() if stored.get(name) != asked.get(name))
    if stored and names:
        lines = (str(Difference(name, stored.get(name), asked.get(name))) for name in names)
        raise StateDiffersError(
            f"The state was made with other settings: {'; '.join(lines)}. Go on with the stored ones, or submit the job without "
            "the state."
        )
