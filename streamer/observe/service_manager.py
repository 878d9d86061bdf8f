"""Word to the service manager that started the service, systemd: it runs, it is alive, it ends.

The protocol is sd_notify's, a datagram of lines to the socket that NOTIFY_SOCKET names. Where nobody named one, every
call does nothing.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Self

import structlog

log = structlog.get_logger(__name__)


class ServiceManager:
    """Whoever started this process and wants to hear of it.

    address           of its socket; empty: nobody asked. "@" stands for the null byte of an abstract one
    watchdog_seconds  it ends the service that says nothing for so long; 0: it does not watch
    """

    def __init__(
        self, address: str, watchdog_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        # Half of the time, as sd_watchdog_enabled(3) advises.
        self._period_seconds = watchdog_seconds / 2
        self._clock = clock
        self._said_at_seconds = 0.0
        self._said = ""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """By NOTIFY_SOCKET, and WATCHDOG_USEC where WATCHDOG_PID names no other process (sd_notify(3))."""
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog = int(environment.get("WATCHDOG_USEC", "0")) if mine else 0
        return cls(environment.get("NOTIFY_SOCKET", ""), watchdog / 1e6)

    def started(self) -> None:
        """The service does what it can now: those that wait for its start go on."""
        self._send("READY=1")

    def alive(self, words: str) -> None:
        """The service has looked after everything just now. `words` tell people how it is; call it often."""
        if not self._address:
            return
        now_seconds = self._clock()
        is_due = 0 < self._period_seconds <= now_seconds - self._said_at_seconds
        if is_due or words != self._said:
            self._said, self._said_at_seconds = words, now_seconds
            self._send(f"WATCHDOG=1\nSTATUS={' '.join(words.split())}")

    def stopping(self) -> None:
        """The service has begun to end."""
        self._send("STOPPING=1")

    def _send(self, lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
                # A manager that reads nothing must not hold up who looks after the workers.
                told.setblocking(False)
                told.sendto(lines.encode(), self._address)
        except OSError as error:
            # The manager decides what becomes of a service that it does not hear.
            log.warning("the service manager does not hear", socket=self._address, reason=str(error))
