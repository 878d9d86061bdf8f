"""The world that faults strike: broker, proxy, services, index and what flows through them."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import psutil
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError

from bench.chaos.ledger import Ledger
from bench.chaos.proxy import Proxy
from bench.chaos.readiness import UNTRUE_SECONDS_MAX, Readiness
from bench.chaos.traffic import VALUE_BYTES_MAX, Traffic
from deploy.kafka_run import DESTINATIONS, Run, create_topics, kill_group
from deploy.local_kafka import HOST, LocalCluster, LocalKafka, free_port
from streamer.settings.parts import Part

INPUT = "documents"
NAME = "chaos"
BETWEEN = ("fingerprints", "verdicts")
"""The topics between parts, by their settings."""

PARTITIONS_MAX = 24
RECOVERY_SECONDS_MAX = 240.0
"""Unless the run says otherwise. With much other work a machine takes half a minute to start a service; poison starts six."""

_STOP_SECONDS = 30.0
_PENDING_SECONDS_MAX = 60.0
"""The broker aborts every transaction after 12 s (`SETTINGS`): offsets that are pending for longer are its own fault."""
_INDEX_BYTES = 2**30

SETTINGS = (
    "kafka.request_timeout_ms=2000",
    "kafka.delivery_timeout_ms=4000",
    "workers.progress_timeout_ms=7000",
    "kafka.transaction_timeout_ms=12000",
    "kafka.session_timeout_ms=5000",
    "kafka.max_poll_interval_ms=30000",
    "workers.restart_backoff_ms=50",
    "workers.restart_backoff_max_ms=1000",
    "batch.records_max=20",
    "batch.wait_ms=50",
    "fingerprint.key=public",
    f"decode.value_bytes_max={VALUE_BYTES_MAX}",
)
"""Timeouts as short as the relations between them allow, and batches so small that faults hit many."""


INSIDE = Path(__file__).with_name("inside")
"""Folder of what is imported by every process of the services."""

ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(filter(None, (str(INSIDE), os.environ.get("PYTHONPATH"))))}
"""Variables of the services."""


class Stuck(Exception):
    """The service did not come back, or came back with something wrong; the message says what and what was seen."""


@dataclass
class Service:
    """One service, or one part of it: a supervisor and its workers, under an instance's name.

    part  that its workers do; None: the whole path
    """

    run: Run
    instance: str
    log: Path
    part: Part | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the service; returns at once. `environment` adds variables."""
        command = ("run", "--part", self.part) if self.part else ()
        self.process = self.run.start(self.log, {**ENVIRONMENT, **(environment or {})}, command)

    @property
    def name(self) -> str:
        """The instance, and its part."""
        return f"{self.part}-{self.instance}" if self.part else self.instance

    @property
    def supervisor(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "the service was never started"
        return self.process

    def workers(self) -> list[psutil.Process]:
        """Its worker processes that live now, even suspended."""
        try:
            children = psutil.Process(self.supervisor.pid).children()
            return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            return []

    def kill(self) -> None:
        """kill -9 supervisor and workers, orphans too."""
        try:
            kill_group(self.supervisor)
        except ProcessLookupError:
            self.supervisor.wait()

    def stop(self) -> None:
        """Ask for an orderly end, and wait for it. Raises Stuck unless it comes, with exit code 0.

        A process that is too young to have said what it does about the signal ends of it.
        """
        self.supervisor.send_signal(signal.SIGTERM)
        try:
            code = self.supervisor.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Stuck(f"service {self.name} did not stop within {_STOP_SECONDS:g} s of SIGTERM") from error
        if code not in (os.EX_OK, -signal.SIGTERM):
            raise Stuck(f"service {self.name} ended with {code} on SIGTERM")

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass
class World:
    """Everything that runs; a context manager. Faults change it through its parts."""

    directory: Path
    seed: int
    partitions: int = 3
    workers: int = 2
    rate: float = 40.0
    recovery_seconds_max: float = RECOVERY_SECONDS_MAX
    untrue_seconds_max: float = UNTRUE_SECONDS_MAX
    settings: tuple[str, ...] = ()
    parts: tuple[Part | None, ...] = (None,)
    """What the services do: the whole path in one, or its parts, a service each."""
    broker_count: int = 1
    """1 or 3."""
    services: list[Service] = field(default_factory=list)
    """The services that ought to be ready whenever no fault is at work."""
    second: Service | None = None
    """One of these that a fault started beside the others."""
    backups: list[Path] = field(default_factory=list)
    """Copies of the index, the oldest first."""
    strangers: list[KafkaProducer] = field(default_factory=list)
    """Producers that faults left behind: their finaliser would mute the logger of the client's module."""
    broker_restarts: int = 0
    """Restarts of a broker that gave no offsets, as the runbook has a person do."""
    why_no_room_can_be_taken: str = ""
    """Why the index has no file system of its own; empty where it has."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        self.room = self.directory / "room"
        self.room.mkdir(parents=True)
        self._mount(stack)
        self._start_brokers(stack)
        named = [f"topics.{topic}={NAME}-{topic}" for topic in BETWEEN] if self.in_parts else []
        settings = (*SETTINGS, f"workers.count={self.workers}", *named, *self.settings)
        self.run = Run(NAME, self.servers, INPUT, self.room, free_port(), settings)
        self.outputs = [self.run.topic(destination) for destination in DESTINATIONS]
        create_topics(self.servers, [INPUT], self.partitions, len(self.brokers))
        # As `streamer topics create --parts` makes them: services' clocks jump.
        times = {"message.timestamp.type": "LogAppendTime"}
        if self.in_parts:
            create_topics(self.servers, self.read_topics[:-1], self.partitions, len(self.brokers), times)
        # With one partition the outputs are compared in their order too, and a restored index depends on it.
        create_topics(self.servers, self.outputs, min(self.partitions, 2), len(self.brokers))
        self.outputs += self.read_topics[:-1]
        self.ledger = stack.enter_context(Ledger(self.run))
        self.ledger.follow(self.partitions)
        stack.callback(self._end_services)
        for part in self.parts:
            self.services.append(self.service("0", part))
            self.services[-1].start()
        ready = Readiness(lambda: [each.run for each in self.services], allowed_seconds=self.untrue_seconds_max)
        self.readiness = stack.enter_context(ready)
        self.traffic = stack.enter_context(Traffic(self.servers, INPUT, self.partitions, self.rate, self.seed))

    def _start_brokers(self, stack: ExitStack) -> None:
        ports = [free_port() for _ in range(self.broker_count)]
        if self.broker_count == 1:
            broker = LocalKafka(self.directory / "kafka", proxy_port=ports[0])
            self.brokers = [broker]
            started: LocalKafka | LocalCluster = broker
        else:
            cluster = LocalCluster(self.directory / "kafka", proxy_ports=ports)
            self.brokers = cluster.brokers
            started = cluster
        targets = {port: each.proxied_port for port, each in zip(ports, self.brokers, strict=True)}
        self.proxy = stack.enter_context(Proxy({port: target for port, target in targets.items() if target}))
        stack.enter_context(started)

    @property
    def servers(self) -> str:
        """Addresses of the brokers past the proxy."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def _mount(self, stack: ExitStack) -> None:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_INDEX_BYTES}", "chaos", str(self.room)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode:
            self.why_no_room_can_be_taken = f"no mount: {mounted.stderr.decode().strip()}"
            return
        # Lazily: a process that a fault left behind must not keep the run from ending.
        stack.callback(subprocess.run, ["umount", "--lazy", str(self.room)], check=False)

    @property
    def in_parts(self) -> bool:
        """Whether the path runs in parts."""
        return self.parts != (None,)

    @property
    def read_topics(self) -> list[str]:
        """The input, and the topics between parts, which have its partitions."""
        return [*(f"{NAME}-{topic}" for topic in BETWEEN if self.in_parts), INPUT]

    def service(self, instance: str, part: Part | None) -> Service:
        """A service over the proxy that was not started yet, with a port of its own; all share the index."""
        settings = (*self.run.settings, f"kafka.instance={instance}")
        run = replace(self.run, bootstrap_servers=self.proxied_servers, port=free_port(), settings=settings)
        log = self.directory / f"service-{f'{part}-' if part else ''}{instance}.log"
        return Service(run, instance, log, part)

    @property
    def proxied_servers(self) -> str:
        """Addresses of the brokers behind the proxy."""
        return ",".join(f"{HOST}:{port}" for port in self.proxy.ports)

    @property
    def index(self) -> Path:
        """Folder of the index."""
        return self.run.directory / self.run.name

    def chosen_service(self, chance: random.Random) -> Service:
        """One of the services that ought to run."""
        return chance.choice(self.services)

    def admin(self) -> KafkaAdminClient:
        """Client past the proxy, to be closed. Raises KafkaError while the broker is away."""
        return KafkaAdminClient(bootstrap_servers=self.servers, request_timeout_ms=5_000)

    def add_partition(self) -> None:
        """Give the input one more partition, and before it the topics between parts. Raises KafkaError."""
        with self.admin() as admin:
            for topic in self.read_topics:
                if len(admin.describe_topics([topic])[0]["partitions"]) == self.traffic.partitions:
                    admin.create_partitions({topic: self.traffic.partitions + 1})
        self.traffic.partitions += 1

    def recover(self) -> float:
        """Wait until all services are ready, and what flowed in up to now has come out. Returns the seconds that it took.

        Raises Stuck after the timeout, where a service has ended by itself, and where anything came out wrong.
        """
        begin = time.monotonic()
        marks: dict[int, int] | None = None
        was_asked = False
        while True:
            self.watch()
            self.require_alive()
            now = time.monotonic()
            if now - begin > _PENDING_SECONDS_MAX and not was_asked:
                was_asked = True
                self._restart_broker_without_offsets()
            if marks is None:
                marks = self.traffic.mark()
            if marks is not None and not self.ledger.lacks(marks) and all(each.run.ready() for each in self.services):
                return time.monotonic() - begin
            if now - begin > self.recovery_seconds_max:
                raise Stuck(f"not recovered within {self.recovery_seconds_max:g} s: {self._what_is_missing(marks)}")

    def _restart_broker_without_offsets(self) -> None:
        """Restart a broker that answers, but not for a group.

        Kafka 4.3.1, killed while it loads a group's offsets, may keep them pending for ever, or leave the group without a
        coordinator ("out of sync with the underlying log").
        """
        groups = {NAME if part in (None, "route") else f"{NAME}.{part}" for part in self.parts}
        places = [TopicPartition(topic, number) for topic in self.read_topics for number in range(self.partitions)]
        if any(offsets_are_unanswered(self.servers, group, places) for group in groups):
            for broker in self.brokers:
                broker.stop()
                broker.start()
                self.broker_restarts += 1

    def watch(self) -> None:
        """Read what came out for a moment. Raises Stuck where it is wrong."""
        self.ledger.follow(self.traffic.partitions)
        self.ledger.poll()
        self.readiness.compare(self.ledger)
        assert self.traffic.flows or self.traffic.stopped, "the thread that sends documents has failed"
        if self.ledger.problems:
            raise Stuck("; ".join(self.ledger.problems[:5]))

    def require_alive(self) -> None:
        """Raise Stuck where a service has ended by itself."""
        for service in self.services:
            if (code := service.supervisor.poll()) is not None:
                raise Stuck(f"service {service.name} ended by itself with {code}:\n{service.log_tail()}")

    def _what_is_missing(self, marks: Mapping[int, int] | None) -> str:
        if marks is None:
            return "the broker takes no records"
        found = [f"service {each.name} is not ready" for each in self.services if not each.run.ready()]
        found += [f"these have not come out: {lacking}" for lacking in [self.ledger.lacks(marks)] if lacking]
        tails = [f"--- log of service {each.name}\n{each.log_tail()}" for each in self.services]
        return "\n".join([*found, *tails])

    def _end_services(self) -> None:
        for service in self.services:
            if service.process is not None:
                service.kill()

    def keep_index(self) -> None:
        """Copy the index beside the logs, for whoever looks into a failure."""
        if self.index.exists():
            shutil.copytree(self.index, self.directory / "index-at-the-end", dirs_exist_ok=True)


def offsets_are_unanswered(bootstrap_servers: str, group: str, places: Sequence[TopicPartition]) -> bool:
    """Whether a broker answers, and twice not what a group has committed for good."""
    with closing(
        KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
    ) as consumer:
        consumer.topics()
        for _ in range(2):
            try:
                for place in places:
                    consumer.committed(place, timeout_ms=3_000)
            except KafkaTimeoutError:
                continue
            return False
        return True
