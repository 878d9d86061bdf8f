"""Deciding on Flink beside the same operators alone: documents/s, and bytes of state a document.

    python -m bench.flink --documents 200000

Fingerprints are made up, with planted near-duplicates (`deploy.planted_fingerprints`). Everything is produced first; then the job
is submitted, and the clock runs from its first verdict to its last. The operators alone run in this process, over a dict.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.local_flink import LocalFlink
from deploy.local_kafka import LocalKafka
from deploy.planted_fingerprints import Feeder, Verdicts, batches_of, create_topics, mismatches, planted, sequential
from index import Parameters
from index.dataflow import KEPT_AT_ONCE, Dataflow, Decided, Message
from streamer.fingerprint.scheme import parameters_for
from streamer.flink.batches import arrival, verdict_batch
from streamer.settings.settings import load

CARRIED = ["index.recrawl=duplicate", "index.templates=false"]
SCHEMES = {
    "simhash": [
        "fingerprint.scheme=simhash",
        "fingerprint.second_look=none",
        "index.distance_max=3",
        "index.insert=unique",
    ],
    "minhash": ["fingerprint.scheme=minhash", "index.insert=root"],
}
BATCHES_A_SLOT = 20
TIMEOUT_SECONDS = 3_600


class State(dict[bytes, bytes]):
    """State of one key, in memory."""

    def put(self, name: bytes, content: bytes) -> None:
        self[name] = content


def alone(parameters: Parameters, contents: Sequence[bytes]) -> tuple[float, float]:
    """Seconds that the operators take for all batches in this process, and bytes of their state."""
    flow = Dataflow(parameters)
    order, operators = flow.order(), flow.operators()
    states: dict[tuple[int, int], State] = defaultdict(State)
    begin = time.perf_counter()
    for slot, at in enumerate(range(0, len(contents), BATCHES_A_SLOT)):
        waiting: dict[tuple[int, int], list[Message]] = defaultdict(list)

        def take(
            messages: Iterable[Message | Decided], waiting: dict[tuple[int, int], list[Message]] = waiting
        ) -> None:
            for message in messages:
                if isinstance(message, Decided):
                    verdict_batch(message, "bench")
                elif (message.stage, message.kind) in KEPT_AT_ONCE:
                    operators[message.stage].keep(states[message.stage, message.key], message)  # type: ignore[attr-defined]
                else:
                    waiting[message.stage, message.key].append(message)

        for content in contents[at : at + BATCHES_A_SLOT]:
            given = arrival(content, 1_000 * (1 + slot), "bench")
            take(order.arrive(states[0, given.source.partition], given))
        for stage, operator in operators.items():
            for key in sorted(key for of, key in waiting if of == stage):
                take(operator.complete(states[stage, key], 0, waiting[stage, key]))
    seconds = time.perf_counter() - begin
    return seconds, sum(len(name) + len(content) for state in states.values() for name, content in state.items())


def on_flink(scheme: str, parameters: Parameters, contents: Sequence[bytes], documents: int) -> None:
    """Print what the job on a real cluster does with all batches."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-flink-") as name,
        LocalKafka(Path(name) / "kafka") as kafka,
        LocalFlink(Path(name) / "flink", settings={"execution.checkpointing.interval": "5 s"}) as flink,
    ):
        create_topics(kafka.bootstrap_servers, "fingerprints", "verdicts")
        chosen = [*SCHEMES[scheme], *CARRIED, f"kafka.bootstrap_servers={kafka.bootstrap_servers}"]
        chosen += ["topics.fingerprints=fingerprints", "topics.verdicts=verdicts"]
        with (
            Feeder(kafka.bootstrap_servers, "fingerprints") as feeder,
            Verdicts(kafka.bootstrap_servers, "verdicts") as verdicts,
        ):
            feeder.feed(contents)
            job = flink.submit(*(part for each in chosen for part in ("--set", each)))
            verdicts.wait_for(1, TIMEOUT_SECONDS)
            begin, first = time.perf_counter(), verdicts.documents
            verdicts.wait_for(documents, TIMEOUT_SECONDS)
            seconds = time.perf_counter() - begin
            wanted = flink.checkpoints_completed(job) + 2
            flink.wait(lambda: flink.checkpoints_completed(job) >= wanted, "checkpoints", TIMEOUT_SECONDS)
            size = flink.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]["state_size"]
            wrong = mismatches(sequential(kafka.bootstrap_servers, "fingerprints", parameters), verdicts.told)
        rate = (documents - first) / seconds
        print(
            f"{scheme} on Flink: {rate:,.0f} documents/s, {size / documents:,.0f} bytes of state a document, {wrong} wrong"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--schemes", nargs="+", choices=sorted(SCHEMES), default=sorted(SCHEMES, reverse=True))
    parser.add_argument("--alone", action="store_true", help="the operators alone")
    options = parser.parse_args(arguments)
    for scheme in options.schemes:
        parameters = parameters_for(load(None, [*SCHEMES[scheme], *CARRIED], {}), {})
        contents = list(batches_of(planted(parameters, options.documents, seed=1), seed=2))
        print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors", flush=True)
        seconds, size = alone(parameters, contents)
        rate = options.documents / seconds
        print(
            f"{scheme}, operators alone: {rate:,.0f} documents/s, {size / options.documents:,.0f} bytes of state a document"
        )
        if not options.alone:
            on_flink(scheme, parameters, contents, options.documents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
