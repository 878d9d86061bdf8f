"""TCP proxy between the service and the brokers, whose links can be cut, stalled, halved, slowed down and refused."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self, TypeVar

from deploy.local_kafka import HOST

Direction = Literal["to the broker", "to the service"]
DIRECTIONS: tuple[Direction, Direction] = ("to the broker", "to the service")

_CHUNK_BYTES = 65_536
_ANSWER_SECONDS = 10

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Pair:
    """One connection of a client, and the one to the broker that stands behind it."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    half_open: bool = False

    def abort(self) -> None:
        self.client.transport.abort()
        self.broker.transport.abort()


class Proxy:
    """Proxy on a thread of its own; a context manager. Every method may be called from any thread.

    A fault lasts until `heal`. What a stall holds back is delivered then, as a real network does. A connection that was
    halved stays silent for ever: it is for the client to give it up.
    """

    def __init__(self, targets: Mapping[int, int]) -> None:
        """`targets`: the broker's port behind each port of the proxy."""
        self._targets = targets
        self.ports = tuple(targets)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._pairs: set[_Pair] = set()
        self._gates = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._bytes_left: dict[Direction, int | None] = dict.fromkeys(DIRECTIONS)
        self._latency_seconds = 0.0
        self._bytes_per_second = float("inf")

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> int:
        """Cut all connections. Returns how many there were."""
        return self._do(self._cut())

    def cut_inside(self, direction: Direction, after_bytes: int) -> None:
        """Let this many bytes pass in a direction, in all connections together, then cut the one that would carry on."""
        self._do(self._set(self._bytes_left, direction, after_bytes))

    def was_cut_inside(self, direction: Direction) -> bool:
        """Whether the cut that `cut_inside` asked for has happened."""
        return self._bytes_left[direction] is None

    def stall(self, *directions: Direction) -> None:
        """Hold back all bytes in these directions."""
        self._do(self._close_gates(directions))

    def halve(self) -> int:
        """Close the broker's side of all connections; clients see nothing but silence. Returns how many there were."""
        return self._do(self._halve())

    def refuse(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._do(self._refuse())

    def slow_down(self, latency_seconds: float, bytes_per_second: float) -> None:
        """Delay every chunk of bytes, and let only so many through, in each connection."""
        self._latency_seconds, self._bytes_per_second = latency_seconds, bytes_per_second

    def heal(self) -> None:
        """End all faults. Raises OSError where the port is taken."""
        self._latency_seconds, self._bytes_per_second = 0.0, float("inf")
        self._do(self._open())

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_ANSWER_SECONDS)

    async def _set(self, target: dict[Direction, int | None], direction: Direction, value: int) -> None:
        target[direction] = value

    async def _close_gates(self, directions: tuple[Direction, ...]) -> None:
        for direction in directions:
            self._gates[direction].clear()

    async def _open(self) -> None:
        for direction in DIRECTIONS:
            self._gates[direction].set()
            self._bytes_left[direction] = None
        for port, target_port in self._targets.items() if not self._servers else ():
            self._servers.append(await asyncio.start_server(partial(self._serve, target_port), HOST, port))

    async def _refuse(self) -> None:
        # First nothing more is accepted: a server that is closed amid an acceptance leaves that connection open.
        for listening in (each for server in self._servers for each in server.sockets):
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
        while self._servers:
            self._servers.pop().close()
        await self._cut()

    async def _end(self) -> None:
        """Refuse, cut, and end what is under way, so that no connection is left open."""
        await self._refuse()
        # A connection that was accepted just now has no pair yet.
        await _settle()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cut()
        await _settle()

    async def _cut(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.abort()
        return len(pairs)

    async def _halve(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.half_open = True
            pair.broker.transport.abort()
        return len(pairs)

    async def _serve(self, target_port: int, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            from_broker, broker = await asyncio.open_connection(HOST, target_port)
        except (OSError, asyncio.CancelledError):
            client.transport.abort()
            return
        pair = _Pair(client, broker)
        self._pairs.add(pair)
        pumps = [
            asyncio.create_task(self._pump(reader, broker, "to the broker")),
            asyncio.create_task(self._pump(from_broker, client, "to the service")),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            if pair.half_open:
                await _swallow(reader)
        finally:
            # Not at once: what has been written goes out first, so that a message can arrive in part.
            client.close()
            broker.close()
            self._pairs.discard(pair)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        """Pass bytes on until either side ends, or a fault ends the connection."""
        try:
            while data := await reader.read(_CHUNK_BYTES):
                await self._gates[direction].wait()
                if self._latency_seconds:
                    await asyncio.sleep(self._latency_seconds + len(data) / self._bytes_per_second)
                left = self._bytes_left[direction]
                if left is not None and left < len(data):
                    self._bytes_left[direction] = None
                    writer.write(data[:left])
                    return
                if left is not None:
                    self._bytes_left[direction] = left - len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            return


async def _swallow(reader: asyncio.StreamReader) -> None:
    """Read on until the other side gives up, and answer nothing."""
    try:
        while await reader.read(_CHUNK_BYTES):
            pass
    except OSError:
        return


async def _settle() -> None:
    """Let what was just accepted begin, and what was just cut come to its end."""
    for _ in range(10):
        await asyncio.sleep(0.01)
