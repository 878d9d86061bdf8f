"""Every metric: name, meaning, labels, buckets. The only importer of prometheus_client.

One port shows the metrics of the supervisor and of all worker processes. Each process counts in memory-mapped files of
one directory, under a name that restarts do not change. The process that is scraped reads all files and adds them up:

    supervisor              worker-0                worker-1
    counter_supervisor.db   counter_worker-0.db     counter_worker-1.db
    gauge_..._.db           gauge_..._.db           gauge_..._.db            -> /metrics of the supervisor
    histogram_....db        histogram_....db        histogram_....db

A restarted worker goes on counting in the files of its predecessor, so counters never fall and files stay few.
Without `prepare` a process counts in its own memory.
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
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from streamer.errors import NoRoomForMetrics
from streamer.records import reason

STEPS = ("read", "decode", "fingerprint", "decide", "route", "commit")
"""Values of label `step`: the six verbs, in order."""

WORKER_STATES = ("starting", "restoring", "running", "draining", "stopped")
"""Values of label `state`."""

RESTART_CAUSES = ("transport", "hanging-transaction", "no-progress", "killed", "error")
"""Values of label `cause`, in this order: delivery in doubt or broker away; a transaction that a person has to end;
silence; a signal; an error."""

FILE_BYTES = 2**18
"""Room for the series of one process and one type: for some 1,000 partitions. Its file grows when there are more."""

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""Content type of `Metrics.exposition`."""

# The library would add a series with the time of creation to every counter: nobody asks for it, files cannot hold it.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `merge` says which process's value of a gauge is shown where several have one.

    livemostrecent  the newest, of the processes that live; see `forget_gauges`
    max             the largest, of all that ever lived
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Literal["livemostrecent", "max"] = "livemostrecent"


DOCUMENTS = Definition(
    "neardup_documents_total",
    "counter",
    "Records delivered, by verdict and reason. Counted after the delivery is committed.",
    ("verdict", "reason"),
)
REPLAYED = Definition(
    "neardup_replayed_total",
    "counter",
    "Records delivered with a verdict from the journal: they were decided before a crash or a rebalance.",
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
    "Seconds of one step of one delivered batch. The step read includes the wait for new records.",
    ("step",),
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
)
CANDIDATES = Definition(
    "neardup_candidates",
    "histogram",
    "Entries of the index that one document was compared with.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
)
DISTANCE = Definition(
    "neardup_distance",
    "histogram",
    "Hamming distance of one duplicate to its original, in bits. SimHash only.",
    buckets=(0, 1, 2, 3, 4, 5, 6, 7),
)
SIMILARITY = Definition(
    "neardup_similarity",
    "histogram",
    "Similarity of one duplicate to its original. MinHash, or a second look at metadata.",
    buckets=(0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1),
)
LAG_RECORDS = Definition(
    "neardup_lag_records",
    "gauge",
    "Unread offsets of a partition, as last seen by the worker that owns the partition.",
    ("topic", "partition"),
)
PARTITIONS_UNOWNED = Definition(
    "neardup_partitions_unowned",
    "gauge",
    "Partitions of the input that no worker of the group reads, as last seen by any worker. Always 0 in health.",
)
INDEX_ENTRIES = Definition("neardup_index_entries", "gauge", "Documents that the index compares with.")
INDEX_BYTES = Definition("neardup_index_bytes", "gauge", "Bytes that the index uses.")
INDEX_BYTES_MAX = Definition("neardup_index_bytes_max", "gauge", "Bytes that the index never exceeds.")
OFFSETS_SKIPPED = Definition(
    "neardup_offsets_skipped_total",
    "counter",
    "Offsets that a setting allowed to skip: the broker deleted them before they were read, or they are damaged.",
    ("topic", "partition"),
)
RESTORED = Definition(
    "neardup_restored_total",
    "counter",
    "Documents that entered the index again from the output topics. Nothing is delivered for them.",
)
RESTORING_OFFSETS = Definition(
    "neardup_restoring_offsets",
    "gauge",
    "Offsets of the input by which the index is behind and is being restored; 0 when it is whole.",
)
RESTORE_GAPS = Definition(
    "neardup_restore_gaps_total",
    "counter",
    "Partitions of output topics that had lost records the index may have needed, where a setting allowed to go on.",
)
WORKER_RESTARTS = Definition(
    "neardup_worker_restarts_total", "counter", "Restarts of workers, by the cause of their end.", ("cause",)
)
WORKERS = Definition("neardup_workers", "gauge", "Worker processes by state.", ("state",))
LAST_DELIVERY = Definition(
    "neardup_last_delivery_timestamp_seconds",
    "gauge",
    "Time of the last delivery of a batch, in seconds since 1970; 0 before the first.",
    merge="max",
)
BROKER_CONTACT = Definition(
    "neardup_broker_contact_timestamp_seconds",
    "gauge",
    "Time of the last answer that a worker had from the brokers, in seconds since 1970; before the first, the service's start.",
    ("worker",),
)
BATCH_AGE = Definition(
    "neardup_batch_age_seconds",
    "gauge",
    "Seconds that the batch under way in a worker has taken since it was read; 0 where none is.",
    ("worker",),
)
BUILD_INFO = Definition(
    "neardup_build_info",
    "gauge",
    "Always 1; the labels tell the version of the filter and of Python.",
    ("version", "python"),
)

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
    PARTITIONS_UNOWNED,
    INDEX_ENTRIES,
    INDEX_BYTES,
    INDEX_BYTES_MAX,
    OFFSETS_SKIPPED,
    RESTORED,
    RESTORING_OFFSETS,
    RESTORE_GAPS,
    WORKER_RESTARTS,
    WORKERS,
    LAST_DELIVERY,
    BROKER_CONTACT,
    BATCH_AGE,
    BUILD_INFO,
)


