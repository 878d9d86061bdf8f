"""Descriptors 0 to 2 as a command needs them: open, and with failures that are known errors.

    closed descriptor   what it becomes
    0, input            reading fails, as from a closed one
    1, output           writing fails, as to a closed one
    2, error            the null device: an unwanted message stops no work

Otherwise the next file that the process opens, such as the index, would be its standard input or output.
"""

import errno
import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

_WRONG_WAY = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}
"""How a closed descriptor is opened, so that its use fails. gnulib's `stdopen` does the same."""


class _Output(FileIO):
    """Standard output. A reader that has gone stays an OSError (EPIPE), which ends a command without a word."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as problem:
            if problem.errno == errno.EPIPE:
                raise
            # Python writes what is left once more at its end.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            # Not before: errors import `index`, and the program first looks whether it is its own.
            from streamer.errors import StandardOutputFailed

            raise StandardOutputFailed(
                f"standard output: {problem.strerror}. The answer could not be written; files that the command writes are whole."
            ) from problem


class _Messages(FileIO):
    """Standard error. What cannot be written is dropped."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError:
            return memoryview(content).nbytes


def open_standard_streams() -> None:
    """Open the descriptors that are closed, and replace `sys.stdout` and `sys.stderr`."""
    for descriptor, flags in _WRONG_WAY.items():
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is this one.
            os.open(os.devnull, flags)
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = TextIOWrapper(FileIO(0, "w", closefd=False), encoding="utf-8")
    sys.stdout = _text_stream(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text_stream(_Messages(2, "w", closefd=False), sys.stderr)


def _text_stream(raw: FileIO, former: object) -> TextIOWrapper:
    is_error = raw.fileno() == 2
    return TextIOWrapper(
        BufferedWriter(raw),
        encoding=getattr(former, "encoding", "utf-8"),
        errors=getattr(former, "errors", "backslashreplace" if is_error else "strict"),
        line_buffering=is_error or raw.isatty(),
    )
