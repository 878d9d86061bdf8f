"""Other processes' processor time, from Linux's /proc."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PROCESSES = Path("/proc")
_SESSION = 3
_TIMES = slice(11, 15)


def processor_seconds(process_ids: Iterable[int]) -> float:
    """User and system time for processes and their ended children; 0 for ended ones."""
    return sum(sum(map(int, _fields(each)[_TIMES])) for each in process_ids) / _TICKS_A_SECOND


def processes_of_session(session: int) -> list[int]:
    """Processes in a session."""
    return [each for each in _all() if _fields(each)[_SESSION:][:1] == [str(session)]]


def processes_in(directory: Path) -> list[int]:
    """Processes with this working directory."""
    return [each for each in _all() if _working_directory(each) == directory.resolve()]


def _all() -> Iterator[int]:
    return (int(folder.name) for folder in _PROCESSES.glob("[0-9]*"))


def _fields(process_id: int) -> list[str]:
    """proc_pid_stat(5)'s fields after the name, which may contain anything; empty for an ended process."""
    try:
        return (_PROCESSES / str(process_id) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _working_directory(process_id: int) -> Path | None:
    try:
        return (_PROCESSES / str(process_id) / "cwd").readlink()
    except OSError:
        return None
