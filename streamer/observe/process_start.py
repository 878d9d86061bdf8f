"""Start and end of processes: errors with the system limit to raise, and an end with the parent."""

import ctypes
import errno
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from streamer.errors import ProcessRefused, SettingsError
from streamer.packages import imports_named

log = structlog.get_logger(__name__)

_PR_SET_PDEATHSIG = 1
"""Option in prctl(2)."""


@contextmanager
def naming_limits() -> Iterator[None]:
    """Turn an OSError from a process start into ProcessRefused with the limit."""
    try:
        yield
    except OSError as error:
        raise ProcessRefused(
            f"the system starts no further process: {error.strerror}{_limit_of(error)}; nothing is lost, and the service "
            "tries again"
        ) from error


def _limit_of(error: OSError) -> str:
    files, processes = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    return {
        errno.EMFILE: f": raise the limit of open files (RLIMIT_NOFILE, ulimit -n, LimitNOFILE; now {files})",
        errno.ENFILE: ": raise the system's limit of open files (fs.file-max)",
        errno.EAGAIN: (
            f": raise the limit of processes (RLIMIT_NPROC, ulimit -u, now {_shown(processes)}; pids.max of the control "
            "group, TasksMax)"
        ),
        errno.ENOMEM: ": memory is short",
    }.get(error.errno or 0, "")


def _shown(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def die_with_starter() -> None:
    """Let the kernel kill this process once the thread that started it ends (Linux; elsewhere nothing).

    A thread cannot: a parser that never returns may hold the interpreter's lock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent() -> None:
    """End this process at once when its parent is gone: an unwatched worker must not run."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(os.EX_TEMPFAIL)

    threading.Thread(target=wait, name="parent", daemon=True).start()


@contextmanager
def ended_by_imports(event: str) -> Iterator[None]:
    """End this process with 78 and a line in the log if a package of others cannot be imported."""
    try:
        with imports_named():
            yield
    except SettingsError as error:
        log.error(event, error=type(error).__name__, reason=str(error))
        raise SystemExit(error.exit_code) from None
