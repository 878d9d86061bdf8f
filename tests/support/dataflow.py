"""A cluster in one process: it runs a `Dataflow` in subtasks that know time by watermarks alone, in any possible order."""

from collections import defaultdict, deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from index.dataflow import KEPT_AT_ONCE, Arrival, Dataflow, Decided, Floor, Message, Stage, name_digests
from index.entry import Entries, Position, Source
from streamer.flink.batches import arrival
from tests.support.crawls import UPDATES

STREAM = "stream-of-input"
EQUAL_REASONS = {each: each + 30 for each in range(9)}
"""Reasons of documents with their original's text, by their own."""
FOREVER = 2**60
NOTHING_YET = -1

_EDGES = {
    Stage.ORDER: (
        Stage.FRAME,
        Stage.CLAIM,
        Stage.VERSIONS,
        Stage.RECALL,
        Stage.VERIFY,
        Stage.RESOLVE,
        Stage.NAME,
        Stage.JOIN,
    ),
    Stage.FRAME: (Stage.CLAIM, Stage.RECALL, Stage.VERIFY),
    Stage.CLAIM: (Stage.RECALL, Stage.RESOLVE, Stage.NAME),
    Stage.VERSIONS: (Stage.RECALL,),
    Stage.RECALL: (Stage.VERIFY,),
    Stage.VERIFY: (Stage.RESOLVE,),
    Stage.RESOLVE: (Stage.NAME,),
    Stage.NAME: (Stage.JOIN,),
    Stage.JOIN: (),
}


class Answer(NamedTuple):
    """What is said of a document."""

    verdict: int
    distance: int
    original_id: str | None
    original_position: Position | None
    ratio: int
    reason: int


class Batch(NamedTuple):
    """Offsets [begin, end) of a partition as they stand in the log; or entries of an index, as bytes."""

    time_ms: int
    partition: int
    begin: int
    end: int
    entries: Entries
    seeds: bytes | None = None
    floor: Floor | None = None
    forgets: tuple[str, ...] = ()
    """Ids, and beginnings of ids that end with a slash."""
    given_back: bool = False
    """Whether a person gave these entries back, after the offset `end`."""

    def arrival(self) -> Arrival:
        if self.seeds is not None:
            return arrival(self.seeds, self.time_ms, "seeds")
        source = Source(STREAM, self.partition)
        content = f"{self.partition}/{self.begin}-{self.end}".encode()
        names = [name_digests(name)[name.endswith("/")] for name in self.forgets]
        forgets = np.array(names, np.uint64) if names else None
        return Arrival(
            self.time_ms,
            source,
            "documents",
            self.begin,
            self.end,
            "{}",
            self.entries,
            content,
            floor=self.floor,
            forgets=forgets,
            given_back=self.given_back,
        )


class KeyState:
    """State of one key: what a `Task` is."""

    def __init__(self, content: dict[bytes, bytes]):
        self.content = content

    def get(self, name: bytes) -> bytes | None:
        return self.content.get(name)

    def put_all(self, contents: dict[bytes, bytes]) -> None:
        assert all(isinstance(content, bytes) for content in contents.values())
        self.content.update(contents)

    def remove_all(self, names: Sequence[bytes]) -> None:
        for name in names:
            self.content.pop(name, None)


