"""Deciding on Flink beside the same operators alone: documents/s, and bytes of state a document.

    python -m bench.flink --documents 200000
    python -m bench.flink --documents 200000 --shards 16 64 256
    python -m bench.flink --documents 200000 --seeded
    python -m bench.flink --documents 200000 --updates
    python -m bench.flink --documents 200000 --alone --schemes minhash --keep 20000
    python -m bench.flink --documents 10000000 --cluster --schemes simhash --keep 1000000

Fingerprints are made up, with planted near-duplicates (`deploy.planted_fingerprints`). Everything is produced first; then the job
is submitted, and the clock runs from its first verdict to its last. With --keep the log is half of what is kept ahead of the
job: one that is behind by more has a larger state. The operators alone run in this process, over a dict, and
their clock is the processor's.

With --seeded an index decides three quarters, its entries seed the job, and the job decides the rest. Then another job decides
the same three quarters again, from the topic. Clock and processors of Flink's processes count from the job's start to the first
checkpoint that has all.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.flink_service import set_options
from deploy.local_flink import LocalFlink, LocalFlinkError
from deploy.local_kafka import LocalKafka
from deploy.planted_fingerprints import (
    PARTITIONS,
    Feeder,
    Verdicts,
    batches_of,
    create_topics,
    decide_here,
    documents_in,
    mismatches,
    planted,
    put_on_hosts,
    sequential,
)
from index import Index
from index.dataflow import KEPT_AT_ONCE, Dataflow, Decided, Floor, Kind, Message
from index.dataflow.rows import Layout, numbered, rows_of
from streamer.fingerprint.scheme import longer_of, parameters_for, retention_of, scheme_for
from streamer.flink.batches import arrival, floor_batch, verdict_batch
from streamer.flink.carried import dataflow_of
from streamer.flink.seed import seed
from streamer.flink.taking_in import taken_in
from streamer.parts.envelope import DOCUMENTS_MAX, stamp_text
from streamer.records.reason import EQUAL_REASONS, recrawl_by
from streamer.settings.settings import load

CARRIED = ["fingerprint.key=public"]
IDS_PLAY_NO_ROLE = "index.recrawl=duplicate"
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
EPOCH_MINUTES = "0.1"
TIMEOUT_SECONDS = 7_200


class State(dict[bytes, bytes]):
    """State of one key, in memory."""

    def put_all(self, contents: dict[bytes, bytes]) -> None:
        self.update(contents)

    def remove_all(self, names: Sequence[bytes]) -> None:
        for name in names:
            self.pop(name, None)


def alone(flow: Dataflow, contents: Sequence[bytes]) -> tuple[dict[str, float], float, int]:
    """Seconds of a processor that each operator takes for all batches, bytes of their state, and documents with hits."""
    order, operators = flow.order(), flow.operators()
    states: dict[tuple[int, int], State] = defaultdict(State)
    seconds, hits = dict.fromkeys((stage.name.lower() for stage in flow.stages), 0.0), list[bytes]()
    floors = list[bytes]()
    for slot, at in enumerate(range(0, len(contents), BATCHES_A_SLOT)):
        waiting: dict[tuple[int, int], list[Message]] = defaultdict(list)

        def take(
            messages: Iterable[Message | Decided | Floor], waiting: dict[tuple[int, int], list[Message]] = waiting
        ) -> None:
            for message in messages:
                if isinstance(message, Decided):
                    verdict_batch(message, "bench")
                elif isinstance(message, Floor):
                    floors.append(floor_batch(message))
                elif (message.stage, message.kind) in KEPT_AT_ONCE:
                    operators[message.stage].keep(states[message.stage, message.key], message)  # type: ignore[attr-defined]
                else:
                    waiting[message.stage, message.key].append(message)
                    hits.extend([message.content] * (message.kind == Kind.HITS))

        begin = time.process_time()
        arriving = [*floors, *contents[at : at + BATCHES_A_SLOT]]
        floors.clear()
        for content in arriving:
            given = arrival(content, 1_000 * (1 + slot), "bench")
            take(order.arrive(states[0, given.source.partition], given))
        seconds["order"] += time.process_time() - begin
        for stage, operator in operators.items():
            begin = time.process_time()
            for key in sorted(key for of, key in waiting if of == stage):
                take(operator.complete(states[stage, key], 0, waiting[stage, key]))
            seconds[stage.name.lower()] += time.process_time() - begin
        if flow.retained is not None and slot % (len(contents) // BATCHES_A_SLOT // 10) == 0:
            size = size_of(states.values())
            print(f"{at * DOCUMENTS_MAX:,} documents: {size:,} bytes of state", flush=True)
    size = size_of(states.values())
    rows = rows_of(hits, Layout.of(flow.parameters, flow.longer, leaves=flow.updates or flow.retained is not None).hit)
    _, hitting = numbered(rows["high"], rows["low"])
    return seconds, size, len(hitting)


def size_of(states: Iterable[State]) -> int:
    """Bytes of states."""
    return sum(len(name) + len(content) for state in states for name, content in state.items())


@contextmanager
def cluster(scheme: str, policy: str = IDS_PLAY_NO_ROLE) -> Iterator[tuple[LocalKafka, LocalFlink, list[str]]]:
    """A broker with both topics, a cluster, and settings of the job."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-flink-") as name,
        LocalKafka(Path(name) / "kafka") as kafka,
        LocalFlink(Path(name) / "flink", settings={"execution.checkpointing.interval": "5 s"}) as flink,
    ):
        create_topics(kafka.bootstrap_servers, "fingerprints", "verdicts")
        chosen = [*SCHEMES[scheme], *CARRIED, policy, f"kafka.bootstrap_servers={kafka.bootstrap_servers}"]
        yield kafka, flink, [*chosen, "topics.fingerprints=fingerprints", "topics.verdicts=verdicts"]


