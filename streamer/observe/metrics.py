"""Every metric: name, meaning, labels, buckets. The only importer of prometheus_client.

Several worker processes and their supervisor are seen through one port. Each process counts in memory-mapped files of
one directory, under a name that is stable over restarts; whoever is scraped reads all files and adds them up:

    supervisor              worker-0                worker-1
    counter_supervisor.db   counter_worker-0.db     counter_worker-1.db
    gauge_..._.db           gauge_..._.db           gauge_..._.db            -> /metrics of the supervisor
    histogram_....db        histogram_....db        histogram_....db

A restarted worker goes on counting in the files of its predecessor, so counters never fall and files stay few.
Without `prepare` everything is kept in the memory of one process.
"""

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client.metrics import disable_created_metrics
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from streamer.records import reason

STEPS = ("read", "decode", "fingerprint", "decide", "route", "commit")
"""The six verbs a batch walks through: the values of label `step`."""

WORKER_STATES = ("starting", "running", "draining", "stopped")
"""The values of label `state`."""

RESTART_CAUSES = ("transport", "hanging-transaction", "no-progress", "killed", "error")
"""The values of label `cause`: delivery in doubt or broker away; a transaction that a person has to end; silence;
a signal; an error."""

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""What `Metrics.exposition` returns, as HTTP says it."""

# A second series beside every counter, the time of its making: nobody asks for it, and files cannot hold it.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `merge` says which of several processes' values of a gauge is shown."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Literal["mostrecent", "max"] = "mostrecent"


DOCUMENTS = Definition(
    "neardup_documents_total",
    "counter",
    "Records delivered, by verdict and the reason for it. Counted once the delivery is committed.",
    ("verdict", "reason"),
)
REPLAYED = Definition(
    "neardup_replayed_total",
    "counter",
    "Records delivered whose verdict came from the journal: they had been decided before a crash or a rebalance.",
)
BATCHES = Definition("neardup_batches_total", "counter", "Batches delivered and committed.")
BATCH_RECORDS = Definition(
    "neardup_batch_records",
    "histogram",
    "Records in a delivered batch.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000),
)
BATCH_BYTES = Definition(
    "neardup_batch_bytes",
    "histogram",
    "Bytes of record values in a delivered batch.",
    buckets=tuple(4.0**power for power in range(5, 16)),
)
STEP_SECONDS = Definition(
    "neardup_step_seconds",
    "histogram",
    "Seconds that one step took for one delivered batch; waiting for new records is part of read.",
    ("step",),
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
)
CANDIDATES = Definition(
    "neardup_candidates",
    "histogram",
    "Entries of the index whose distance was computed to decide one document.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
)
DISTANCE = Definition(
    "neardup_distance",
    "histogram",
    "With SimHash, Hamming distance, in bits, of one duplicate to its original.",
    buckets=(0, 1, 2, 3, 4, 5, 6, 7),
)
SIMILARITY = Definition(
    "neardup_similarity",
    "histogram",
    "With MinHash, or a second look at metadata, similarity of one duplicate to its original.",
    buckets=(0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1),
)
LAG_RECORDS = Definition(
    "neardup_lag_records",
    "gauge",
    "Offsets of a partition that lie unread, as last seen by the worker that owns the partition.",
    ("topic", "partition"),
)
INDEX_ENTRIES = Definition("neardup_index_entries", "gauge", "Documents that the index compares with.")
INDEX_BYTES = Definition("neardup_index_bytes", "gauge", "Bytes of the index that are in use.")
INDEX_BYTES_MAX = Definition("neardup_index_bytes_max", "gauge", "Bytes beyond which the index never grows.")
OFFSETS_SKIPPED = Definition(
    "neardup_offsets_skipped_total",
    "counter",
    "Offsets that were never read because they were gone from the broker, and a setting allowed going on.",
    ("topic", "partition"),
)
RESTORED = Definition(
    "neardup_restored_total", "counter", "Documents fed back into the index from the unique topic, without output."
)
WORKER_RESTARTS = Definition(
    "neardup_worker_restarts_total", "counter", "Workers started anew, by what made them end.", ("cause",)
)
WORKERS = Definition("neardup_workers", "gauge", "Worker processes by state.", ("state",))
LAST_DELIVERY = Definition(
    "neardup_last_delivery_timestamp_seconds",
    "gauge",
    "When a batch was last delivered, in seconds since 1970; 0 before the first.",
    merge="max",
)
BUILD_INFO = Definition("neardup_build_info", "gauge", "Always 1; the labels tell what runs.", ("version", "python"))

DEFINITIONS = (
    DOCUMENTS,
    REPLAYED,
    BATCHES,
    BATCH_RECORDS,
    BATCH_BYTES,
    STEP_SECONDS,
    CANDIDATES,
    DISTANCE,
    SIMILARITY,
    LAG_RECORDS,
    INDEX_ENTRIES,
    INDEX_BYTES,
    INDEX_BYTES_MAX,
    OFFSETS_SKIPPED,
    RESTORED,
    WORKER_RESTARTS,
    WORKERS,
    LAST_DELIVERY,
    BUILD_INFO,
)


_directory: Path | None = None


def prepare(directory: Path, worker: int | None) -> None:
    """Let this process count in files of `directory`: to be called once, before the first `Metrics()` is made in it.

    The supervisor (`worker` None) comes first and removes what an earlier service left there. No two processes that
    live at the same time may have the same worker number.
    """
    global _directory
    name = "supervisor" if worker is None else f"worker-{worker}"
    if worker is None:
        directory.mkdir(parents=True, exist_ok=True)
        for file in directory.glob("*.db"):
            file.unlink()
    _directory = directory
    # The library looks for both of these whenever it makes a value; when it was imported does not matter then.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: name)  # type: ignore[no-untyped-call]


def release() -> None:
    """Undo `prepare`: close the files, which stay as they are, and count in memory from the next `Metrics()` on."""
    global _directory
    if _directory is not None:
        values.ValueClass.close_all_files()
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        values.ValueClass = values.MutexValue
        _directory = None


def restart_cause(exit_code: int) -> str:
    """The one of `RESTART_CAUSES` that a worker's exit code stands for (negative: the signal that ended it)."""
    if exit_code < 0:
        return "killed"
    return {os.EX_TEMPFAIL: "transport", os.EX_PROTOCOL: "hanging-transaction"}.get(exit_code, "error")


