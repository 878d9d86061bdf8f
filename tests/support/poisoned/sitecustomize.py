"""Makes documents deadly for every Python process that has this folder first in PYTHONPATH.

Decoding a value that holds one of these words does to the process what a defect of a parser would do, deep in C code.
"""

import ctypes
import os
import re
import signal
from pathlib import Path

import orjson

_loads = orjson.loads


def _die_once(path: Path) -> None:
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _deadly_loads(value: bytes) -> object:
    if b"deadly-" in value:
        if b"deadly-segfault" in value:
            ctypes.string_at(0)
        if b"deadly-abort" in value:
            os.abort()
        if b"deadly-endless" in value:
            # Holds the interpreter: no thread and no handler of a signal gets a turn.
            re.match("(a+)+$", "a" * 60 + "b")
        if b"deadly-error" in value:
            raise RecursionError("a defect of the decoder")
        if b"deadly-once" in value:
            _die_once(Path(os.environ["DEADLY_ONCE"]))
    return _loads(value)


orjson.loads = _deadly_loads
