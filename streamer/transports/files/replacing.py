"""Files that appear as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from index.tools import fresh_file, keep_mode

_BUFFER_BYTES = 2**20


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which takes this path once its block ends without an error; its content is on disk by then. Raises OSError.

    A replaced file's mode stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "table") as file:
    ...         _ = file.write(b"words")
    ...     (Path(folder) / "table").read_bytes()
    b'words'
    """
    with fresh_file(path, 0o666) as (unfinished, descriptor):
        keep_mode(descriptor, path)
        with open(descriptor, "wb", buffering=_BUFFER_BYTES, closefd=False) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        unfinished.replace(path)
