"""Counts and exposes every metric of `definitions`. The only importer of prometheus_client.

One port exposes supervisor and worker metrics. Each process counts in memory-mapped files, under a name
that survives restarts. The scraped process adds up all files:

    supervisor              worker-0                worker-1
    counter_supervisor.db   counter_worker-0.db     counter_worker-1.db
    gauge_..._.db           gauge_..._.db           gauge_..._.db            -> /metrics of the supervisor
    histogram_....db        histogram_....db        histogram_....db

A restarted worker continues in its predecessor's files, so counters never fall and files stay few. Without `prepare`, a
process counts in memory.
"""

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from index import WatchedHosts
from streamer.observe.definitions import (
    BATCH_AGE,
    BATCH_BYTES,
    BATCH_RECORDS,
    BATCHES,
    BROKER_CONTACT,
    BUILD_INFO,
    CANDIDATES,
    DEFINITIONS,
    DISTANCE,
    DOCUMENTS,
    HOST_BEYOND,
    HOST_DOCUMENTS,
    HOST_SHARE,
    HOSTS_BEYOND,
    INDEX_BYTES,
    INDEX_BYTES_MAX,
    INDEX_ENTRIES,
    LAG_RECORDS,
    LAST_DELIVERY,
    OFFSETS_SKIPPED,
    PARTITIONS_UNOWNED,
    REPLAYED,
    RESTORE_GAPS,
    RESTORED,
    RESTORING_OFFSETS,
    SHADOW,
    SIMILARITY,
    STEP_SECONDS,
    UNEQUAL_DUPLICATES,
    WAITING_RECORDS,
    WITHOUT_HOST,
    WORKER_RESTARTS,
    WORKERS,
    Definition,
)
from streamer.observe.metrics_folder import MetricsFolder
from streamer.records import reason

STEPS = ("read", "decode", "fingerprint", "decide", "route", "commit")
"""Values of label `step`: the six verbs, in order."""

WORKER_STATES = ("starting", "restoring", "running", "draining", "stopped")
"""Values of label `state`."""

RESTART_CAUSES = ("transport", "hanging-transaction", "no-progress", "killed", "error")
"""Values of label `cause`: delivery in doubt or broker away; a transaction that a person must end; a stalled worker; a
signal; an error."""

HOSTS_SHOWN = 10
"""Maximum hosts in metrics, since each adds a series."""

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""Content type of `Metrics.exposition`."""

# The files cannot hold the library's additional creation time series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _Name(str):
    """A process's name in its file names. Objects are never equal, and the library reopens files for an unequal name."""

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = str.__hash__


_directory: Path | None = None
_folder: MetricsFolder | None = None
_name = _Name("")


def prepare(directory: Path, worker: int | None) -> None:
    """Count in files of `directory` from now on. Call once, before the first `Metrics()`.

    The supervisor (`worker` None) calls first, and removes an earlier service's files. Live workers must have
    different numbers. Raises NoRoomForMetrics.
    """
    global _directory, _folder, _name
    _name = _Name(_name_of(worker))
    if worker is None:
        for file in directory.glob("*.db"):
            file.unlink()
    prefixes = sorted({_prefix_of(definition) for definition in DEFINITIONS})
    _folder = MetricsFolder(directory, [f"{prefix}_{_name}.db" for prefix in prefixes])
    _directory = directory
    # The library reads both for each new value, so import order does not matter.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: _name)  # type: ignore[no-untyped-call]


def restore_files() -> bool:
    """Restore this process's removed files with all counts; True if any was missing. Raises NoRoomForMetrics.

    Call it often, from the counting thread: until then, scrapes miss these counts.
    """
    global _name
    if _folder is None or not _folder.restore():
        return False
    _name = _Name(_name)
    return True


def forget_gauges(worker: int) -> None:
    """Drop an ended worker's gauges, since they may be out of date. Its counts stay."""
    if _directory is not None:
        mark_process_dead(_name_of(worker), str(_directory))  # type: ignore[no-untyped-call]


def _prefix_of(definition: Definition) -> str:
    """Prefix that the library gives to a metric's file name."""
    return f"gauge_{definition.merge}" if definition.kind == "gauge" else definition.kind


def _name_of(worker: int | None) -> str:
    return "supervisor" if worker is None else f"worker-{worker}"


def release() -> None:
    """Undo `prepare`: close the files, and count in memory from the next `Metrics()` on."""
    global _directory, _folder
    if _folder is not None:
        _folder.close()
        values.ValueClass.close_all_files()
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        values.ValueClass = values.MutexValue
        _directory = _folder = None


def restart_cause(exit_code: int) -> str:
    """Restart cause, one of `RESTART_CAUSES`, from the worker's exit code (negative: a signal).

    >>> restart_cause(-9)
    'killed'
    """
    if exit_code < 0:
        return "killed"
    return {os.EX_TEMPFAIL: "transport", os.EX_PROTOCOL: "hanging-transaction"}.get(exit_code, "error")


