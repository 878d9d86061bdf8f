"""A worker's states, and the ways between them; `streamer.service.loop` draws them."""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """A worker's state.

    >>> State.RUNNING in TRANSITIONS[State.STARTING]
    True
    """

    STARTING = "starting"
    RESTORING = "restoring"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.STARTING: frozenset({State.RESTORING, State.RUNNING, State.STOPPED}),
    State.RESTORING: frozenset({State.RUNNING, State.STOPPED}),
    State.RUNNING: frozenset({State.RESTORING, State.DRAINING, State.STOPPED}),
    State.DRAINING: frozenset({State.STOPPED}),
    State.STOPPED: frozenset(),
}
