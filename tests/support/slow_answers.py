"""Proxy to a broker whose answers to some kinds of request come late, as those of a busy broker do."""

import asyncio
import threading
from typing import Self

from deploy.local_kafka import HOST

LIST_OFFSETS, METADATA, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 2, 3, 11, 12, 14
"""Numbers of requests in Kafka's protocol."""


class SlowAnswers:
    """Holds answers back by their requests' numbers, and with them all later ones of the connection, as a broker does."""

    def __init__(self, port: int, target_port: int) -> None:
        self.port, self._target_port = port, target_port
        self.seconds: dict[int, float] = {}
        """Time for which an answer is held back, by its request's number."""
        self.waiting: dict[tuple[asyncio.StreamWriter, bytes], float] = {}
        """Time for the answer to each of these requests: the writer to the client, and the correlation id."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slow-answers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, from_client: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        from_broker, broker = await asyncio.open_connection(HOST, self._target_port)
        pumps = [
            asyncio.create_task(self._pass_requests(from_client, client, broker)),
            asyncio.create_task(self._pass_answers(from_broker, client)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            client.close()
            broker.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, broker: asyncio.StreamWriter
    ) -> None:
        while True:
            message = await _message(reader)
            if seconds := self.seconds.get(int.from_bytes(message[4:6])):
                self.waiting[client, message[8:12]] = seconds
            broker.write(message)

    async def _pass_answers(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while True:
            message = await _message(reader)
            if seconds := self.waiting.get((client, message[4:8])):
                await asyncio.sleep(seconds)
                del self.waiting[client, message[4:8]]
            client.write(message)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A whole message of Kafka's protocol, with its size before it."""
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size))
