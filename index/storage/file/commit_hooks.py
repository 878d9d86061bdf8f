"""Hooks around commits, for tests that fail or die exactly there."""

from collections.abc import Callable
from dataclasses import dataclass


def nothing() -> None:
    """The default hook: does nothing."""


@dataclass(frozen=True, slots=True)
class CommitHooks:
    """Hooks around every commit of a write transaction, for tests that fail or die exactly there.

    An exception in `before_commit` aborts the transaction; one in `after_commit` leaves it committed.

    >>> steps = []
    >>> CommitHooks(before_commit=lambda: steps.append("decided")).before_commit()
    >>> steps
    ['decided']
    """

    before_commit: Callable[[], None] = nothing
    after_commit: Callable[[], None] = nothing