_directory: Path | None = None


def prepare(directory: Path, worker: int | None) -> None:
    """Let this process count in files of `directory`. Call once, before the process makes its first `Metrics()`.

    The supervisor (`worker` None) calls first, and removes the files of an earlier service. Two processes that live at
    the same time must not have the same worker number. Raises NoRoomForMetrics: the files are mapped, and a page for
    which the disk has no room would kill the process (SIGBUS).
    """
    global _directory
    name = _name_of(worker)
    try:
        if worker is None:
            directory.mkdir(parents=True, exist_ok=True)
            for file in directory.glob("*.db"):
                file.unlink()
        for prefix in sorted({_prefix_of(definition) for definition in DEFINITIONS}):
            with (directory / f"{prefix}_{name}.db").open("ab") as opened:
                os.posix_fallocate(opened.fileno(), 0, FILE_BYTES)
    except OSError as error:
        raise NoRoomForMetrics(
            f"the processes count their metrics in {directory.parent}, which cannot be used: {error.strerror}: make room "
            "there, or name another folder in TMPDIR"
        ) from error
    _directory = directory
    # The library looks at both whenever it makes a value, so it does not matter when it was imported.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: name)  # type: ignore[no-untyped-call]


def forget_gauges(worker: int) -> None:
    """Show no longer what a worker that has ended saw last: nobody knows whether it is still so. Its counts stay."""
    if _directory is not None:
        mark_process_dead(_name_of(worker), str(_directory))  # type: ignore[no-untyped-call]


def _prefix_of(definition: Definition) -> str:
    """First part of the name that the library gives to the file of a metric."""
    return f"gauge_{definition.merge}" if definition.kind == "gauge" else definition.kind


def _name_of(worker: int | None) -> str:
    return "supervisor" if worker is None else f"worker-{worker}"


def release() -> None:
    """Undo `prepare`: close the files, which stay, and count in memory from the next `Metrics()` on."""
    global _directory
    if _directory is not None:
        values.ValueClass.close_all_files()
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        values.ValueClass = values.MutexValue
        _directory = None


def restart_cause(exit_code: int) -> str:
    """Cause, one of `RESTART_CAUSES`, for a worker's exit code (negative: the signal that ended it)."""
    if exit_code < 0:
        return "killed"
    return {os.EX_TEMPFAIL: "transport", os.EX_PROTOCOL: "hanging-transaction"}.get(exit_code, "error")


def observe_many(histogram: Histogram, observed: npt.NDArray[Any]) -> None:
    """Count every value of an array of finite numbers, as `histogram.observe` would, in one pass."""
    bounds = histogram._upper_bounds
    # A value belongs to the first bucket whose upper bound it does not exceed; the last bound is infinity.
    counts = np.bincount(np.searchsorted(bounds, observed, side="left"), minlength=len(bounds))
    for bucket, count in zip(histogram._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)
    histogram._sum.inc(float(observed.sum()))


def reference() -> str:
    """Text of docs/metrics.md: every metric with its type, labels and meaning."""
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

The service serves them at `/metrics`, for all its processes together. `streamer.observe.metrics.reference` writes this
page; a test holds the two equal.

A batch is counted after its delivery is committed. A process killed between the two leaves that one batch uncounted; a
batch that is read again after a crash is counted once. Counters start at zero with the service and survive the restart
of a worker. Every combination of `verdict` and `reason`, every `step` and every `cause` is there from the start, with
the value 0.
"""


class _Files(Collector):
    """Files of all processes in the directory, added up at every scrape."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A new file is empty for a moment, and the library cannot read an empty file.
        files = [str(file) for file in sorted(self._directory.glob("*.db")) if not _is_empty(file)]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except FileNotFoundError:
        # Gauges of a worker that has just ended; the library, too, passes over such a file.
        return True