def observe_many(histogram: Histogram, observed: npt.NDArray[Any]) -> None:
    """Observe every finite number in an array in one pass."""
    bounds = histogram._upper_bounds
    # A bucket includes its upper bound; the last bound is infinity.
    counts = np.bincount(np.searchsorted(bounds, observed, side="left"), minlength=len(bounds))
    for bucket, count in zip(histogram._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)
    histogram._sum.inc(float(observed.sum()))


def reference() -> str:
    """Text of docs/metrics.md."""
    fixed = {"step": STEPS, "state": WORKER_STATES, "cause": RESTART_CAUSES}
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for definition in DEFINITIONS:
        labels = ", ".join(f"`{label}`" for label in definition.labels)
        lines.append(f"| `{definition.name}` | {definition.kind} | {labels} | {definition.meaning} |")
    lines += ["", "## Values of labels", "", "| label | values |", "|---|---|"]
    lines += [f"| `{label}` | {', '.join(f'`{value}`' for value in texts)} |" for label, texts in fixed.items()]
    lines += ["", "Verdicts and their reasons:", "", "| `verdict` | `reason` |", "|---|---|"]
    lines += [f"| `{verdict}` | `{why}` |" for verdict, why in reason.labels()]
    lines += ["", "## Buckets of histograms", "", "| name | upper bounds; the last one is infinity |", "|---|---|"]
    bounds = {each.name: ", ".join(f"{bound:,g}" for bound in each.buckets) for each in DEFINITIONS if each.buckets}
    lines += [f"| `{name}` | {shown} |" for name, shown in bounds.items()]
    return "\n".join([_PREAMBLE, *lines, ""])


_PREAMBLE = """# Metrics

The service exposes these metrics at `/metrics`, for all its processes together. `streamer.observe.metrics.reference`
writes this page, and a test compares the two.

The service counts a batch after its commit. A process killed between the two leaves that batch uncounted; a batch that is
read again after a crash counts once. Counters start at zero with the service and survive worker restarts. Every pair of
`verdict` and `reason`, every `step` and every `cause` starts with the value 0.
"""


