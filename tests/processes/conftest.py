from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deploy.kafka_run import Run
    from tests.support.services import Started


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Factory of services that are ended at the end of the test."""
    from tests.support.services import Started

    started: list[Started] = []

    def begin(run: Run, *command: str) -> Started:
        started.append(Started(run, tmp_path / "service.log", command))
        return started[-1]

    yield begin
    for each in started:
        each.end()
