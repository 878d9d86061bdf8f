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
_heavy = 0

HEAVY_MAX = 4
"""So many documents with `deadly-heavy` fit into one process; at the next the kernel kills it, as for lack of memory."""


def _die_once(path: Path) -> None:
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _deadly_loads(value: bytes) -> object:
    global _heavy
    if b"deadly-" in value:
        if b"deadly-heavy" in value:
            _heavy += 1
            if _heavy > HEAVY_MAX:
                os.kill(os.getpid(), signal.SIGKILL)
        if b"deadly-segfault" in value:
            ctypes.string_at(0)
        if b"deadly-abort" in value:
            os.abort()
        if b"deadly-endless" in value:
            # Holds the interpreter: no thread and no handler of a signal gets a turn.
            re.match("(a+)+$", "a" * 60 + "b")
        if b"deadly-error" in value:
            raise RecursionError("a defect of the decoder")
        if b"deadly-import" in value:
            raise ModuleNotFoundError("No module named 'jieba'", name="jieba")
        if b"deadly-once" in value:
            _die_once(Path(os.environ["DEADLY_ONCE"]))
    return _loads(value)


orjson.loads = _deadly_loads
