"""A worker's end with its supervisor, even while a parser holds the interpreter's lock."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from index.kernels.jit import compiled
from streamer import Filter
from streamer.errors import SettingsError
from streamer.observe import metrics
from streamer.observe.batch_report import BatchReport
from streamer.settings.settings import Settings
from streamer.workers import worker
from streamer.workers.heartbeat import Heartbeats
from tests.support.tiers import first_of

PARENT = """
import multiprocessing, time
from tests.support.stuck_worker import search_for_ever
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=search_for_ever, args=({bound},))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


def is_running(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the thread that started it")
@pytest.mark.parametrize("bound", first_of(True, False))
def test_a_worker_inside_a_search_without_end_dies_with_its_supervisor(bound: bool, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(bound=bound))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        searching = Path(f"/proc/{child}/comm")
        deadline = time.monotonic() + 60
        while searching.read_text().strip() != "searching":
            assert time.monotonic() < deadline, "the child never began"
            time.sleep(0.05)
        # The search holds the lock from its first step.
        time.sleep(1)
        parent.kill()
    deadline = time.monotonic() + (30 if bound else 2)
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = is_running(child)
    if left:
        os.kill(child, signal.SIGKILL)
    assert left is not bound, "without the kernel's help the child lives on"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[worker.MetricsListener]:
    metrics.prepare(tmp_path / "metrics", worker=0)
    yield worker.MetricsListener(metrics.Metrics(), Heartbeats(1), 0)
    metrics.release()


def test_the_log_says_once_that_machine_code_is_compiled_and_how_much_it_was_by_then(
    listener: worker.MetricsListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = BatchReport(0, 0, {}, {}, {}, *[()] * 3, 0, 0)  # type: ignore[arg-type]
    monkeypatch.setattr(listener, "_measures", SimpleNamespace(observe_batch=lambda _: None))
    with capture_logs() as logged:
        for kernels in ([1, 2, 3], [], [4], []):
            for kernel in kernels:
                listener.compiling(kernel, Path("kept"))
            listener.batch(figures)
    assert [(line["event"], line.get("cache"), line.get("kernels")) for line in logged] == [
        ("compiling machine code, once for this processor", "kept", None),
        ("machine code compiled", None, 3),
        ("machine code compiled", None, 4),
    ]


def test_a_worker_hears_of_what_is_compiled_from_the_opening_of_its_index_on(
    listener: worker.MetricsListener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A module of its own: no earlier run has kept its machine code.
    (tmp_path / "new_kernel.py").write_text("def successor(number):\n    return number + 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def opened(_settings: Settings) -> Any:
        compiled(importlib.import_module("new_kernel").successor)(1)
        raise SettingsError("far enough")

    monkeypatch.setattr(worker, "open_with_scheme", opened)
    with capture_logs() as logged, pytest.raises(SettingsError, match="far enough"):
        worker._run(Settings(), None, "instance", listener)
    assert [line["event"] for line in logged] == ["compiling machine code, once for this processor"]


def test_a_worker_goes_on_with_the_mark_up_of_the_index_in_place(
    listener: worker.MetricsListener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Filter(tmp_path, markup="none").close()
    asked: list[str] = []

    def opened(settings: Settings) -> Any:
        asked.append(settings.fingerprint.markup)
        raise SettingsError("far enough")

    monkeypatch.setattr(worker, "open_with_scheme", opened)
    for directory in (tmp_path, tmp_path / "none"):
        with pytest.raises(SettingsError, match="far enough"):
            worker._run(Settings().replaced(index={"directory": directory}), None, "instance", listener)
    assert asked == ["none", "auto"]
