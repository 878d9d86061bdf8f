"""Tables that one process makes and the next one reads, in the folder of the kernels that use them."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


def kept_tables(folder: Path, name: str, made_of: Sequence[str | Path], make: Callable[[], Arrays]) -> Arrays:
    """Arrays by name: those kept in the folder if they were made of the same, else new ones, which are then kept.

    `made_of` has versions, and source files whose contents count. A file that is damaged or cannot be written costs time alone.
    """
    digest = hashlib.sha256()
    for part in made_of:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    path = folder / f"{name}-{digest.hexdigest()[:32]}.npz"
    # A zip archive has a checksum of each array. The file is opened here: numpy leaves that of a damaged archive open.
    damaged = (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError)
    with suppress(*damaged), path.open("rb") as file, np.load(file) as archive:
        return {key: archive[key] for key in archive.files}
    tables = make()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, tables)
        for older in set(folder.glob(f"{name}-*.npz")) - {path}:
            older.unlink(missing_ok=True)
    return tables


def _write(path: Path, tables: Arrays) -> None:
    """Write the archive as a whole: processes may start at the same time."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **tables)  # type: ignore[arg-type]
        # Those of root are for every user, as machine code is.
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
