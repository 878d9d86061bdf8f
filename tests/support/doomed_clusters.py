"""Clusters of a folder, in a process that kills itself with SIGKILL while it writes.

    python -m tests.support.doomed_clusters FOLDER FILE COUNT

It dies at the COUNT-th piece that it writes into FILE.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from streamer.clusters.clusters import write_clusters
from streamer.clusters.keep import POLICIES
from streamer.settings.settings import load
from streamer.transports.files.output_folder import OutputFolder


@contextmanager
def no_bar(_title: str, _total: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda _done: None


class Doomed:
    """A file that accepts so many pieces."""

    def __init__(self, file: IO[bytes], count: int) -> None:
        self._file, self._left = file, count

    def write(self, piece: bytes) -> int:
        self._left -= 1
        if self._left == 0:
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._file.write(piece)


def write(folder: Path, name: str, count: int) -> None:
    further = OutputFolder.further

    @contextmanager
    def doomed(self: OutputFolder, written: str) -> Iterator[IO[bytes] | Doomed]:
        with further(self, written) as file:
            yield Doomed(file, count) if written == name else file

    OutputFolder.further = doomed  # type: ignore[method-assign, assignment]
    write_clusters(
        folder, load(None, ["batch.records_max=10", "decode.time=/time"], over_files=True), POLICIES["first"], no_bar
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
