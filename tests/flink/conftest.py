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
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.fixed-delay.attempts": "30",
    # Values of the REST API are not older.
    "metrics.fetcher.update-interval": "1 s",
}


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlink]:
    from deploy.local_flink import QUICK, LocalFlink

    with LocalFlink(tmp_path_factory.mktemp("flink"), task_managers=2, settings=QUICK | SETTINGS) as cluster:
        yield cluster
