"""Tables that one process makes and the next one reads, in the folder of the kernels that use them."""

import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

Arrays = Mapping[str, npt.NDArray[Any]]

_DIGEST_BYTES = 16


def kept_tables(folder: Path, name: str, made_of: Sequence[str | Path], make: Callable[[], Arrays]) -> Arrays:
    """Arrays by name: those kept in the folder if they were made of the same, else new ones, which are then kept.

    `made_of` has versions, and source files whose contents count. A file that is damaged or cannot be written costs time alone.
    """
    digest = hashlib.sha256()
    for part in made_of:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    path = folder / f"{name}-{digest.hexdigest()[:32]}.tables"
    with suppress(OSError):
        content = memoryview(path.read_bytes())
        # Damaged tables would fold letters into others, or lead a kernel out of its arrays.
        if content[:_DIGEST_BYTES] == xxhash.xxh3_128_digest(content[_DIGEST_BYTES:]):
            with np.load(io.BytesIO(content[_DIGEST_BYTES:])) as archive:
                return {key: archive[key] for key in archive.files}
    tables = make()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, tables)
        for older in set(folder.glob(f"{name}-*.tables")) - {path}:
            older.unlink(missing_ok=True)
    return tables


def _write(path: Path, tables: Arrays) -> None:
    """Write the tables behind their digest, as a whole: processes may start at the same time."""
    archive = io.BytesIO()
    np.savez(archive, **tables)  # type: ignore[arg-type]
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(xxhash.xxh3_128_digest(archive.getbuffer()))
            file.write(archive.getbuffer())
        # Those of root are for every user, as machine code is.
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
