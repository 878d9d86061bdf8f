"""Tables that one process makes and the next one reads, in the folder of the kernels that use them."""

import hashlib
import json
import math
import mmap
import os
import struct
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
_SIZE = struct.Struct("<Q")
_ALIGNMENT_BYTES = 64


def kept_tables(folder: Path, name: str, made_of: Sequence[str | Path], make: Callable[[], Arrays]) -> Arrays:
    """Arrays by name: those kept in the folder if they were made of the same, else new ones, which are then kept.

    `made_of` has versions, and source files whose contents count. A file that is damaged or cannot be written costs time alone.
    """
    digest = hashlib.sha256()
    for part in made_of:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    path = folder / f"{name}-{digest.hexdigest()[:32]}.tables"
    with suppress(OSError, ValueError):
        # Damaged tables would fold letters into others, or lead a kernel out of its arrays.
        if (tables := _mapped(path)) is not None:
            return tables
    tables = make()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, tables)
        for older in set(folder.glob(f"{name}-*.tables")) - {path}:
            older.unlink(missing_ok=True)
    return tables


def _mapped(path: Path) -> Arrays | None:
    """Tables in a file, which all processes share in memory; None if it is damaged."""
    with path.open("rb") as file:
        # Kernels compiled for tables in memory refuse those that cannot be written. Nothing writes them.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    if content[:_DIGEST_BYTES] != xxhash.xxh3_128_digest(memoryview(content)[_DIGEST_BYTES:]):
        return None
    end = _DIGEST_BYTES + _SIZE.size + _SIZE.unpack_from(content, _DIGEST_BYTES)[0]
    return {
        name: np.frombuffer(content, dtype, math.prod(shape), end + begin).reshape(shape)
        for name, dtype, shape, begin in json.loads(content[_DIGEST_BYTES + _SIZE.size : end])
    }


def _write(path: Path, tables: Arrays) -> None:
    """Write the tables behind their digest and a list of them, as a whole: processes may start at the same time."""
    listed, columns, filled = [], [], 0
    for name, table in tables.items():
        listed.append([name, table.dtype.str, table.shape, filled])
        octets = np.ascontiguousarray(table).tobytes()
        columns.append(octets.ljust(-len(octets) % _ALIGNMENT_BYTES + len(octets), b"\0"))
        filled += len(columns[-1])
    heading = json.dumps(listed).encode()
    before = _DIGEST_BYTES + _SIZE.size + len(heading)
    heading += b" " * (-before % _ALIGNMENT_BYTES)
    content = _SIZE.pack(len(heading)) + heading + b"".join(columns)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    unfinished = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(xxhash.xxh3_128_digest(content))
            file.write(content)
        # Those of root are for every user, as machine code is.
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
