"""Proxy to a broker whose answers to one kind of request come late, as those of a busy broker do."""

import asyncio

from bench.chaos.proxy import Direction, Proxy

LIST_OFFSETS = 2
"""Number of the request for the first or last offset of a partition, in Kafka's protocol."""


class SlowAnswers(Proxy):
    """Holds answers to requests of one number back. Other answers pass them, as those of other brokers would.

    api_key  number of the request in Kafka's protocol
    seconds  time for which an answer is held back
    """

    def __init__(self, port: int, target_port: int, api_key: int, seconds: float) -> None:
        super().__init__(port, target_port)
        self._api_key = api_key.to_bytes(2)
        self.seconds = seconds
        self.waiting: set[tuple[asyncio.StreamWriter, bytes]] = set()
        """Requests without an answer yet: the writer to the client, and the correlation id."""

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        (client,) = (pair.client for pair in self._pairs if writer in (pair.client, pair.broker))
        try:
            while True:
                size = await reader.readexactly(4)
                message = await reader.readexactly(int.from_bytes(size))
                if direction == "to the broker" and message[:2] == self._api_key:
                    self.waiting.add((client, message[4:8]))
                elif direction == "to the service" and (client, message[:4]) in self.waiting:
                    self._loop.call_later(self.seconds, self._answer, client, size + message)
                    continue
                writer.write(size + message)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return

    def _answer(self, client: asyncio.StreamWriter, message: bytes) -> None:
        self.waiting.discard((client, message[4:8]))
        if not client.is_closing():
            client.write(message)
