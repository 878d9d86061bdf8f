"""Connections of the port: how many stay open, and which one closes when there are too many.

A connection that waits for its client is worth less than a new one: the oldest of them closes. Silent clients push each
other out, and a client that sends its request at once gets its answer.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

ADDRESS_CONNECTIONS_MAX = 64
"""Connections of one address that wait for their client."""

CONNECTIONS_MAX = 400
"""Connections of all addresses, also those that wait for their answers."""


class _Connection(NamedTuple):
    address: str
    stream: socket.socket
    is_answering: Callable[[], bool]


class Connections:
    """The open connections, oldest first.

    >>> connections = Connections()
    >>> connections.admit("192.0.2.1", stream, lambda: False)
    True
    """

    def __init__(self) -> None:
        self._open: list[_Connection] = []

    def admit(self, address: str, stream: socket.socket, is_answering: Callable[[], bool]) -> bool:
        """Count a new connection, and close an old one for it where a limit asks for that.

        is_answering  whether the service, not the client, has to act next on this connection

        False where the limit is reached and every connection waits for the service.
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
        # The event loop owns the socket and its buffers: it sees the end of the stream, and closes. The client may be gone.
        with suppress(OSError):
            connection.stream.shutdown(socket.SHUT_RDWR)
