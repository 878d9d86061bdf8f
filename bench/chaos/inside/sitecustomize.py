"""Imported by every process of the services that are struck: their clock can be set wrong, and documents can be deadly.

CHAOS_CLOCK names a file of seconds by which the clock is wrong. It is read at every look at the clock, so that the clock
can jump while the process runs. The monotonic clock stays true, as the kernel's does. Debian's libfaketime is no way to
do that: with a true monotonic clock it lets sleeps fail.

A value that holds a deadly word does to the process what a defect deep in the C code of a parser would do.
"""

import ctypes
import os
import re
import time
from pathlib import Path

import orjson

if "CHAOS_CLOCK" in os.environ:
    _OFFSET = Path(os.environ["CHAOS_CLOCK"])
    _true_time_ns = time.time_ns

    def _time_ns() -> int:
        return _true_time_ns() + int(_OFFSET.read_text()) * 10**9

    def _time() -> float:
        return _time_ns() / 1e9

    time.time_ns, time.time = _time_ns, _time

_true_loads = orjson.loads


def _deadly_loads(value: bytes) -> object:
    if b"chaos-deadly" in value:
        if b"chaos-deadly-abort" in value:
            os.abort()
        if b"chaos-deadly-segfault" in value:
            ctypes.string_at(0)
        if b"chaos-deadly-endless" in value:
            # Holds the interpreter: no other thread and no handler of a signal gets a turn.
            re.match("(a+)+$", "a" * 60 + "b")
    return _true_loads(value)


orjson.loads = _deadly_loads
