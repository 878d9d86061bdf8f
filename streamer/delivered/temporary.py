"""Temporary SQLite files for what does not fit into memory: the one place that opens them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from streamer.errors import OutputUnwritable

Connection = sqlite3.Connection

# No journal: the file is deleted at its end, and nothing reads it after a crash.
_PRAGMAS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{};"


@contextmanager
def temporary(path: Path, what: str, cache_kib: int) -> Iterator[Connection]:
    """A connection to an empty file, which is deleted at the end. Memory holds `cache_kib` of it.

    what  is in the file, for the message

    Raises OutputUnwritable.

    >>> with temporary(folder / "numbers", "the numbers", cache_kib=1_024) as connection:
    ...     connection.execute("SELECT 1 + 1").fetchone()
    (2,)
    """
    try:
        # A killed command left it.
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(_PRAGMAS.format(cache_kib))
            yield connection
    except sqlite3.Error as problem:
        if problem.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise
        raise OutputUnwritable(
            f"{path.parent}: {what} cannot be written: {problem}. Remove the cause and start again."
        ) from problem
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
