"""Limits on the port's open connections.

At a limit, a new connection replaces the oldest idle one. So silent clients displace each other, never a prompt one.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

ADDRESS_CONNECTIONS_MAX = 64
"""Most idle connections per address."""

CONNECTIONS_MAX = 400
"""Maximum connections in all, idle and busy."""


class _Connection(NamedTuple):
    address: str
    stream: socket.socket
    is_answering: Callable[[], bool]


class Connections:
    """The open connections, oldest first.

    >>> stream, client = socket.socketpair()
    >>> with stream, client:
    ...     Connections().admit("192.0.2.1", stream, lambda: False)
    True
    """

    def __init__(self) -> None:
        self._open: list[_Connection] = []

    def admit(self, address: str, stream: socket.socket, is_answering: Callable[[], bool]) -> bool:
        """Count a new connection; at a limit, close an idle one for it. Returns False if none is idle.

        is_answering  whether it waits for the service, not for its client
        """
        self._open = [each for each in self._open if each.stream.fileno() >= 0]
        idle = [each for each in self._open if not each.is_answering()]
        idle_here = [each for each in idle if each.address == address]
        if len(idle_here) >= ADDRESS_CONNECTIONS_MAX:
            self._close(idle_here[0])
        elif len(self._open) >= CONNECTIONS_MAX:
            if not idle:
                return False
            self._close(idle[0])
        self._open.append(_Connection(address, stream, is_answering))
        return True

    def _close(self, connection: _Connection) -> None:
        self._open.remove(connection)
        # The event loop owns the socket: it sees the end and closes. The client may be gone already.
        with suppress(OSError):
            connection.stream.shutdown(socket.SHUT_RDWR)
