"""Counts and exposes every metric in `definitions`. The only importer of prometheus_client.

Each process counts in memory-mapped files, under a name that survives restarts. The scraped process adds up all files:

    supervisor              worker-0                worker-1
    counter_supervisor.db   counter_worker-0.db     counter_worker-1.db
    gauge_..._.db           gauge_..._.db           gauge_..._.db            -> /metrics of the supervisor
    histogram_....db        histogram_....db        histogram_....db

A restarted worker continues in its predecessor's files, so counters never fall. Without `prepare`, a process counts in
memory.
"""

import importlib.metadata
import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import prometheus_client
from prometheus_client import values
from prometheus_client.metrics import disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from index import WatchedHosts
from streamer.observe import definitions
from streamer.observe.batch_report import STEPS, BatchReport
from streamer.observe.definitions import DEFINITIONS, Definition
from streamer.observe.metrics_folder import MetricsFolder
from streamer.records import reason

WORKER_STATES = ("starting", "restoring", "running", "draining", "stopped")
"""Values of label `state`."""

RESTART_CAUSES = ("transport", "hanging-transaction", "no-progress", "killed", "error")
"""Values of label `cause`: delivery in doubt or broker away; a transaction that a person must end; a stalled worker; a
signal; an error."""

HOSTS_SHOWN = 10
"""Most hosts in metrics: each adds a series."""

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
"""Content type of `Metrics.exposition`."""

# The files cannot hold the library's additional creation time series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _Name(str):
    """A process's name in file names. Objects are never equal, and the library reopens files for an unequal name."""

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = str.__hash__


_directory: Path | None = None
_folder: MetricsFolder | None = None
_name = _Name("")


def prepare(directory: Path, worker: int | None) -> None:
    """Count in files of `directory` from now on. Call once, before the first `Metrics()`.

    The supervisor (`worker` None) calls first, and removes an earlier service's files. Live workers have different
    numbers. Raises NoRoomForMetrics.
    """
    global _directory, _folder, _name
    _name = _Name(_name_of(worker))
    if worker is None:
        for file in directory.glob("*.db"):
            file.unlink()
    prefixes = sorted({_prefix_of(definition) for definition in DEFINITIONS})
    _folder = MetricsFolder(directory, [f"{prefix}_{_name}.db" for prefix in prefixes])
    _directory = directory
    # The library reads both for each new value, in any import order.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: _name)  # type: ignore[no-untyped-call]


def restore_files() -> bool:
    """Restore this process's removed files with all counts; True if any was missing. Raises NoRoomForMetrics.

    Call it often from the counting thread: until then, scrapes miss these counts.
    """
    global _name
    if _folder is None or not _folder.restore():
        return False
    _name = _Name(_name)
    return True


def forget_gauges(worker: int) -> None:
    """Drop an ended worker's outdated gauges. Its counts stay."""
    if _directory is not None:
        mark_process_dead(_name_of(worker), str(_directory))  # type: ignore[no-untyped-call]


def _prefix_of(definition: Definition) -> str:
    return f"gauge_{definition.merge}" if definition.kind == "gauge" else definition.kind


def _name_of(worker: int | None) -> str:
    return "supervisor" if worker is None else f"worker-{worker}"


def release() -> None:
    """Undo `prepare`: close the files; the next `Metrics()` counts in memory."""
    global _directory, _folder
    if _folder is not None:
        _folder.close()
        values.ValueClass.close_all_files()
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
        values.ValueClass = values.MutexValue
        _directory = _folder = None


def restart_cause(exit_code: int) -> str:
    """Restart cause in `RESTART_CAUSES`, from an exit code (negative: a signal).

    >>> restart_cause(-9)
    'killed'
    """
    if exit_code < 0:
        return "killed"
    return {os.EX_TEMPFAIL: "transport", os.EX_PROTOCOL: "hanging-transaction"}.get(exit_code, "error")


def observe_many(histogram: prometheus_client.Histogram, observed: npt.NDArray[Any]) -> None:
    """Observe every finite number in an array."""
    bounds = histogram._upper_bounds
    # A bucket includes its upper bound; the last bound is infinity.
    counts = np.bincount(np.searchsorted(bounds, observed, side="left"), minlength=len(bounds))
    for bucket, count in zip(histogram._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)
    histogram._sum.inc(float(observed.sum()))


class _Files(Collector):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # The library cannot read a new, still empty file.
        while True:
            files = [str(file) for file in sorted(self._directory.glob("*.db")) if not _is_empty(file)]
            # A file was removed in between: list them again.
            with suppress(FileNotFoundError):
                merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
                return merged


_OF_HOSTS = {each for each in DEFINITIONS if each.name.startswith("neardup_host")}


class _Hosts(Collector):
    """The worst hosts. Files would keep every past host for ever."""

    def __init__(self) -> None:
        self.watched: WatchedHosts | None = None

    def collect(self) -> Iterable[Metric]:
        if self.watched is None:
            return
        shown, beyond = self.watched.worst[:HOSTS_SHOWN], definitions.HOSTS_BEYOND
        for definition, numbers in (
            (definitions.HOST_DOCUMENTS, [each.documents for each in shown]),
            (definitions.HOST_SHARE, [each.unequal / max(1, each.documents) for each in shown]),
            (definitions.HOST_BEYOND, [int(each.beyond) for each in shown]),
        ):
            family = GaugeMetricFamily(definition.name, definition.meaning, labels=definition.labels)
            for each, number in zip(shown, numbers, strict=True):
                family.add_metric([each.host], number)
            yield family
        yield GaugeMetricFamily(beyond.name, beyond.meaning, value=self.watched.beyond)


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except FileNotFoundError:
        # This worker just ended; the library skips such a file too.
        return True


