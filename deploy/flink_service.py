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
CARRIED = ("index.templates=false", "index.recrawl=duplicate", "fingerprint.key=public")

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
        return _set(self.chosen)

    def begin(self, *parts: str) -> None:
        """Start parts, each with its data in a folder with its name."""
        for part in parts:
            (self.directory / part).mkdir(parents=True, exist_ok=True)
            chosen = [*self.chosen, f"index.directory={self.directory / part}"]
            with (self.directory / f"{part}.log").open("ab") as output:
                command = [sys.executable, "-m", "streamer", *_set(chosen), "run", "--part", part]
                self.parts[part] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)

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


@contextmanager
def flink_service(
    directory: Path, port: int | None = None, overrides: Sequence[str] = ()
) -> Iterator[tuple[Settings, LocalFlink]]:
    """Run a service with these settings; yields its settings and its Flink cluster. Data stays in the directory."""
    with ExitStack() as stack:
        log.info("starting Kafka ...")
        kafka = stack.enter_context(LocalKafka(directory / "kafka", port))
        service = stack.enter_context(split_service(directory, kafka.bootstrap_servers, overrides))
        log.info("starting Flink: a JobManager and two TaskManagers ...")
        flink = stack.enter_context(LocalFlink(directory / "flink"))
        log.info("submitting the job ...")
        flink.submit(*service.options, command=True)
        service.begin("fingerprint", "route")
        yield service.settings, flink


def _set(chosen: Sequence[str]) -> list[str]:
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
        with flink_service(options.directory.resolve(), options.port, options.set) as (settings, flink):
            log.info("Flink's page: %s; logs in %s", flink.address, options.directory)
            log.info(
                "try: .venv/bin/streamer produce examples/documents.jsonl; the outputs are the topics under [topics]"
            )
            log.info("ready at %s, stop with Ctrl-C", settings.kafka.bootstrap_servers[0])
            while True:
                time.sleep(1)
    except (LocalKafkaError, LocalFlinkError) as error:
        log.error("%s", error)
        return 1
    except KeyboardInterrupt:
        log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
