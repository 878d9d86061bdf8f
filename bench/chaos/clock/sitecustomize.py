"""Imported by every Python process that has this folder in its path: its clock is wrong by the seconds in a file.

The file is read at every look at the clock, so that the clock can jump while the process runs. The monotonic clock stays
true, as the kernel's does. Debian's libfaketime is no way to do that: with a true monotonic clock it lets sleeps fail.
"""

import os
import time
from pathlib import Path

_OFFSET = Path(os.environ["CHAOS_CLOCK"])
_true_time_ns = time.time_ns


def _time_ns() -> int:
    return _true_time_ns() + int(_OFFSET.read_text()) * 10**9


def _time() -> float:
    return _time_ns() / 1e9


time.time_ns, time.time = _time_ns, _time
