import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deploy.flink_service import SplitService, Watch
from deploy.local_flink import LocalFlink, LocalFlinkError


class MadeUpFlink:
    """A cluster's answers, one for each look; the last one stays."""

    def __init__(self, *states: dict[str, Any] | OSError, dead: Sequence[int] = ()) -> None:
        self.directory = Path("flink")
        self.runs = True
        self._states, self._dead = list(states), list(dead)

    def job_manager_runs(self) -> bool:
        return self.runs

    def replace_dead_task_managers(self) -> int:
        return self._dead.pop(0) if self._dead else 0

    def get(self, path: str) -> Any:
        if path.endswith("exceptions"):
            return "out of memory"
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, OSError):
            raise state
        return state


def job(state: str, *tasks: str) -> dict[str, Any]:
    return {"state": state, "vertices": [{"status": status} for status in tasks]}


def watch_of(flink: MadeUpFlink, parts: dict[str, Any] | None = None) -> Watch:
    service = SplitService(Path("data"), [], cast(dict[str, "subprocess.Popen[bytes]"], parts or {}))
    return Watch(service, cast(LocalFlink, flink), "1a")


def test_each_change_of_the_job_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    running, restarting = job("RUNNING", "RUNNING", "RUNNING"), job("RESTARTING", "CANCELED", "RUNNING")
    watch = watch_of(MadeUpFlink(running, running, OSError(), restarting, running, dead=[0, 0, 2]))
    with caplog.at_level("INFO", "deploy.flink_service"):
        for _ in range(5):
            watch.look()
    assert caplog.messages == [
        "the job: running, 2 of 2 tasks run",
        "2 TaskManager(s) died; started as many",
        "the job: the JobManager does not answer",
        "the job: restarting, 1 of 2 tasks run",
        "the job: running, 2 of 2 tasks run",
    ]


def test_an_end_that_nothing_mends_is_an_error_that_names_the_log() -> None:
    with pytest.raises(LocalFlinkError, match="the job is FAILED: out of memory"):
        watch_of(MadeUpFlink(job("FAILED"))).look()
    flink = MadeUpFlink(job("RUNNING"))
    flink.runs = False
    with pytest.raises(LocalFlinkError, match=r"the JobManager ended: see flink/jobmanager\.out"):
        watch_of(flink).look()
    ended = SimpleNamespace(poll=lambda: 1)
    with pytest.raises(LocalFlinkError, match=r"route ended: see data/route\.log"):
        watch_of(MadeUpFlink(job("RUNNING")), {"route": ended}).look()


def test_a_part_that_lives_is_no_error() -> None:
    watch_of(MadeUpFlink(job("RUNNING")), {"route": SimpleNamespace(poll=lambda: None)}).look()
