"""Processes forked from one warm server: to import and to load machine code takes several times as long as their lives."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

LIFE_SECONDS_MAX = 60.0

_LIVES = multiprocessing.get_context("forkserver")
_LIVES.set_forkserver_preload(
    ["tests.support.doomed_command", "tests.support.doomed_part", "tests.support.doomed_worker", "tests.support.warm"]
)


def exit_code_of(target: Callable[..., Any], *arguments: Any) -> int:
    """Run a function in a process of its own. Returns its exit code, negative where a signal ended it."""
    process = _LIVES.Process(target=target, args=arguments)
    process.start()
    process.join(LIFE_SECONDS_MAX)
    if process.exitcode is None:
        process.kill()
        pytest.fail("a process neither died nor ended")
    return process.exitcode