class Metrics:
    """This process's metrics, and the sum over all processes of its directory.

    >>> metrics = Metrics()
    >>> metrics.show_workers({"running": 2})
    >>> b'neardup_workers{state="running"} 2.0' in metrics.exposition()
    True
    """

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        # With a directory, `exposition` shows its files alone.
        self._in_memory = self._registry if _directory is None else None
        if _directory is not None:
            self._registry.register(_Files(_directory))
        self._hosts = _Hosts()
        self._registry.register(self._hosts)
        self._metrics = {each: self._made(each) for each in DEFINITIONS if each not in _OF_HOSTS}
        self._lags_shown: set[tuple[str, int]] = set()
        self._start_at_zero()

    def count(self, counter: Definition, count: int, *labels: object) -> None:
        """Add to a counter."""
        self._labelled(counter, labels).inc(count)

    def set(self, gauge: Definition, value: float, *labels: object) -> None:
        """Set a gauge."""
        self._labelled(gauge, labels).set(value)

    def observe(self, histogram: Definition, values: Sequence[int]) -> None:
        """Observe values in a histogram."""
        observe_many(self._metrics[histogram], np.array(values, np.int64))

    def observe_batch(self, batch: BatchReport) -> None:
        """Count one committed batch."""
        for outcome, count in batch.outcomes.items():
            self.count(definitions.DOCUMENTS, count, *outcome)
        for step, seconds in batch.step_seconds.items():
            self._labelled(definitions.STEP_SECONDS, (step,)).observe(seconds)
        self.count(definitions.REPLAYED, batch.replayed)
        self.count(definitions.BATCHES, 1)
        self.count(definitions.UNEQUAL_DUPLICATES, batch.unequal)
        for histogram, observed in (
            (definitions.BATCH_RECORDS, np.array([batch.records])),
            (definitions.BATCH_BYTES, np.array([batch.value_bytes])),
            (definitions.DISTANCE, batch.distances[batch.distances >= 0]),
            (definitions.SIMILARITY, batch.similarities),
            (definitions.NEW_SHARE, batch.news),
            (definitions.CANDIDATES, batch.candidates),
        ):
            observe_many(self._metrics[histogram], observed)
        self.set(definitions.LAST_DELIVERY, time.time())

    def observe_lags(self, lags: Mapping[tuple[str, int], int]) -> None:
        """Set the lag per owned (topic, partition); withdraw former ones."""
        for topic, partition in self._lags_shown - lags.keys():
            self._withdraw(self._metrics[definitions.LAG_RECORDS], topic, partition)
        for (topic, partition), lag in lags.items():
            self.set(definitions.LAG_RECORDS, lag, topic, partition)
            # Starts at zero: Prometheus sees no increase in a series that begins at five.
            self.count(definitions.OFFSETS_SKIPPED, 0, topic, partition)
        self._lags_shown = set(lags)

    def show_hosts(self, watched: WatchedHosts) -> None:
        """Replace the worst hosts; for the scraped process."""
        self._hosts.watched = watched

    def show_workers(self, states: Mapping[str, int]) -> None:
        """Set the workers in each of `WORKER_STATES`; missing states count 0."""
        for state in WORKER_STATES:
            self.set(definitions.WORKERS, states.get(state, 0), state)

    def exposition(self) -> bytes:
        """All processes' metrics, in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry)

    def seen(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Labels and value of each series, by its counter's or gauge's name, over all processes."""
        series: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        for family in self._registry.collect():
            for sample in family.samples:
                series[sample.name].append((dict(sample.labels), sample.value))
        return series

    def _start_at_zero(self) -> None:
        for outcome in reason.labels():
            self.count(definitions.DOCUMENTS, 0, *outcome)
        for step in STEPS:
            self._labelled(definitions.STEP_SECONDS, (step,))
        for cause in RESTART_CAUSES:
            self.count(definitions.WORKER_RESTARTS, 0, cause)
        self.set(definitions.BUILD_INFO, 1, importlib.metadata.version("neardup-streamer"), platform.python_version())

    def _labelled(self, definition: Definition, labels: Sequence[object]) -> Any:
        metric = self._metrics[definition]
        return metric.labels(*labels) if labels else metric

    def _withdraw(self, gauge: prometheus_client.Gauge, *labels: object) -> None:
        if self._in_memory is not None:
            gauge.remove(*labels)
        else:
            # Files keep every series for ever, but a value dated 1970 is never the most recent.
            gauge.labels(*labels)._value.set(0.0, timestamp=0.0)

    def _made(self, definition: Definition) -> Any:
        described = definition.name, definition.meaning, definition.labels
        if definition.kind == "counter":
            return prometheus_client.Counter(*described, registry=self._in_memory)
        if definition.kind == "gauge":
            return prometheus_client.Gauge(*described, registry=self._in_memory, multiprocess_mode=definition.merge)
        return prometheus_client.Histogram(*described, registry=self._in_memory, buckets=definition.buckets)
