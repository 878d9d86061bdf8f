"""Notifications to systemd: started, alive, stopping.

By sd_notify(3): a datagram with lines to the socket in NOTIFY_SOCKET; without it, calls do nothing.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Self

import structlog

log = structlog.get_logger(__name__)


class ServiceManager:
    """The service manager of this process.

    >>> ServiceManager(address="").started()

    address           socket address, "@" first for an abstract one; empty: none
    watchdog_seconds  silence after which it kills the service; 0: never
    """

    def __init__(
        self, address: str, watchdog_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        # Half the time, as sd_watchdog_enabled(3) advises.
        self._period_seconds = watchdog_seconds / 2
        self._clock = clock
        self._sent_at_seconds = 0.0
        self._sent_status = ""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """From NOTIFY_SOCKET, and WATCHDOG_USEC unless WATCHDOG_PID names another process."""
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog = int(environment.get("WATCHDOG_USEC", "0")) if mine else 0
        return cls(environment.get("NOTIFY_SOCKET", ""), watchdog / 1e6)

    def started(self) -> None:
        """Notify the start."""
        self._send("READY=1")

    def alive(self, status: str) -> None:
        """Notify life, with a status for people. Call it often."""
        if not self._address:
            return
        now_seconds = self._clock()
        is_due = 0 < self._period_seconds <= now_seconds - self._sent_at_seconds
        if is_due or status != self._sent_status:
            self._sent_status, self._sent_at_seconds = status, now_seconds
            self._send(f"WATCHDOG=1\nSTATUS={' '.join(status.split())}")

    def stopping(self) -> None:
        """Notify the stop."""
        self._send("STOPPING=1")

    def _send(self, lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
                # A manager that does not read must not block the supervisor.
                datagrams.setblocking(False)
                datagrams.sendto(lines.encode(), self._address)
        except OSError as error:
            # The manager decides what to do with a silent service.
            log.warning("cannot notify systemd", socket=self._address, reason=str(error))
