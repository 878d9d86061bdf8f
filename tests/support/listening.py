"""A listener made of callables."""

from collections.abc import Callable
from typing import Any

from streamer.service.loop import Listener


class Listening(Listener):
    """Calls what it is given, by the name of the event."""

    def __init__(self, **reactions: Callable[..., Any]) -> None:
        self.__dict__.update(reactions)