def observe_many(histogram: Histogram, observed: npt.NDArray[Any]) -> None:
    """Count every value of an array of finite numbers as `histogram.observe` would, in one pass over the array."""
    bounds = histogram._upper_bounds
    # A value belongs to the first bucket whose upper bound it does not exceed; the last bound is infinity.
    counts = np.bincount(np.searchsorted(bounds, observed, side="left"), minlength=len(bounds))
    for bucket, count in zip(histogram._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)
    histogram._sum.inc(float(observed.sum()))


def reference() -> str:
    """The text of docs/metrics.md: every metric with its type, labels and meaning."""
    fixed = {"step": STEPS, "state": WORKER_STATES, "cause": RESTART_CAUSES}
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for definition in DEFINITIONS:
        labels = ", ".join(f"`{label}`" for label in definition.labels)
        lines.append(f"| `{definition.name}` | {definition.kind} | {labels} | {definition.meaning} |")
    lines += ["", "## Values of labels", "", "| label | values |", "|---|---|"]
    lines += [f"| `{label}` | {', '.join(f'`{value}`' for value in known)} |" for label, known in fixed.items()]
    lines += ["", "Verdicts and their reasons:", "", "| `verdict` | `reason` |", "|---|---|"]
    lines += [f"| `{verdict}` | `{why}` |" for verdict, why in reason.labels()]
    lines += ["", "## Buckets of histograms", "", "| name | upper bounds, infinity besides |", "|---|---|"]
    bounds = {each.name: ", ".join(f"{bound:,g}" for bound in each.buckets) for each in DEFINITIONS if each.buckets}
    lines += [f"| `{name}` | {shown} |" for name, shown in bounds.items()]
    return "\n".join([_PREAMBLE, *lines, ""])


_PREAMBLE = """# Metrics

Served at `/metrics`, for all processes of the service together. Written by `streamer.observe.metrics.reference`;
a test holds this page equal to it.

A batch is counted after its delivery was committed: a process that is killed between the two leaves that one batch
uncounted, and a batch that is read again after a crash is counted once. Counters start at zero with the service and
survive the restart of a worker. Every combination of `verdict` and `reason`, every `step` and every `cause` is there
from the start, with the value 0.
"""


