"""The interpreter's search for objects that hold each other: seldom, while batches walk the path."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN = 100_000
"""New objects after which the youngest are searched. A batch makes some ten a document; nearly all go by themselves."""

_SEARCHES_BETWEEN = (20, 20)


@contextmanager
def seldom_searched() -> Iterator[None]:
    """Search for garbage a hundredth as often as usual.

    As shipped, Python searches all that a batch holds again and again before it lets go of it: a twentieth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN, *_SEARCHES_BETWEEN)
    try:
        yield
    finally:
        gc.set_threshold(*before)
