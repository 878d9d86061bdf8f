"""What a forked child does with its parent's open files: it closes its copies, and uses none.

LMDB's locks and transactions belong to the process that opened the file. A lock of an open file description (flock, OFD)
lasts until the last copy of its descriptor is closed, so a child that keeps one would keep the lock.

A child can close a file only between two transactions, so a fork waits for calls under way in other threads.
"""

import os
from typing import Protocol
from weakref import ref


class Owned(Protocol):
    """What belongs to the process that opened it."""

    def before_fork(self) -> None:
        """Finish what other threads do with it, or wait a limited time for that."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on in the parent; close it in the child."""


_owned: "set[ref[Owned]]" = set()
_forking: list[Owned] = []


def register(owned: Owned) -> None:
    """Tell it about every fork, as long as it exists."""
    _owned.add(ref(owned, _owned.discard))


class OwnDescriptor:
    """A file descriptor of this process. A forked child closes its copy at once.

    >>> descriptor = OwnDescriptor(os.open(folder, os.O_RDONLY))
    >>> descriptor.close(), descriptor.close(), descriptor.is_open
    (None, None, False)
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_open = True
        register(self)

    def close(self) -> None:
        """Close it; further calls do nothing."""
        if self.is_open:
            self.is_open = False
            os.close(self.number)

    def before_fork(self) -> None:
        """See `Owned`."""

    def after_fork(self, *, in_child: bool) -> None:
        """See `Owned`."""
        if in_child:
            self.close()


def _before() -> None:
    # `tuple` copies the set in one step, while other threads may open and close files.
    _forking.extend(owned for each in tuple(_owned) if (owned := each()) is not None)
    for owned in _forking:
        owned.before_fork()


def _after(*, in_child: bool) -> None:
    while _forking:
        _forking.pop().after_fork(in_child=in_child)


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
