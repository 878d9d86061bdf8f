"""Every metric is there, counts right, and shows the same whether one process counts or several."""

import errno
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.parser import text_string_to_metric_families

from index import HostShare, WatchedHosts
from streamer.errors import NoRoomForMetrics
from streamer.observe import definitions, metrics
from streamer.observe.batch_report import STEPS, BatchReport
from streamer.observe.metrics_folder import FILE_BYTES
from streamer.records import reason
from tests.support.examples import examples

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Directory in which this process counts as the supervisor."""
    metrics.prepare(tmp_path / "metrics", worker=None)
    yield tmp_path / "metrics"
    metrics.release()


def series(exposition: bytes) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
    }


def value(exposition: bytes, name: str, **labels: str) -> float:
    return series(exposition)[name, frozenset(labels.items())]


def see_one_batch(measures: metrics.Metrics) -> None:
    measures.observe_batch(
        BatchReport(
            records=6,
            value_bytes=9_000,
            step_seconds=dict.fromkeys(STEPS, 0.004),
            step_cpu_seconds={},
            outcomes={("unique", "no-match"): 3, ("duplicate", "similar"): 2, ("dead-letter", "not-json"): 1},
            distances=np.array([0, 3, -1], dtype=np.int16),
            similarities=np.array([0.7, 0.72, 1.0]),
            candidates=np.array([0, 0, 1, 7, 200_000], dtype=np.int64),
            unequal=2,
            replayed=1,
        )
    )


def see_everything(measures: metrics.Metrics) -> None:
    see_one_batch(measures)
    measures.observe_lags({("documents", 0): 12, ("documents", 1): 0})
    for gauge, set_to in (
        (definitions.PARTITIONS_UNOWNED, 1),
        (definitions.RESTORING_OFFSETS, 500),
        (definitions.WAITING_RECORDS, 0),
        (definitions.INDEX_ENTRIES, 3),
        (definitions.INDEX_BYTES, 4_096),
        (definitions.STORIES, 2),
        (definitions.INDEX_BYTES_MAX, 2**40),
        (definitions.INDEX_DISK_FREE_BYTES, 2**41),
        (definitions.SHADOW, True),
        (definitions.AUDIT_SAMPLED, 900),
        (definitions.AUDIT_KEPT_HOSTS, 1),
    ):
        measures.set(gauge, set_to)
    measures.set(definitions.AUDIT_RECALL, 0.97, "hour", "low")
    measures.set(definitions.AUDIT_PRECISION, 0.98, "day", "estimate")
    measures.set(definitions.BROKER_CONTACT, 1.7e9, 0)
    measures.set(definitions.BATCH_AGE, 2.5, 0)
    measures.show_hosts(WatchedHosts([HostShare("site.example", 200, 190, True)], 1))
    measures.count(definitions.OFFSETS_SKIPPED, 5, "documents", 0)
    measures.count(definitions.PROTECTED, 3, "evaluation")
    measures.count(definitions.RESTORED, 2)
    measures.count(definitions.WORKER_RESTARTS, 1, "killed")
    measures.show_workers({"running": 1})


def count_in_a_worker(directory: Path, worker: int, batches: int, lags: dict[tuple[str, int], int], end: int) -> None:
    metrics.prepare(directory, worker)
    measures = metrics.Metrics()
    for _ in range(batches):
        see_one_batch(measures)
    measures.observe_lags(lags)
    if end:
        os._exit(end)


def run_worker(
    directory: Path, worker: int, batches: int, lags: dict[tuple[str, int], int] | None = None, end: int = 0
) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=count_in_a_worker, args=(directory, worker, batches, lags or {}, end)
    )
    process.start()
    process.join(30)
    assert process.exitcode == end


finite = st.integers(-10, 10_000) | st.floats(-1e6, 1e6)


@examples(60)
@given(
    observed=st.lists(finite, max_size=40),
    bounds=st.lists(finite, min_size=1, max_size=8, unique=True).map(sorted),
)
def test_observing_an_array_equals_observing_its_values_one_by_one(observed: list[float], bounds: list[float]) -> None:
    # Values on a bound are the ones that go wrong.
    values = [*observed, *bounds]
    at_once = Histogram("example", "at once", registry=None, buckets=bounds)
    one_by_one = Histogram("example", "one by one", registry=None, buckets=bounds)
    metrics.observe_many(at_once, np.array(values))
    for observation in values:
        one_by_one.observe(observation)
    for left, right in zip(at_once._child_samples(), one_by_one._child_samples(), strict=True):
        assert left.labels == right.labels
        assert left.value == pytest.approx(right.value, rel=1e-9, abs=1e-6)


def test_observing_an_empty_array_changes_nothing() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("example", "empty", registry=registry, buckets=(1, 2))
    metrics.observe_many(histogram, np.array([], dtype=np.int64))
    assert registry.get_sample_value("example_count") == 0


def test_every_verdict_and_reason_every_step_and_every_cause_starts_at_zero() -> None:
    shown = metrics.Metrics().exposition()
    for verdict, why in reason.labels():
        assert value(shown, "neardup_documents_total", verdict=verdict, reason=why) == 0
    for step in STEPS:
        assert value(shown, "neardup_step_seconds_count", step=step) == 0
    for cause in metrics.RESTART_CAUSES:
        assert value(shown, "neardup_worker_restarts_total", cause=cause) == 0


def test_one_batch_is_counted_in_every_metric_it_touches() -> None:
    measures = metrics.Metrics()
    see_one_batch(measures)
    shown = measures.exposition()
    assert value(shown, "neardup_documents_total", verdict="unique", reason="no-match") == 3
    assert value(shown, "neardup_documents_total", verdict="dead-letter", reason="not-json") == 1
    assert value(shown, "neardup_replayed_total") == 1
    assert value(shown, "neardup_unequal_duplicates_total") == 2
    assert value(shown, "neardup_batches_total") == 1
    assert value(shown, "neardup_batch_records_sum") == 6
    assert value(shown, "neardup_batch_bytes_sum") == 9_000
    assert value(shown, "neardup_step_seconds_bucket", step="decide", le="0.002") == 0
    assert value(shown, "neardup_step_seconds_bucket", step="decide", le="0.005") == 1
    # Distance -1 means none.
    assert value(shown, "neardup_distance_count") == 2
    assert value(shown, "neardup_distance_bucket", le="2.0") == 1
    assert value(shown, "neardup_distance_bucket", le="3.0") == 2
    assert value(shown, "neardup_similarity_count") == 3
    assert value(shown, "neardup_similarity_bucket", le="0.7") == 1
    assert value(shown, "neardup_similarity_bucket", le="0.99") == 2
    assert value(shown, "neardup_candidates_bucket", le="0.0") == 2
    assert value(shown, "neardup_candidates_bucket", le="100000.0") == 4
    assert value(shown, "neardup_candidates_count") == 5
    assert value(shown, "neardup_last_delivery_timestamp_seconds") > 1.7e9


def test_the_lag_of_a_partition_given_up_is_not_shown() -> None:
    measures = metrics.Metrics()
    measures.observe_lags({("documents", 0): 12, ("documents", 1): 7})
    measures.observe_lags({("documents", 1): 6})
    lags = {
        labels: lag for (name, labels), lag in series(measures.exposition()).items() if name == "neardup_lag_records"
    }
    assert lags == {frozenset({("topic", "documents"), ("partition", "1")}): 6}


def test_skipped_offsets_of_a_partition_are_zero_before_any_is_skipped() -> None:
    measures = metrics.Metrics()
    measures.observe_lags({("documents", 0): 12})
    assert value(measures.exposition(), "neardup_offsets_skipped_total", topic="documents", partition="0") == 0
    measures.count(definitions.OFFSETS_SKIPPED, 5, "documents", 0)
    assert value(measures.exposition(), "neardup_offsets_skipped_total", topic="documents", partition="0") == 5


def hosts_shown(measures: metrics.Metrics, name: str) -> dict[str, float]:
    return {
        dict(labels)["host"]: number
        for (metric, labels), number in series(measures.exposition()).items()
        if metric == name
    }


@pytest.mark.parametrize("in_files", [False, True])
def test_ten_hosts_at_most_are_named_and_one_that_leaves_the_list_is_shown_no_longer(
    tmp_path: Path, in_files: bool
) -> None:
    if in_files:
        metrics.prepare(tmp_path / "metrics", worker=None)
    measures = metrics.Metrics()
    assert "neardup_host" not in measures.exposition().decode()
    for first in range(0, 2_000, 5):
        worst = [HostShare(f"{number}.example", 200, 50, False) for number in range(first, first + 15)]
        measures.show_hosts(WatchedHosts(worst, 40))
    shares = hosts_shown(measures, "neardup_host_unequal_share")
    assert shares == {f"{number}.example": 0.25 for number in range(1_995, 2_005)}
    assert hosts_shown(measures, "neardup_host_documents").keys() == shares.keys()
    assert set(hosts_shown(measures, "neardup_host_beyond_limits").values()) == {0}
    assert value(measures.exposition(), "neardup_hosts_beyond_limits") == 40
    metrics.release()


def test_the_name_of_a_host_may_hold_anything() -> None:
    measures = metrics.Metrics()
    worst = [HostShare('a"b\\c{d}\x00', 200, 190, True)]
    measures.show_hosts(WatchedHosts(worst, 1))
    assert hosts_shown(measures, "neardup_host_beyond_limits") == {worst[0].host: 1}


def test_a_state_without_workers_is_zero() -> None:
    measures = metrics.Metrics()
    measures.show_workers({"starting": 2})
    measures.show_workers({"running": 2})
    assert value(measures.exposition(), "neardup_workers", state="starting") == 0
    assert value(measures.exposition(), "neardup_workers", state="running") == 2


def test_files_show_the_same_series_as_memory(directory: Path) -> None:
    in_files = metrics.Metrics()
    see_everything(in_files)
    from_files = in_files.exposition()
    metrics.release()
    in_memory = metrics.Metrics()
    see_everything(in_memory)
    now = ("neardup_last_delivery_timestamp_seconds", frozenset[tuple[str, str]]())
    assert series(from_files) | {now: 0} == series(in_memory.exposition()) | {now: 0}


def test_the_supervisor_shows_the_sum_of_all_workers(directory: Path) -> None:
    supervisor = metrics.Metrics()
    run_worker(directory, worker=0, batches=2)
    run_worker(directory, worker=1, batches=3)
    shown = supervisor.exposition()
    assert value(shown, "neardup_documents_total", verdict="unique", reason="no-match") == 15
    assert value(shown, "neardup_batches_total") == 5
    assert value(shown, "neardup_step_seconds_bucket", step="commit", le="+Inf") == 5
    assert value(shown, "neardup_candidates_count") == 25


def test_a_restarted_worker_goes_on_counting_in_the_files_of_its_predecessor(directory: Path) -> None:
    supervisor = metrics.Metrics()
    run_worker(directory, worker=0, batches=2, end=9)
    files = sorted(directory.iterdir())
    run_worker(directory, worker=0, batches=1)
    assert value(supervisor.exposition(), "neardup_batches_total") == 3
    assert sorted(directory.iterdir()) == files


def test_two_workers_under_one_number_would_lose_counts(directory: Path) -> None:
    """The reason why `prepare` forbids it, and proof that the two tests above can fail."""
    metrics.release()
    metrics.prepare(directory, worker=0)
    first = metrics.Metrics()
    run_worker(directory, worker=0, batches=2)
    see_one_batch(first)
    assert value(first.exposition(), "neardup_batches_total") == 1


def test_a_partition_that_moves_shows_the_lag_of_its_new_owner(directory: Path) -> None:
    supervisor = metrics.Metrics()
    supervisor.observe_lags({("documents", 0): 900, ("documents", 1): 900})
    run_worker(directory, worker=1, batches=0, lags={("documents", 0): 3})
    assert value(supervisor.exposition(), "neardup_lag_records", topic="documents", partition="0") == 3
    # An old owner that notices late must neither bring its value back nor hide the new one.
    supervisor.observe_lags({("documents", 1): 800})
    shown = supervisor.exposition()
    assert value(shown, "neardup_lag_records", topic="documents", partition="0") == 3
    assert value(shown, "neardup_lag_records", topic="documents", partition="1") == 800
    supervisor.observe_lags({})
    assert "neardup_lag_records{" in shown.decode()
    assert 'partition="1"} 800' not in supervisor.exposition().decode()


def test_what_a_worker_saw_last_is_shown_no_longer_when_it_has_ended_and_its_counts_stay(directory: Path) -> None:
    supervisor = metrics.Metrics()
    run_worker(directory, worker=0, batches=2, lags={("documents", 0): 12})
    run_worker(directory, worker=1, batches=1, lags={("documents", 1): 7})
    metrics.forget_gauges(0)
    shown = supervisor.exposition()
    assert 'neardup_lag_records{partition="1",topic="documents"} 7.0' in shown.decode()
    assert 'neardup_lag_records{partition="0"' not in shown.decode()
    assert value(shown, "neardup_batches_total") == 3
    assert value(shown, "neardup_last_delivery_timestamp_seconds") > 1.7e9
    run_worker(directory, worker=0, batches=0, lags={("documents", 0): 3})
    assert value(supervisor.exposition(), "neardup_lag_records", topic="documents", partition="0") == 3


def test_gauges_that_go_between_looking_for_files_and_reading_them_do_not_break_a_scrape(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = metrics.Metrics()
    run_worker(directory, worker=0, batches=2, lags={("documents", 0): 12})
    found = list(directory.glob("*.db"))
    metrics.forget_gauges(0)
    monkeypatch.setattr(Path, "glob", lambda *_: found)
    assert value(supervisor.exposition(), "neardup_batches_total") == 2


def test_a_service_starts_without_the_files_of_an_earlier_one(directory: Path) -> None:
    see_one_batch(metrics.Metrics())
    metrics.release()
    metrics.prepare(directory, worker=None)
    assert value(metrics.Metrics().exposition(), "neardup_batches_total") == 0


@pytest.mark.parametrize("worker", [None, 0])
def test_a_folder_without_room_for_the_metrics_is_named_before_anything_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: int | None
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    directory = tmp_path / "metrics"
    directory.mkdir()
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(NoRoomForMetrics, match=f"{tmp_path}.*No space left on device.*TMPDIR"):
        metrics.prepare(directory, worker)


def test_every_file_that_a_process_maps_has_its_room_before(directory: Path) -> None:
    see_everything(metrics.Metrics())
    sizes = {file.name: file.stat() for file in directory.glob("*.db")}
    assert len(sizes) == 4
    for status in sizes.values():
        assert status.st_size == FILE_BYTES
        assert status.st_blocks * 512 >= status.st_size


def test_a_file_just_made_and_still_empty_does_not_break_a_scrape(directory: Path) -> None:
    supervisor = metrics.Metrics()
    (directory / "counter_worker-7.db").touch()
    assert value(supervisor.exposition(), "neardup_batches_total") == 0


def test_every_defined_metric_is_exposed_with_its_labels_and_no_other_is() -> None:
    measures = metrics.Metrics()
    see_everything(measures)
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in text_string_to_metric_families(measures.exposition().decode())
    }
    assert exposed == {definition.name: set(definition.labels) for definition in definitions.DEFINITIONS}


def test_states_are_those_of_the_service() -> None:
    from streamer.service import loop

    assert tuple(state.value for state in loop.State) == metrics.WORKER_STATES


@pytest.mark.parametrize("restored", [True, False])
def test_counts_whose_files_were_removed_come_back_and_only_by_restoring_them(directory: Path, restored: bool) -> None:
    measures = metrics.Metrics()
    measures.count(definitions.RESTORED, 3)
    measures.observe_lags({("documents", 0): 7})
    shutil.rmtree(directory)
    # Counted while there is no file.
    measures.count(definitions.RESTORED, 2)
    assert (metrics.restore_files() if restored else False) is restored
    measures.count(definitions.RESTORED, 1)
    shown = measures.exposition().decode()
    assert ("neardup_restored_total 6.0" in shown) is restored
    assert ('neardup_lag_records{partition="0",topic="documents"} 7.0' in shown) is restored
    assert not metrics.restore_files() or not restored