class _Files(Collector):
    """Sums up all processes' files at every scrape."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A new file is empty for a moment, and the library cannot read an empty file.
        while True:
            files = [str(file) for file in sorted(self._directory.glob("*.db")) if not _is_empty(file)]
            # A file was removed in between: list them again.
            with suppress(FileNotFoundError):
                merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
                return merged


class _Hosts(Collector):
    """The worst hosts as this process last saw them. Files would keep every past host for ever."""

    def __init__(self) -> None:
        self.watched: WatchedHosts | None = None

    def collect(self) -> Iterable[Metric]:
        if self.watched is None:
            return
        shown = self.watched.worst[:HOSTS_SHOWN]
        for definition, numbers in (
            (HOST_DOCUMENTS, [each.documents for each in shown]),
            (HOST_SHARE, [each.unequal / max(1, each.documents) for each in shown]),
            (HOST_BEYOND, [int(each.beyond) for each in shown]),
        ):
            family = GaugeMetricFamily(definition.name, definition.meaning, labels=definition.labels)
            for each, number in zip(shown, numbers, strict=True):
                family.add_metric([each.host], number)
            yield family
        yield GaugeMetricFamily(HOSTS_BEYOND.name, HOSTS_BEYOND.meaning, value=self.watched.beyond)


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except FileNotFoundError:
        # A worker that has just ended had these gauges; the library skips such a file too.
        return True


class Metrics:
    """This process's metrics, and their sum over all processes that share its directory.

    >>> metrics = Metrics()
    >>> metrics.workers({"running": 2})
    >>> b'neardup_workers{state="running"} 2.0' in metrics.exposition()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # With a directory, `exposition` shows its files alone.
        self._in_memory = self._registry if _directory is None else None
        if _directory is not None:
            self._registry.register(_Files(_directory))
        self._hosts = _Hosts()
        self._registry.register(self._hosts)
        self._documents = self._counter(DOCUMENTS)
        self._replayed = self._counter(REPLAYED)
        self._batches = self._counter(BATCHES)
        self._batch_records = self._histogram(BATCH_RECORDS)
        self._batch_bytes = self._histogram(BATCH_BYTES)
        self._step_seconds = self._histogram(STEP_SECONDS)
        self._candidates = self._histogram(CANDIDATES)
        self._distance = self._histogram(DISTANCE)
        self._similarity = self._histogram(SIMILARITY)
        self._unequal_duplicates = self._counter(UNEQUAL_DUPLICATES)
        self._without_host = self._counter(WITHOUT_HOST)
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
        self._waiting_records = self._gauge(WAITING_RECORDS)
        self._last_delivery = self._gauge(LAST_DELIVERY)
        self._broker_contact = self._gauge(BROKER_CONTACT)
        self._batch_age = self._gauge(BATCH_AGE)
        self._shadow = self._gauge(SHADOW)
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
        unequal: int,
        replayed: int,
    ) -> None:
        """Count one batch, right after its commit.

        records       records in the batch
        value_bytes   size of their values
        step_seconds  seconds per step of `STEPS`
        outcomes      records per (verdict, reason), as labels
        distances     int16 [any], between duplicates and their originals; negative ones (NO_DISTANCE) are ignored
        similarities  float64 [any], between duplicates and their originals, if the index measures similarity
        candidates    int64 [any], compared entries per newly decided document
        unequal       near (not exact) duplicates
        replayed      records with a verdict from the journal
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
        self._unequal_duplicates.inc(unequal)
        self._last_delivery.set(time.time())

    def waiting_records(self, count: int) -> None:
        """Set how many records in this process wait for their verdicts."""
        self._waiting_records.set(count)

    def observe_lags(self, lags: Mapping[tuple[str, int], int]) -> None:
        """Set the lag per (topic, partition) that this process owns, and withdraw its former ones."""
        for topic, partition in self._lags_shown - lags.keys():
            self._withdraw(self._lag_records, topic, partition)
        for (topic, partition), lag in lags.items():
            self._lag_records.labels(topic, partition).set(lag)
            # Starts at zero, since Prometheus sees no increase in a series that begins at five.
            self._offsets_skipped.labels(topic, partition)
        self._lags_shown = set(lags)

    def observe_unowned(self, count: int) -> None:
        """Set how many input partitions have no reader."""
        self._partitions_unowned.set(count)

    def observe_index(self, entries: int, bytes_used: int) -> None:
        """Set the index size: documents that can match, and bytes in use."""
        self._index_entries.set(entries)
        self._index_bytes.set(bytes_used)

    def index_limit(self, bytes_max: int) -> None:
        """Set the maximum index size; called once, at start."""
        self._index_bytes_max.set(bytes_max)

    def shadow(self, *, on: bool) -> None:
        """Set whether duplicates also go to the unique topic; called once, at start."""
        self._shadow.set(on)

    def show_hosts(self, watched: WatchedHosts) -> None:
        """Replace the worst hosts; called in the scraped process."""
        self._hosts.watched = watched

    def skipped(self, topic: str, partition: int, count: int) -> None:
        """Count offsets that the service skips for ever."""
        self._offsets_skipped.labels(topic, partition).inc(count)

    def without_host(self, count: int) -> None:
        """Count documents that name no host, and are expected to."""
        self._without_host.inc(count)

    def restored(self, count: int) -> None:
        """Count documents restored from the outputs."""
        self._restored.inc(count)

    def restoring_offsets(self, count: int) -> None:
        """Set how many input offsets the index still lacks; 0 after a restore."""
        self._restoring_offsets.set(count)

    def restore_gaps(self, count: int) -> None:
        """Count output partitions with lost records during a restore."""
        self._restore_gaps.inc(count)

    def worker_restarted(self, cause: str) -> None:
        """Count a worker's restart; `cause` is one of `RESTART_CAUSES`."""
        self._worker_restarts.labels(cause).inc()

    def workers(self, states: Mapping[str, int]) -> None:
        """Set how many workers are in each of `WORKER_STATES`; missing states count 0."""
        for state in WORKER_STATES:
            self._workers.labels(state).set(states.get(state, 0))

    def worker_seen(self, worker: int, *, contact_seconds: float, batch_age_seconds: float) -> None:
        """Set the Unix time when the brokers last answered a worker, and its batch's age (0 for none)."""
        self._broker_contact.labels(worker).set(contact_seconds)
        self._batch_age.labels(worker).set(batch_age_seconds)

    def exposition(self) -> bytes:
        """All processes' metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def seen(self, definitions: Iterable[Definition]) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Every series' labels and value for these counters and gauges, by name, over all processes."""
        series: dict[str, list[tuple[dict[str, str], float]]] = {each.name: [] for each in definitions}
        for sample in (sample for family in self._registry.collect() for sample in family.samples):
            if sample.name in series:
                series[sample.name].append((dict(sample.labels), sample.value))
        return series

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
            # Files keep every series for ever, but a value dated 1970 is never the most recent.
            gauge.labels(*labels)._value.set(0.0, timestamp=0.0)

    def _counter(self, definition: Definition) -> Counter:
        return Counter(definition.name, definition.meaning, definition.labels, registry=self._in_memory)

    def _gauge(self, definition: Definition) -> Gauge:
        name, meaning, labels, merge = definition.name, definition.meaning, definition.labels, definition.merge
        return Gauge(name, meaning, labels, registry=self._in_memory, multiprocess_mode=merge)

    def _histogram(self, definition: Definition) -> Histogram:
        name, meaning, labels, buckets = definition.name, definition.meaning, definition.labels, definition.buckets
        return Histogram(name, meaning, labels, registry=self._in_memory, buckets=buckets)