class Metrics:
    """All metrics of this process, and the view of all processes that share its directory."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # With a directory, `exposition` shows its files alone.
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
        self._partitions_unowned = self._gauge(PARTITIONS_UNOWNED)
        self._index_entries = self._gauge(INDEX_ENTRIES)
        self._index_bytes = self._gauge(INDEX_BYTES)
        self._index_bytes_max = self._gauge(INDEX_BYTES_MAX)
        self._offsets_skipped = self._counter(OFFSETS_SKIPPED)
        self._restored = self._counter(RESTORED)
        self._restoring_offsets = self._gauge(RESTORING_OFFSETS)
        self._restore_gaps = self._counter(RESTORE_GAPS)
        self._worker_restarts = self._counter(WORKER_RESTARTS)
        self._workers = self._gauge(WORKERS)
        self._last_delivery = self._gauge(LAST_DELIVERY)
        self._broker_contact = self._gauge(BROKER_CONTACT)
        self._batch_age = self._gauge(BATCH_AGE)
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
        """Count one batch, right after its delivery is committed.

        records       records in the batch
        value_bytes   bytes of their values
        step_seconds  seconds per step of `STEPS`
        outcomes      records per (verdict, reason), as labels
        distances     int16 [any], of duplicates to their originals; negative ones (NO_DISTANCE) are left out
        similarities  float64 [any], of duplicates to their originals, where the index measures similarity
        candidates    int64 [any], entries compared with, per document decided now
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
        """Show the lag per (topic, partition) of all partitions that this process owns now.

        A partition missing now is no longer shown, unless another process shows it.
        """
        for topic, partition in self._lags_shown - lags.keys():
            self._withdraw(self._lag_records, topic, partition)
        for (topic, partition), lag in lags.items():
            self._lag_records.labels(topic, partition).set(lag)
            # Shown at zero from the start: to Prometheus, a series that begins at five has not increased.
            self._offsets_skipped.labels(topic, partition)
        self._lags_shown = set(lags)

    def observe_unowned(self, count: int) -> None:
        """Show how many partitions of the input nobody reads."""
        self._partitions_unowned.set(count)

    def observe_index(self, entries: int, bytes_used: int) -> None:
        """Show the size of the index: documents that it compares with, and bytes in use."""
        self._index_entries.set(entries)
        self._index_bytes.set(bytes_used)

    def index_limit(self, bytes_max: int) -> None:
        """Show the bytes that the index never exceeds; called once, at start."""
        self._index_bytes_max.set(bytes_max)

    def skipped(self, topic: str, partition: int, count: int) -> None:
        """Count offsets that will never be read."""
        self._offsets_skipped.labels(topic, partition).inc(count)

    def restored(self, count: int) -> None:
        """Count documents that entered the index again, from the outputs."""
        self._restored.inc(count)

    def restoring_offsets(self, count: int) -> None:
        """Show by how many offsets of the input the index is behind while it is restored; 0 at the end."""
        self._restoring_offsets.set(count)

    def restore_gaps(self, count: int) -> None:
        """Count parts of outputs that had lost records when the index was restored from them."""
        self._restore_gaps.inc(count)

    def worker_restarted(self, cause: str) -> None:
        """Count the restart of a worker; `cause` is one of `RESTART_CAUSES`."""
        self._worker_restarts.labels(cause).inc()

    def workers(self, states: Mapping[str, int]) -> None:
        """Show how many workers are in each of `WORKER_STATES`; a missing state has none."""
        for state in WORKER_STATES:
            self._workers.labels(state).set(states.get(state, 0))

    def worker_seen(self, worker: int, *, contact_seconds: float, batch_age_seconds: float) -> None:
        """Show when a worker last had an answer from the brokers, in seconds since 1970, and the age of its batch, 0 for none."""
        self._broker_contact.labels(worker).set(contact_seconds)
        self._batch_age.labels(worker).set(batch_age_seconds)

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
            # Files keep every series for ever. The most recent value is shown, and a value from 1970 never is.
            gauge.labels(*labels)._value.set(0.0, timestamp=0.0)

    def _counter(self, definition: Definition) -> Counter:
        return Counter(definition.name, definition.meaning, definition.labels, registry=self._in_memory)

    def _gauge(self, definition: Definition) -> Gauge:
        name, meaning, labels, merge = definition.name, definition.meaning, definition.labels, definition.merge
        return Gauge(name, meaning, labels, registry=self._in_memory, multiprocess_mode=merge)

    def _histogram(self, definition: Definition) -> Histogram:
        name, meaning, labels, buckets = definition.name, definition.meaning, definition.labels, definition.buckets
        return Histogram(name, meaning, labels, registry=self._in_memory, buckets=buckets)
