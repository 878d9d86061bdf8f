"""A whole service with `decide` on Flink, on this machine: Kafka, a cluster of three processes, and both other parts."""

from __future__ import annotations

import argparse
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.local_kafka import LocalKafka, LocalKafkaError
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import create_topics

PARTITIONS = 4
PARTS = ("fingerprint", "route")
CARRIED = ("index.templates=false", "index.recrawl=duplicate")

log = logging.getLogger("deploy.flink_service")


@contextmanager
def flink_service(
    directory: Path, port: int | None = None, overrides: Sequence[str] = ()
) -> Iterator[tuple[Settings, LocalFlink]]:
    """Settings of a running service, with these too, and the cluster that decides for it. Data stays in the directory."""
    with ExitStack() as stack:
        log.info("starting Kafka ...")
        kafka = stack.enter_context(LocalKafka(directory / "kafka", port))
        chosen = [*CARRIED, *overrides, f"kafka.bootstrap_servers={kafka.bootstrap_servers}", "observe.port=0"]
        settings = load(None, chosen, {})
        create_topics(settings, partitions=PARTITIONS, replication_factor=1, parts=True)
        log.info("starting Flink: a JobManager and two TaskManagers ...")
        flink = stack.enter_context(LocalFlink(directory / "flink"))
        log.info("submitting the job ...")
        flink.submit(*_set(chosen))
        for part in PARTS:
            own = [*chosen, f"index.directory={directory / part}"]
            (directory / part).mkdir(parents=True, exist_ok=True)
            with (directory / f"{part}.log").open("ab") as output:
                command = [sys.executable, "-m", "streamer", *_set(own), "run", "--part", part]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
            stack.callback(_end, process)
        yield settings, flink


def _set(chosen: Sequence[str]) -> list[str]:
    return [part for each in chosen for part in ("--set", each)]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service in the foreground until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".flink"), help="where everything keeps its data")
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
