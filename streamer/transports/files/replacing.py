"""Files that appear as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

SUFFIX = ".unfinished"

_BUFFER_BYTES = 2**20


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which takes this path once its block ends without an error; its content is on disk by then. Raises OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "table") as file:
    ...         _ = file.write(b"words")
    ...     (Path(folder) / "table").read_bytes()
    b'words'
    """
    unfinished = path.with_name(path.name + SUFFIX)
    with ExitStack() as leftovers:
        leftovers.callback(unfinished.unlink, missing_ok=True)
        with unfinished.open("wb", buffering=_BUFFER_BYTES) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