@dataclass
class Snapshot:
    """All that outlives a crash."""

    states: dict[tuple[Stage, int], dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))
    waiting: dict[tuple[Stage, int], dict[int, list[Message]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    in_flight: list[Any] = field(default_factory=list)
    read: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class Cluster:
    """Runs a flow over logs, one for each partition; `choose` draws what happens next."""

    def __init__(
        self,
        flow: Dataflow,
        logs: dict[int, list[Batch]],
        choose: np.random.Generator,
        parallelism: int = 2,
        since: Snapshot | None = None,
        *,
        waits: bool = True,
        reads: float = 0.2,
    ):
        """reads: how likely the log is read on before what was read is done.

        waits: False lets all operators but JOIN work on whatever has come, as soon as it comes."""
        self.waits, self.reads = waits, reads
        self.flow, self.logs, self.choose, self.parallelism = flow, logs, choose, parallelism
        self.snapshot = deepcopy(since) if since is not None else Snapshot()
        self.order, self.operators = flow.order(), flow.operators()
        self.channels: dict[tuple[Any, Any], deque[Any]] = {}
        self.watermarks: dict[tuple[Stage, int], dict[Any, int]] = {}
        self.decided: list[Decided] = []
        self.floors = 0
        sources = [("source", number) for number in range(parallelism)]
        self.upstream: dict[Stage, list[Any]] = {Stage.ORDER: sources}
        for stage in self.flow.stages:
            senders = [each for each in self.flow.stages if stage in _EDGES[each]]
            self.upstream.setdefault(stage, [(each, number) for each in senders for number in range(parallelism)])
        for stage, senders in self.upstream.items():
            for number in range(parallelism):
                self.watermarks[stage, number] = dict.fromkeys(senders, NOTHING_YET)
                for sender in senders:
                    self.channels[sender, (stage, number)] = deque()
        for sender, what in self.snapshot.in_flight:
            self._send(sender, what)
        self.snapshot.in_flight = []
        self.ended = dict.fromkeys(logs, False)
        self.times: dict[int, int] = {}

    def run(self, steps: int | None = None) -> bool:
        """Go on for some steps, or to the end; returns whether all is done."""
        taken = 0
        while steps is None or taken < steps:
            full = [each for each, channel in self.channels.items() if channel]
            reading = [partition for partition, ended in self.ended.items() if not ended]
            if not full and not reading:
                return True
            if reading and (not full or self.choose.random() < self.reads):
                self._read(int(self.choose.choice(reading)))
            else:
                sender, receiver = full[int(self.choose.integers(len(full)))]
                self._receive(sender, receiver, self.channels[sender, receiver].popleft())
            taken += 1
        return False

    def taken(self) -> Snapshot:
        """A snapshot of now, with what is under way; without watermarks, which nothing keeps."""
        snapshot = deepcopy(self.snapshot)
        for (sender, _), channel in self.channels.items():
            snapshot.in_flight += [(sender, what) for what in channel if not isinstance(what, int)]
        return snapshot

    def _read(self, partition: int) -> None:
        """A source reads on in one partition, and tells how far time has come in all of its own."""
        at, log = self.snapshot.read[partition], self.logs[partition]
        sender = ("source", partition % self.parallelism)
        if at == len(log):
            self.ended[partition] = True
            self.times[partition] = FOREVER
        else:
            self.snapshot.read[partition] = at + 1
            self.times[partition] = max(self.times.get(partition, NOTHING_YET), log[at].time_ms - 1)
            self._send(sender, log[at])
        own = [each for each in self.logs if each % self.parallelism == sender[1]]
        if (all(each in self.times for each in own) and self.choose.random() < 0.7) or self.ended[partition]:
            self._tell(sender, min(self.times.get(each, NOTHING_YET) for each in own))
        for number in range(self.parallelism):
            if not any(each % self.parallelism == number for each in self.logs):
                self._tell(("source", number), FOREVER)

    def _send(self, sender: Any, what: Any) -> None:
        if isinstance(what, Batch):
            sender = ("source", what.partition % self.parallelism)
            receiver = (Stage.ORDER, what.partition % self.parallelism)
        else:
            sender = (sender[0], sender[1] % self.parallelism)
            receiver = (what.stage, what.key % self.parallelism)
        self.channels[sender, receiver].append(what)

    def _tell(self, sender: Any, watermark: int) -> None:
        for (one, _), channel in self.channels.items():
            if one == sender:
                channel.append(watermark)

    def _receive(self, sender: Any, receiver: tuple[Stage, int], what: Any) -> None:
        stage, _ = receiver
        if isinstance(what, int):
            self._advance(sender, receiver, what)
        elif isinstance(what, Batch):
            task = KeyState(self.snapshot.states[stage, what.partition])
            for message in self.order.arrive(task, what.arrival()):
                self._send(receiver, message)
        else:
            assert what.slot > min(self.watermarks[receiver].values()), "late"
            if (stage, what.kind) in KEPT_AT_ONCE:
                self.operators[stage].keep(KeyState(self.snapshot.states[stage, what.key]), what)  # type: ignore[attr-defined]
            elif self.waits or stage is Stage.JOIN:
                self.snapshot.waiting[stage, what.key][what.slot].append(what)
            else:
                self._complete(receiver, what.slot, what.key, [what])

    def _advance(self, sender: Any, receiver: tuple[Stage, int], watermark: int) -> None:
        of_senders = self.watermarks[receiver]
        before = min(of_senders.values())
        of_senders[sender] = max(watermark, of_senders[sender])
        now = min(of_senders.values())
        if now == before:
            return
        stage, number = receiver
        due = [
            (slot, float(self.choose.random()), key)
            for (of, key), slots in self.snapshot.waiting.items()
            if of is stage and key % self.parallelism == number
            for slot in slots
            if slot <= now
        ]
        for slot, _, key in sorted(due):
            messages = self.snapshot.waiting[stage, key].pop(slot)
            self.choose.shuffle(messages)  # type: ignore[arg-type]
            self._complete(receiver, slot, key, messages)
        self._tell(receiver, now)

    def _complete(self, receiver: tuple[Stage, int], slot: int, key: int, messages: list[Message]) -> None:
        task = KeyState(self.snapshot.states[receiver[0], key])
        for found in self.operators[receiver[0]].complete(task, slot, messages):
            if isinstance(found, Decided):
                self.decided.append(found)
            elif isinstance(found, Floor):
                self._write(found)
            else:
                assert found.slot == slot
                self._send(receiver, found)

    def _write(self, floor: Floor) -> None:
        """A floor goes to the log, as a batch without rows that is read next: what is in the log outlives a crash."""
        log, at = self.logs[floor.partition], self.snapshot.read[floor.partition]
        if not self.ended[floor.partition] and at:
            self.floors += 1
            last = log[at - 1]
            nothing = last.entries.take(np.arange(0))
            log.insert(at, last._replace(begin=last.end, entries=nothing, floor=floor, given_back=False))


def answers_by_position(decided: list[Decided], logs: dict[int, list[Batch]]) -> dict[tuple[int, int], Answer]:
    """Answers by partition and offset. What is told more than once must be the same."""
    batches = {batch.arrival().content: batch for log in logs.values() for batch in log if not batch.given_back}
    found: dict[tuple[int, int], Answer] = {}
    for each in decided:
        entries = batches[each.content].entries
        ratios = each.ratios(entries.letters[each.first :]).tolist()
        reasons = each.reasons(entries.reasons[each.first :], UPDATES, EQUAL_REASONS).tolist()
        for row, verdict in enumerate(each.verdicts.tolist()):
            position = each.partition, int(entries.offsets[each.first + row])
            distance, original = int(each.distances[row]), each.original_ids[row]
            answer = Answer(verdict, distance, original, each.original_positions[row], ratios[row], reasons[row])
            assert found.setdefault(position, answer) == answer, position
    return found


def in_order(logs: dict[int, list[Batch]]) -> list[Batch]:
    """All batches in the one order, by its definition, and repeated ones left out: times of a partition never go back, then
    partition and offset."""
    ordered = []
    for log in logs.values():
        latest = reached = 0
        for batch in log:
            latest = max(latest, batch.time_ms)
            if not batch.begin < batch.end <= reached:
                ordered.append((latest, batch.partition, batch.begin, batch))
            reached = max(reached, batch.end)
            # Only one batch of a partition has a time, be it a repeated one.
            latest += batch.begin < batch.end or batch.given_back
    return [batch for *_, batch in sorted(ordered, key=lambda each: each[:3])]
