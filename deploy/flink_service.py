"""A local service with `decide` on Flink: Kafka, three Flink processes, and both other parts."""

from __future__ import annotations

import argparse
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.local_kafka import LocalKafka, LocalKafkaError
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import create_topics

PARTITIONS = 4
CARRIED = ("fingerprint.key=public",)

ENDED = ("FAILED", "FINISHED", "CANCELED", "SUSPENDED")
"""Job states that nothing follows."""

log = logging.getLogger("deploy.flink_service")


@dataclass
class SplitService:
    """A service on one broker whose parts run in separate processes; `decide` may be a Flink job.

    chosen  settings as for `--set`
    """

    directory: Path
    chosen: list[str]
    parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The service's settings."""
        return load(None, self.chosen, {})

    @property
    def options(self) -> list[str]:
        """Settings as command line options."""
        return set_options(self.chosen)

    def command(self, part: str, *words: str) -> list[str]:
        """`streamer` command line with a part's data folder."""
        chosen = [*self.chosen, f"index.directory={self.directory / part}"]
        return [sys.executable, "-m", "streamer", *set_options(chosen), *words]

    def begin(self, *parts: str) -> None:
        """Start parts, each with its data in a folder with its name."""
        for part in parts:
            self._start(part, self.command(part, "run", "--part", part))

    def begin_whole(self) -> None:
        """Start the whole service as one part, "service", with the index of `decide`."""
        self._start("service", self.command("decide", "run"))

    def _start(self, name: str, command: Sequence[str]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{name}.log").open("ab") as output:
            self.parts[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)

    def require_running(self) -> None:
        """Raise LocalFlinkError if a part ended by itself."""
        for part, process in self.parts.items():
            if process.poll() is not None:
                raise LocalFlinkError(f"{part} ended: see {self.directory / part}.log, and start again")

    def end(self, *parts: str) -> None:
        """Stop these parts, or all."""
        ending = [self.parts.pop(part) for part in parts or list(self.parts)]
        for process in ending:
            process.terminate()
        for process in ending:
            process.wait()


@contextmanager
def split_service(directory: Path, bootstrap_servers: str, overrides: Sequence[str] = ()) -> Iterator[SplitService]:
    """Create a service's topics, and stop its parts at the end."""
    chosen = [*CARRIED, *overrides, f"kafka.bootstrap_servers={bootstrap_servers}", "observe.port=0"]
    service = SplitService(directory, chosen)
    create_topics(service.settings, partitions=PARTITIONS, replication_factor=1, parts=True)
    try:
        yield service
    finally:
        service.end()


class Watch:
    """Replaces TaskManagers that died, and logs each change in the job's state."""

    def __init__(self, service: SplitService, flink: LocalFlink, job: str) -> None:
        self._service, self._flink, self._job = service, flink, job
        self._state = ""

    def look(self) -> None:
        """Look once. Raises LocalFlinkError for an end that nothing here mends: of the job, the JobManager or a part."""
        self._service.require_running()
        if not self._flink.job_manager_runs():
            raise LocalFlinkError(f"the JobManager ended: see {self._flink.directory}/jobmanager.out, and start again")
        replaced = self._flink.replace_dead_task_managers()
        if replaced:
            log.warning("%d TaskManager(s) died; started as many", replaced)
        state = self._job_state()
        if state != self._state:
            self._state = state
            log.info("the job: %s", state)

    def _job_state(self) -> str:
        try:
            status = self._flink.get(f"/jobs/{self._job}")
        except OSError:
            return "the JobManager does not answer"
        if status["state"] in ENDED:
            raise LocalFlinkError(f"the job is {status['state']}: {self._flink.get(f'/jobs/{self._job}/exceptions')}")
        running = sum(each["status"] == "RUNNING" for each in status["vertices"])
        return f"{status['state'].lower()}, {running} of {len(status['vertices'])} tasks run"


@contextmanager
def flink_service(
    directory: Path, port: int | None = None, overrides: Sequence[str] = ()
) -> Iterator[tuple[Settings, LocalFlink, Watch]]:
    """Run a service with these settings; yields them, its Flink cluster and its watch. Data stays in the directory."""
    with ExitStack() as stack:
        log.info("starting Kafka ...")
        kafka = stack.enter_context(LocalKafka(directory / "kafka", port))
        service = stack.enter_context(split_service(directory, kafka.bootstrap_servers, overrides))
        log.info("starting Flink: a JobManager and two TaskManagers ...")
        flink = stack.enter_context(LocalFlink(directory / "flink"))
        log.info("submitting the job ...")
        job = flink.submit(*service.options, command=True)
        service.begin("fingerprint", "route")
        yield service.settings, flink, Watch(service, flink, job)


def set_options(chosen: Sequence[str]) -> list[str]:
    """Settings as options of `streamer` and of the job."""
    return [part for each in chosen for part in ("--set", each)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service in the foreground until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".flink"), help="folder for all data")
    parser.add_argument("--port", type=int, default=9092, help="Kafka's port on 127.0.0.1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="one setting; repeatable"
    )
    options = parser.parse_args(arguments)
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with flink_service(options.directory.resolve(), options.port, options.set) as (settings, flink, watch):
            log.info("Flink's page: %s; logs in %s", flink.address, options.directory)
            log.info(
                "try: .venv/bin/streamer topics produce examples/documents.jsonl; the outputs are the topics under [topics]"
            )
            log.info("ready at %s, stop with Ctrl-C", settings.kafka.bootstrap_servers[0])
            while True:
                watch.look()
                time.sleep(1)
    except (LocalKafkaError, LocalFlinkError) as error:
        log.error("%s", error)
        return 1
    except KeyboardInterrupt:
        log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
