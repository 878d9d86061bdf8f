"""The port of a service whose workers run, with the process that answers and an index of a few documents; no Kafka."""

import http.client
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from index import HostShare, WatchedHosts
from streamer.ask.filter import Filter
from streamer.ask.service import AskService
from streamer.ask.status import Status
from streamer.observe.http import HttpServer
from streamer.observe.metrics import Metrics
from streamer.service.state import State
from streamer.settings.settings import Settings, load

TEXT = (
    "In the harbour of the small town the fishermen mended their nets, and spoke of the storm that had passed at night. "
) * 4
NEAR = TEXT + "Nobody was hurt, said the mayor."
HOSTILE = "<script>alert(1)</script>&\"'"
KNOWN = [{"id": "first", "text": TEXT}, {"id": "second/part?<b>", "text": NEAR}, {"id": "short", "text": "one"}]


def settings_for(directory: Path, *overrides: str) -> Settings:
    return load(None, [f"index.directory={directory}", "ask.enabled=true", *overrides], {})


class Asked:
    """The running port; `ask` sends one request."""

    def __init__(self, settings: Settings) -> None:
        self.measures = Metrics()
        self.hosts = WatchedHosts([HostShare(HOSTILE, 200, 190, True)], 1)
        self.ask_service = AskService(settings, Status(self.measures, lambda: (True, "ok"), lambda: self.hosts))
        self.server = HttpServer(
            "127.0.0.1",
            0,
            self.measures.exposition,
            lambda: (True, "ok"),
            lambda: (True, "ok"),
            routes=self.ask_service.routes,
        )

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        status, content, _ = self.ask_raw(method, path, body, headers)
        return status, orjson.loads(content)

    def ask_raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        kind = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, body, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def check(self, *documents: object, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        return self.ask("POST", "/v1/check", orjson.dumps({"documents": documents}), headers)

    def attend_until_ready(self, timeout_seconds: float = 120) -> None:
        deadline = time.monotonic() + timeout_seconds
        while True:
            self.ask_service.attend([State.RUNNING])
            if self.check({"text": TEXT})[0] == 200:
                return
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.05)


@contextmanager
def asked_service(directory: Path, *overrides: str) -> Iterator[Asked]:
    settings = settings_for(directory, *overrides)
    with Filter(directory, settings, source="known") as known:
        if known.position == 0:
            known.admit(KNOWN)
    asked = Asked(settings)
    with asked.server:
        try:
            yield asked
        finally:
            asked.ask_service.end()
