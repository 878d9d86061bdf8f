"""Holding: a reading transaction held open over several that write, so that its values keep their addresses."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

HELD_WRITES = 32
"""Writes that a held transaction may outlast: while it is open, pages that they free cannot be used again."""

HELD_SECONDS = 1.0
"""Age at which the next operation ends a held transaction: other processes may write much where this one rests."""

Held = TypeVar("Held")


class Holding(Generic[Held]):
    """What holds a transaction.

    LMDB promises that its values keep their addresses until it ends or the map is resized. Meanwhile freed pages cannot be used
    again, so it is ended soon.
    """

    def __init__(self, begin: Callable[[], tuple[Held, Callable[[], None]]]) -> None:
        """begin: begins a transaction; gives it with what ends it."""
        self._begin = begin
        self._held: tuple[Held, Callable[[], None]] | None = None
        self._writes = 0
        self._until = 0.0

    def transaction(self) -> Held:
        """The open transaction; begins one where none is open."""
        if self._held is None:
            self._held = self._begin()
            self._writes, self._until = 0, time.monotonic() + HELD_SECONDS
        return self._held[0]

    def let_go(self) -> None:
        """End the open transaction, if there is one."""
        if self._held is not None:
            self._held[1]()
            self._held = None

    def grow_old(self, *, write: bool) -> None:
        """Count an operation that begins; end what is held over HELD_WRITES writes or HELD_SECONDS."""
        self._writes += write
        if self._writes > HELD_WRITES or time.monotonic() > self._until:
            self.let_go()