def on_flink(
    scheme: str, policy: str, contents: Sequence[bytes], documents: int, shards: int, keep: int | None = None
) -> None:
    """Print what the job on a real cluster does with all batches, and with `keep` how its checkpoints grow."""
    with (
        cluster(scheme, policy) as (kafka, flink, chosen),
        Feeder(kafka.bootstrap_servers, "fingerprints") as feeder,
        Verdicts(kafka.bootstrap_servers, "verdicts") as verdicts,
    ):
        lead = max(PARTITIONS, keep // 2 // DOCUMENTS_MAX) if keep else len(contents)
        feeder.feed(contents[:lead])
        job_options = ["--shards", str(shards)]
        if keep:
            chosen = [*chosen, f"index.entries_max={keep}"]
            job_options += ["--epoch-minutes", EPOCH_MINUTES]
        job = flink.submit(*set_options(chosen), *job_options)
        watch = Growth(flink, job, verdicts, feeder, contents, lead, documents // 20) if keep else bool
        rate = _rate(verdicts, documents, watch)
        wanted = flink.checkpoints_completed(job) + 2
        flink.wait(lambda: flink.checkpoints_completed(job) >= wanted, "checkpoints", TIMEOUT_SECONDS)
        size = checkpoint_bytes(flink, job)
        settings = load(None, chosen, {})
        parameters = parameters_for(settings, scheme_for(settings).stamp())
        options: dict[str, Any] = {"longer": longer_of(settings.index), "retention": retention_of(settings.index)}
        if settings.index.recrawl == "update":
            options |= {"recrawl": recrawl_by("update"), "equal_reasons": EQUAL_REASONS}
        expected = sequential(kafka.bootstrap_servers, "fingerprints", parameters, **options)
        wrong = mismatches(expected, verdicts.by_batch)
    print(
        f"{scheme} on Flink, {shards} shards: {rate:,.0f} documents/s, {size / (keep or documents):,.0f} bytes of state for "
        f"each document {'kept' if keep else 'decided'}, "
        f"{wrong} wrong of {documents:,}",
        flush=True,
    )


def checkpoint_bytes(flink: LocalFlink, job: str) -> int:
    """Bytes of a job's last checkpoint."""
    return int(flink.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]["state_size"])


@dataclass
class Growth:
    """Feeds batches as verdicts come, `lead` ahead of them, and prints the last checkpoint's bytes every `step` documents.

    Raises where the job failed.
    """

    flink: LocalFlink
    job: str
    verdicts: Verdicts
    feeder: Feeder
    contents: Sequence[bytes]
    lead: int
    step: int
    next: int = 0

    def __post_init__(self) -> None:
        self._fed = self.lead

    def __call__(self) -> None:
        upto = len(self.verdicts.by_batch) + self.lead
        if upto > self._fed:
            self.feeder.feed(self.contents[self._fed : upto])
            self._fed = upto
        if self.verdicts.documents >= self.next and self.flink.checkpoints_completed(self.job):
            _require_sound(self.flink, self.job)
            size = checkpoint_bytes(self.flink, self.job)
            print(f"{self.verdicts.documents:,} documents: {size:,} bytes in a checkpoint", flush=True)
            self.next = self.verdicts.documents + self.step


def seeded(scheme: str, contents: Sequence[bytes]) -> None:
    """Print what it takes to go from an index to a job, and whether the job goes on as the index would."""
    cut = len(contents) * 3 // 4
    with (
        cluster(scheme) as (kafka, flink, chosen),
        tempfile.TemporaryDirectory(prefix="bench-flink-index-") as name,
        Feeder(kafka.bootstrap_servers, "fingerprints") as feeder,
        Verdicts(kafka.bootstrap_servers, "verdicts") as verdicts,
    ):
        settings, directory = load(None, chosen, {}), Path(name)
        parameters = parameters_for(settings, scheme_for(settings).stamp())
        longer = longer_of(settings.index)
        decide_here(parameters, directory, contents[:cut], longer=longer)
        with Index.open(directory, parameters, map_bytes_max=2**36, longer=longer) as index:
            begin = time.perf_counter()
            written = seed(settings, index, lambda _: None)
            writing = time.perf_counter() - begin
        with _taking(flink, f"{scheme} seeded", documents_in(contents[:cut])):
            job = flink.submit(*set_options(chosen), "--seed")
            while not taken_in(settings, written):
                _require_sound(flink, job)
                time.sleep(0.5)
        begin = time.perf_counter()
        savepoint = flink.stop_with_savepoint(job, TIMEOUT_SECONDS)
        flink.submit(*set_options(chosen), since=savepoint, seeded=True)
        going_on = time.perf_counter() - begin
        feeder.feed(contents[cut:])
        verdicts.wait_for(documents_in(contents[cut:]), TIMEOUT_SECONDS)
        expected = sequential(kafka.bootstrap_servers, "fingerprints", parameters, directory, longer=longer)
        wrong = mismatches(expected, verdicts.by_batch)
    print(
        f"{scheme} seeded: {written.entries:,} entries written at {written.entries / writing:,.0f}/s, {going_on:.1f} s from the "
        f"end of all that to the job that goes on, {wrong} wrong of {verdicts.documents:,} behind them",
        flush=True,
    )


def replayed(scheme: str, contents: Sequence[bytes]) -> None:
    """Print what it takes a job to decide the same again, from the topic."""
    cut = len(contents) * 3 // 4
    documents = documents_in(contents[:cut])
    with (
        cluster(scheme) as (kafka, flink, chosen),
        Feeder(kafka.bootstrap_servers, "fingerprints") as feeder,
        Verdicts(kafka.bootstrap_servers, "verdicts") as verdicts,
    ):
        feeder.feed(contents[:cut])
        with _taking(flink, f"{scheme} replayed", documents):
            job = flink.submit(*set_options(chosen))
            verdicts.wait_for(documents, TIMEOUT_SECONDS, lambda: _require_sound(flink, job))
            wanted = flink.checkpoints_completed(job) + 1
            flink.wait(lambda: flink.checkpoints_completed(job) >= wanted, "a checkpoint", TIMEOUT_SECONDS)


@contextmanager
def _taking(flink: LocalFlink, what: str, documents: int) -> Iterator[None]:
    """Print how fast documents are taken in meanwhile."""
    begin, processor = time.perf_counter(), flink.processor_seconds()
    yield
    seconds, taken = time.perf_counter() - begin, flink.processor_seconds() - processor
    print(
        f"{what}: {documents:,} documents at {documents / seconds:,.0f}/s, {documents / taken:,.0f} a processor second of Flink "
        f"({seconds:.0f} s, {taken:.0f} s of processors)",
        flush=True,
    )


def _require_sound(flink: LocalFlink, job: str) -> None:
    """Raise where a task of the job ended: Flink would try again for ever."""
    if why := flink.failures(job):
        raise LocalFlinkError(f"the job fails: {why}")


def _rate(verdicts: Verdicts, documents: int, watch: Callable[[], object]) -> float:
    verdicts.wait_for(1, TIMEOUT_SECONDS)
    begin, first = time.perf_counter(), verdicts.documents
    verdicts.wait_for(documents, TIMEOUT_SECONDS, watch)
    return (documents - first) / (time.perf_counter() - begin)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--schemes", nargs="+", choices=sorted(SCHEMES), default=sorted(SCHEMES, reverse=True))
    parser.add_argument("--shards", type=int, nargs="+", default=[64])
    parser.add_argument(
        "--hosts", action="store_true", help="put most documents on four hosts, whose pages share templates"
    )
    parser.add_argument("--updates", action="store_true", help="a fifth of the documents are pages that came before")
    parser.add_argument(
        "--keep", type=int, help="index.entries_max: how the state of the operators grows, in epochs of a tenth of it"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--alone", action="store_true", help="the operators alone")
    only.add_argument("--cluster", action="store_true", help="the cluster alone")
    only.add_argument("--seeded", action="store_true", help="from an index to a job")
    options = parser.parse_args(arguments)
    if options.updates and options.seeded:
        parser.error("a seed has no older versions of pages: leave out --updates or --seeded")
    policy = "index.recrawl=update" if options.updates else IDS_PLAY_NO_ROLE
    for scheme in options.schemes:
        settings = load(None, [*SCHEMES[scheme], *CARRIED, policy], {})
        sizes = {}
        if options.keep:
            settings = settings.replaced(index={"entries_max": options.keep})
            # A slot is a second of the log here.
            sizes = {"epoch_minutes": max(1, options.keep // 10 // BATCHES_A_SLOT // DOCUMENTS_MAX) / 60}
        parameters = parameters_for(settings, scheme_for(settings).stamp())
        stamp = stamp_text(parameters.fingerprint)
        fingerprints = planted(parameters, options.documents, seed=1)
        hosts = put_on_hosts(fingerprints, seed=3) if options.hosts else None
        contents = list(batches_of(fingerprints, seed=2, stamp=stamp, hosts=hosts, again=options.updates))
        print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors", flush=True)
        if options.seeded:
            seeded(scheme, contents)
            replayed(scheme, contents)
            continue
        for shards in options.shards:
            if not options.cluster:
                seconds, size, hitting = alone(dataflow_of(settings, shards=shards, **sizes), contents)
                each = ", ".join(f"{name} {1e6 * took / options.documents:.0f}" for name, took in seconds.items())
                print(
                    f"{scheme}, operators alone, {shards} shards: {options.documents / sum(seconds.values()):,.0f} documents/s, "
                    f"{size / options.documents:,.0f} bytes of state a document; us a document: {each}; resolve "
                    f"{1e6 * seconds['resolve'] / hitting:.1f} a document that hits ({hitting / options.documents:.0%})",
                    flush=True,
                )
            if not options.alone:
                on_flink(scheme, policy, contents, options.documents, shards, options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
