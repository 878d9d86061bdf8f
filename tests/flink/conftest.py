"""One cluster for all tests of this folder. `make test-flink` runs them; they are no part of `make test`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deploy.local_flink import LocalFlink


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlink]:
    from deploy.local_flink import LocalFlink

    settings = {"execution.checkpointing.interval": "1 s", "restart-strategy.fixed-delay.attempts": "6"}
    with LocalFlink(tmp_path_factory.mktemp("flink"), task_managers=2, settings=settings) as cluster:
        yield cluster
