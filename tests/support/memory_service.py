"""A worker over the in-memory broker, restarted after every crash as the supervisor would."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from index import Insert, Parameters
from index.index import Index
from index.storage.file.commit_hooks import CommitHooks
from streamer.fingerprint.scheme import Scheme, key_for, longer_of, parameters_for, retention_of, scheme_for
from streamer.observe.batch_report import BatchReport
from streamer.protected.sets import open_sets
from streamer.records.reason import EQUAL_REASONS
from streamer.records.record import Headers
from streamer.service.loop import Loop
from streamer.service.state import State
from streamer.service.wiring import build_service, guard_of, recrawl_of
from streamer.settings.settings import Index as IndexSettings
from streamer.settings.settings import Recovery, Settings
from tests.support.listening import Listening
from tests.support.memory_broker import Crash, Crashed, MemoryBroker, MemoryTransport, Stored

RESTARTS_MAX = 200

SENTENCES = (
    "市政府今天公布了新的轨道交通规划，三条线路将在五年内建成，沿线居民出行时间将缩短一半。",
    "气象台发布暴雨预警，提醒山区群众注意防范山洪和泥石流，学校和景区当天全部关闭。",
    "The harbour council voted to widen the northern quay so that larger ferries can dock before the summer season.",
    "Researchers at the coastal institute found that replanted seagrass meadows recover within eight quiet winters.",
    "农业部门表示，今年水稻长势良好，预计总产量比去年增加百分之三，粮价保持稳定。",
    "A small bakery in the old town has switched its ovens to electricity and shares the savings with its apprentices.",
)
"""Texts of which no two resemble each other."""


def document(identity: str, text: str) -> bytes:
    return orjson.dumps({"id": identity, "text": text})


@dataclass
class World:
    """A broker and an index that outlive the workers, and what the workers reported."""

    directory: Path
    settings: Settings = field(default_factory=Settings)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    reports: list[BatchReport] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    skipped: list[tuple[str, int, int]] = field(default_factory=list)
    without_host: list[int] = field(default_factory=list)
    odd_times: list[int] = field(default_factory=list)
    without_scope: list[int] = field(default_factory=list)
    protected: list[dict[str, int]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    starts: int = 0
    instance: str = "0"
    key: Literal["public", "secret"] = "public"
    each_turn: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        index = self.settings.index.model_copy(update={"directory": self.directory})
        fingerprint = self.settings.fingerprint.model_copy(update={"key": self.key})
        self.settings = self.settings.model_copy(update={"index": index, "fingerprint": fingerprint})

    def fill(self, items: Sequence[Stored | bytes | Crash], partition: int = 0, partitions: int = 1) -> None:
        if self.settings.topics.input not in self.broker.topics:
            self.broker.create_for(self.settings, partitions)
        self.broker.write(self.settings.topics.input, partition, items)

    def run_once(self, hooks: CommitHooks | None = None, policy: Recovery | None = None) -> None:
        """Run one life of a worker: until all is read, or until it crashes."""
        self.starts += 1

        def scheme_by(secret: bytes | None) -> Scheme:
            return scheme_for(self.settings, key_for(self.settings, secret))

        def parameters_by(secret: bytes | None) -> Parameters:
            return parameters_for(self.settings, scheme_by(secret).stamp())

        with (
            ExitStack() as opened,
            Index.open(
                self.directory,
                # An index that is given its parameters has no secret, so whoever asks it for a key gets the public one.
                parameters_by if self.key == "secret" else parameters_by(None),
                map_bytes_max=2**30,
                hooks=hooks,
                retention=retention_of(self.settings.index),
                guard=guard_of(self.settings.guard),
                recrawl=recrawl_of(self.settings.index),
                longer=longer_of(self.settings.index),
                stories=self.settings.topics.stories is not None,
                equal_reasons=EQUAL_REASONS,
            ) as index,
        ):
            transport = MemoryTransport(self.broker, self.settings, self.instance, index.identity)
            service: Loop
            idle = 0

            def stop_when_read() -> None:
                nonlocal idle
                self.each_turn()
                still = self.states[-1] is State.RUNNING and not sum(transport.lags().values())
                idle = idle + 1 if still else 0
                if idle > 2:
                    service.stop()

            listener = Listening(
                state=self.states.append,
                step=self.steps.append,
                progress=stop_when_read,
                batch=self.reports.append,
                skipped=lambda *skipped: self.skipped.append(skipped),
                without_host=self.without_host.append,
                odd_times=self.odd_times.append,
                without_scope=self.without_scope.append,
                restored=self.restored.append,
                behind=self.behind.append,
                gaps=self.gaps.append,
                protected=self.protected.append,
            )
            scheme = scheme_by(index.secret)
            sets = opened.enter_context(open_sets(self.settings, scheme))
            policy = policy or self.settings.recovery
            service = build_service(self.settings, transport, index, scheme, listener, policy, protected=sets)
            service.run()

    def run(self, hooks: CommitHooks | None = None) -> None:
        """Run lives of workers, one after the other, until one has read everything."""
        while self.starts < RESTARTS_MAX:
            try:
                return self.run_once(hooks)
            except Crashed:
                continue
        raise AssertionError(f"still crashing after {RESTARTS_MAX} starts")

    def outputs(self) -> dict[str, tuple[str, Headers]]:
        """Destination and `neardup.` headers by input position. A position that came out twice raises."""
        topics = self.settings.topics
        seen: dict[str, tuple[str, Headers]] = {}
        for name in (topics.unique, topics.duplicate, topics.dead_letter):
            for record in self.broker.records(name):
                headers = dict(record.headers)
                position = (headers["neardup.position"] or b"").decode()
                assert position not in seen, f"{position} came out twice"
                stable = (
                    "neardup.verdict",
                    "neardup.reason",
                    "neardup.distance",
                    "neardup.similarity",
                    "neardup.original.position",
                )
                seen[position] = (name, tuple((key, headers.get(key)) for key in stable))
        return seen


def with_an_undelivered_original(directory: Path, insert: Insert) -> World:
    """Loop whose delivered duplicate, in partition 0, names an original in partition 1 that its worker decided before it died.

    A third copy waits in partition 0, which is read first.
    """
    world = World(directory, Settings(index=IndexSettings(insert=insert)))
    world.fill([Crash(), document("original", SENTENCES[2])], 1, partitions=2)
    with suppress(Crashed):
        world.run_once()
    world.fill([document("copy", SENTENCES[2] + "!")], 0)
    del world.broker.group(world.settings.kafka.group).owners[0]
    world.instance = "1"
    world.run_once()
    assert [destination for destination, _ in world.outputs().values()] == [world.settings.topics.duplicate]
    world.broker.expel(world.settings.kafka.group, "0")
    world.fill([document("late", SENTENCES[2] + "?")], 0)
    return world
