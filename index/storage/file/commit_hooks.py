"""Hooks around commits, by which tests fail or die at exactly these places."""

from collections.abc import Callable
from dataclasses import dataclass


def nothing() -> None:
    """The hook that does nothing."""


@dataclass(frozen=True, slots=True)
class CommitHooks:
    """Hooks around every commit of a write transaction, so that tests can fail or die at exactly these places.

    An exception of `before_commit` aborts the transaction; one of `after_commit` leaves it committed.
    """

    before_commit: Callable[[], None] = nothing
    after_commit: Callable[[], None] = nothing
