"""What commands write: an error names the path, and a failure leaves nothing behind that is worth nothing."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from index.errors import IndexProblem
from streamer.errors import DeliveryDoubtful, OutputUnwritable, StreamerError

_FAILURES = (StreamerError, IndexProblem, click.ClickException, click.exceptions.Exit, SystemExit, KeyboardInterrupt)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into OutputUnwritable, which names the path."""
    try:
        yield
    except OSError as problem:
        raise OutputUnwritable(f"{path}: {problem.strerror}.") from problem


class NoLeftovers:
    """The context of all that a command writes; a failure in it removes what was not there before.

    index    folder of an index; stays once a document entered it
    output   folder of filtered lines; stays once a line was delivered, or where the index stays
    scratch  files and folders that are worth nothing until the command succeeds

    What existed before stays as it is. Everything stays where it is in doubt whether a batch was delivered, for only the
    same folders can settle that, and after an error that nobody foresaw.
    """

    def __init__(self, *, index: Path | None = None, output: Path | None = None, scratch: Sequence[Path] = ()) -> None:
        self._index = index
        self._output = output
        self._scratch = list(scratch)

    def __enter__(self) -> Self:
        from index.storage.data_file import DATA_FILE
        from streamer.transports.files.output_folder import files_of

        folders = [each for each in (self._index, self._output) if each is not None]
        made = {each for folder in folders for each in (folder.absolute(), *folder.absolute().parents)}
        made |= {each for path in self._scratch for each in path.absolute().parents}
        self._new_folders = sorted((each for each in made if not os.path.lexists(each)), reverse=True)
        self._new_scratch = [path for path in self._scratch if not os.path.lexists(path)]
        self._new_index = self._index if self._index and not os.path.lexists(self._index / DATA_FILE) else None
        self._files_before = files_of(self._output) if self._output else set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, _FAILURES) or isinstance(error, DeliveryDoubtful):
            return
        if isinstance(error, SystemExit) and not error.code:
            return
        for path in self._new_scratch:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()
        self._remove_unused()
        for folder in self._new_folders:
            # One that holds something stays.
            with suppress(OSError):
                folder.rmdir()

    def _remove_unused(self) -> None:
        from index.tools.backup import remove_unused
        from streamer.transports.files.output_folder import remove_undelivered

        if self._new_index is not None and not remove_unused(self._new_index):
            # The output folder knows which stream a pipe was: it stays with the index that decided of that stream.
            return
        if self._output is not None:
            remove_undelivered(self._output, self._files_before)
