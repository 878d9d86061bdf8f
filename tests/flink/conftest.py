"""One cluster for all tests of this folder. `make test-flink` runs them; `make test` leaves them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deploy.local_flink import LocalFlink

# A job of each scheme at twice its parallelism has room, so no TaskManager has to be added.
SLOTS = 4

SETTINGS = {
    "taskmanager.numberOfTaskSlots": str(SLOTS),
    # Every job has tasks in every TaskManager: a kill strikes all of them.
    "taskmanager.load-balance.mode": "SLOTS",
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.fixed-delay.attempts": "30",
    "restart-strategy.fixed-delay.delay": "500 ms",
    # A TaskManager that is gone is noticed by the second call that fails; the JobManager's end by its silence alone.
    "heartbeat.interval": "500",
    "heartbeat.timeout": "6000",
    "cluster.registration.error-delay": "500 ms",
    "cluster.registration.refused-registration-delay": "1 s",
}


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlink]:
    from deploy.local_flink import SHORT_LIVED, LocalFlink

    settings = SETTINGS | {f"env.java.opts.{process}": SHORT_LIVED for process in ("jobmanager", "taskmanager")}
    with LocalFlink(tmp_path_factory.mktemp("flink"), task_managers=2, settings=settings) as cluster:
        yield cluster
