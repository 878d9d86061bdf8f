"""One run of the real service over a real broker: fills topics, starts the service, reads its outputs.

Benchmarks and tests use it.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

DESTINATIONS = ("unique", "duplicate", "dead-letter")


@dataclass(frozen=True)
class Run:
    """One run of the filter over a shared input topic, with a separate group, outputs and index."""

    name: str
    bootstrap_servers: str
    input_topic: str
    directory: Path
    port: int
    settings: tuple[str, ...] = ()

    def topic(self, destination: str) -> str:
        """Output topic for a destination."""
        return f"{self.name}-{destination}"

    def arguments(self, *command: str) -> list[str]:
        """`streamer` command line with the run's settings; without a command, it runs the service."""
        values = {
            "kafka.bootstrap_servers": self.bootstrap_servers,
            "kafka.group": self.name,
            "topics.input": self.input_topic,
            "topics.unique": self.topic("unique"),
            "topics.duplicate": self.topic("duplicate"),
            "topics.dead_letter": self.topic("dead-letter"),
            "index.directory": str(self.directory / self.name),
            "observe.port": str(self.port),
        }
        chosen = [f"{key}={value}" for key, value in values.items()] + list(self.settings)
        return [
            sys.executable,
            "-m",
            "streamer",
            *(part for one in chosen for part in ("--set", one)),
            *(command or ("run",)),
        ]

    def start(
        self, log: Path, environment: Mapping[str, str] | None = None, command: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start the service, or a command, in a new session, and append its log to `log`. `environment` adds variables."""
        with log.open("ab") as stream:
            return subprocess.Popen(
                self.arguments(*command),
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def ready(self) -> bool:
        """Whether the service reports ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self) -> str:
        """The service's metrics. Raises OSError while it does not answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def delivered(self) -> int:
        """Delivered documents since the start, by the service's metrics; 0 while it does not answer."""
        try:
            text = self.metrics()
        except (urllib.error.URLError, OSError):
            return 0
        return int(
            sum(float(value) for value in re.findall(r"^neardup_documents_total\{.*\} (\S+)$", text, re.MULTILINE))
        )


def create_topics(
    bootstrap_servers: str,
    topics: Iterable[str],
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create topics. Raises the client's errors, also for an existing topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(configs or {})}
    admin.create_topics(dict.fromkeys(topics, wanted))
    admin.close()


def fill(bootstrap_servers: str, topic: str, values: Iterable[bytes]) -> int:
    """Produce values in order, and return their number."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, compression_type="lz4", linger_ms=20, acks="all")
    count = 0
    futures = []
    for value in values:
        futures.append(producer.send(topic, value=value))
        count += 1
    producer.flush(timeout=120)
    for future in futures:
        future.get(timeout=0)
    producer.close()
    return count


@dataclass
class Outputs:
    """A run's outputs, as a read-committed consumer has seen them so far."""

    run: Run
    by_position: dict[str, list[tuple[str, bytes | None, tuple[tuple[str, bytes], ...]]]] = field(default_factory=dict)
    records: int = 0

    def __post_init__(self) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=self.run.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=None,
        )
        partitions = [
            TopicPartition(self.run.topic(destination), partition)
            for destination in DESTINATIONS
            for partition in self._consumer.partitions_for_topic(self.run.topic(destination)) or ()
        ]
        self._consumer.assign(partitions)

    def poll(self, timeout_ms: int = 200) -> int:
        """Read on, and return how many records came so far."""
        for records in self._consumer.poll(timeout_ms=timeout_ms, max_records=5_000).values():
            for record in records:
                headers = {key: value for key, value in record.headers if key.startswith("neardup.")}
                position = headers["neardup.position"].decode()
                seen = (record.topic.removeprefix(f"{self.run.name}-"), record.value, tuple(sorted(headers.items())))
                self.by_position.setdefault(position, []).append(seen)
                self.records += 1
        return self.records

    def wait_for(self, count: int, timeout_seconds: float) -> bool:
        """Read until `count` positions arrived, then a little longer, to detect duplicates."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.by_position) < count and time.monotonic() < deadline:
            self.poll()
        for _ in range(5):
            self.poll()
        return len(self.by_position) >= count

    def close(self) -> None:
        """Close the consumer; the outputs stay available."""
        self._consumer.close()


def stop(process: subprocess.Popen[bytes], timeout_seconds: float = 60) -> int:
    """Stop the service as Ctrl-C does, and return its exit code."""
    process.send_signal(signal.SIGINT)
    return process.wait(timeout_seconds)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """kill -9 the supervisor and all its workers at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