class _Files(Collector):
    """What all processes wrote into the directory, added up at every scrape."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A file that a process has just made is empty for a moment, and the library cannot read an empty one.
        files = [str(file) for file in sorted(self._directory.glob("*.db")) if file.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


class Metrics:
    """All metrics of this process, and the view of all processes that share its directory."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # With a directory, what is shown comes from its files alone.
        self._in_memory = self._registry if _directory is None else None
        if _directory is not None:
            self._registry.register(_Files(_directory))
        self._documents = self._counter(DOCUMENTS)
        self._replayed = self._counter(REPLAYED)
        self._batches = self._counter(BATCHES)
        self._batch_records = self._histogram(BATCH_RECORDS)
        self._batch_bytes = self._histogram(BATCH_BYTES)
        self._step_seconds = self._histogram(STEP_SECONDS)
        self._candidates = self._histogram(CANDIDATES)
        self._distance = self._histogram(DISTANCE)
        self._similarity = self._histogram(SIMILARITY)
        self._lag_records = self._gauge(LAG_RECORDS)
        self._index_entries = self._gauge(INDEX_ENTRIES)
        self._index_bytes = self._gauge(INDEX_BYTES)
        self._index_bytes_max = self._gauge(INDEX_BYTES_MAX)
        self._offsets_skipped = self._counter(OFFSETS_SKIPPED)
        self._restored = self._counter(RESTORED)
        self._worker_restarts = self._counter(WORKER_RESTARTS)
        self._workers = self._gauge(WORKERS)
        self._last_delivery = self._gauge(LAST_DELIVERY)
        self._lags_shown: set[tuple[str, int]] = set()
        self._start_at_zero()

    def observe_batch(
        self,
        *,
        records: int,
        value_bytes: int,
        step_seconds: Mapping[str, float],
        outcomes: Mapping[tuple[str, str], int],
        distances: npt.NDArray[np.int16],
        similarities: npt.NDArray[np.float64],
        candidates: npt.NDArray[np.int64],
        replayed: int,
    ) -> None:
        """Count one batch, right after its delivery was committed.

        records       records in the batch
        value_bytes   bytes of their values
        step_seconds  per step of `STEPS` the seconds it took
        outcomes      per (verdict, reason), as labels, the records that got it
        distances     int16 [any], of duplicates to their originals; negative ones (NO_DISTANCE) are left out
        similarities  float64 [any], the same where verdicts tell these
        candidates    int64 [any], per document decided now the entries it was compared with
        replayed      records whose verdict came from the journal
        """
        for (verdict, why), count in outcomes.items():
            self._documents.labels(verdict, why).inc(count)
        for step, seconds in step_seconds.items():
            self._step_seconds.labels(step).observe(seconds)
        self._replayed.inc(replayed)
        self._batches.inc()
        self._batch_records.observe(records)
        self._batch_bytes.observe(value_bytes)
        observe_many(self._distance, distances[distances >= 0])
        observe_many(self._similarity, similarities)
        observe_many(self._candidates, candidates)
        self._last_delivery.set(time.time())

    def observe_lags(self, lags: Mapping[tuple[str, int], int]) -> None:
        """Show the lag per (topic, partition) of all partitions that are this process's now.

        A partition that is missing but was there before is no longer shown, unless another process shows it.
        """
        for topic, partition in self._lags_shown - lags.keys():
            self._withdraw(self._lag_records, topic, partition)
        for (topic, partition), lag in lags.items():
            self._lag_records.labels(topic, partition).set(lag)
            # There at zero from the start: an increase from nothing to five is none to Prometheus.
            self._offsets_skipped.labels(topic, partition)
        self._lags_shown = set(lags)

    def observe_index(self, entries: int, bytes_used: int) -> None:
        """Show the size of the index: documents compared with, and bytes in use."""
        self._index_entries.set(entries)
        self._index_bytes.set(bytes_used)

    def index_limit(self, bytes_max: int) -> None:
        """Show the bytes beyond which the index never grows; told once, at start."""
        self._index_bytes_max.set(bytes_max)

    def skipped(self, topic: str, partition: int, count: int) -> None:
        """Count offsets that will never be read."""
        self._offsets_skipped.labels(topic, partition).inc(count)

    def restored(self, count: int) -> None:
        """Count documents fed back into the index from the unique topic."""
        self._restored.inc(count)

    def worker_restarted(self, cause: str) -> None:
        """Count the restart of a worker; `cause` is one of `RESTART_CAUSES`."""
        self._worker_restarts.labels(cause).inc()

    def workers(self, states: Mapping[str, int]) -> None:
        """Show how many workers are in each of `WORKER_STATES`; a state that is missing has none."""
        for state in WORKER_STATES:
            self._workers.labels(state).set(states.get(state, 0))

    def exposition(self) -> bytes:
        """All metrics of all processes of the directory, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _start_at_zero(self) -> None:
        for verdict, why in reason.labels():
            self._documents.labels(verdict, why)
        for step in STEPS:
            self._step_seconds.labels(step)
        for cause in RESTART_CAUSES:
            self._worker_restarts.labels(cause)
        self._gauge(BUILD_INFO).labels(importlib.metadata.version("neardup-streamer"), platform.python_version()).set(1)

    def _withdraw(self, gauge: Gauge, *labels: object) -> None:
        if self._in_memory is not None:
            gauge.remove(*labels)
        else:
            # Files keep every series for ever; the most recent value is shown, and one from 1970 never is.
            gauge.labels(*labels)._value.set(0.0, timestamp=0.0)

    def _counter(self, definition: Definition) -> Counter:
        return Counter(definition.name, definition.meaning, definition.labels, registry=self._in_memory)

    def _gauge(self, definition: Definition) -> Gauge:
        name, meaning, labels, merge = definition.name, definition.meaning, definition.labels, definition.merge
        return Gauge(name, meaning, labels, registry=self._in_memory, multiprocess_mode=merge)

    def _histogram(self, definition: Definition) -> Histogram:
        name, meaning, labels, buckets = definition.name, definition.meaning, definition.labels, definition.buckets
        return Histogram(name, meaning, labels, registry=self._in_memory, buckets=buckets)
