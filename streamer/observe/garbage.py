"""Garbage: how often a process searches for objects that hold each other."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BEFORE = 1_000_000
"""New objects before the first search. Imports and settings make some 400,000, and all of them stay."""

OBJECTS_BETWEEN = 100_000
"""New objects between searches of a loop. A document makes some ten. Reference counts free nearly all."""

_SEARCHES_BETWEEN = (20, 20)


def leave_modules_alone() -> None:
    """Search neither while a process starts nor at its end.

    Python's default searches all modules again and again while they are imported, a fifth of a start. At the end it
    searches them twice more (.3 s), for nothing that the process leaves behind.
    """
    gc.set_threshold(OBJECTS_BEFORE, *_SEARCHES_BETWEEN)
    atexit.register(gc.freeze)


@contextmanager
def searched_seldom() -> Iterator[None]:
    """Search a hundredth as often as Python would, and only what is made inside.

    Python's default searches a batch's objects repeatedly before their release: some 9 % of the time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN, *_SEARCHES_BETWEEN)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
