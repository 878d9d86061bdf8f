"""One worker over real Kafka, whose process dies by kill -9 at a named point of its n-th batch."""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from index.index import Index
from index.storage.file.commit_hooks import CommitHooks
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.observe.batch_report import BatchReport
from streamer.records.record import Batch, Outgoing
from streamer.service.loop import Loop
from streamer.service.wiring import build_service
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.clients import Attempt
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.transport import Assigned
from tests.support.listening import Listening
from tests.support.without_journal import forget_positions

POINTS = (
    "after-read",
    "before-index-commit",
    "after-index-commit",
    "after-send",
    "before-kafka-commit",
    "after-kafka-commit",
)
"""In the order in which a batch passes them; confluent-kafka sends the offsets beside the records."""


class Doom:
    """Dies at the n-th passage of one point; the way there starts with the first batch, not with opening the index."""

    def __init__(self, point: str, passage: int) -> None:
        self._point = point
        self._left = passage
        self.begun = False

    def pass_by(self, point: str) -> None:
        if point == self._point and self.begun:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class DoomedTransport(KafkaTransport):
    """The real transport, passing its points by."""

    def __init__(self, settings: Settings, doom: Doom) -> None:
        super().__init__(settings, "0")
        self._doom = doom
        self.delivered_to = 0

    def read(self) -> Batch | Assigned:
        event = super().read()
        if isinstance(event, Batch) and event.records:
            self._doom.begun = True
            self._doom.pass_by("after-read")
        return event

    def deliver(self, batch: Batch, outgoing: Sequence[Outgoing]) -> None:
        super().deliver(batch, outgoing)
        self.delivered_to = max(batch.ends.values(), default=self.delivered_to)
        self._doom.pass_by("after-kafka-commit")


def doom_steps(doom: Doom) -> None:
    """Let every step of a transaction pass its point by, whichever client takes it."""
    begin = Attempt.__init__

    def begin_or_die(self: Attempt, call: Callable[[], None], step: str, *rest: Any) -> None:
        doom.pass_by({"offsets": "after-send", "commit": "before-kafka-commit"}[step])
        begin(self, call, step, *rest)

    Attempt.__init__ = begin_or_die  # type: ignore[method-assign]


def live(point: str, passage: int, count: int, journal: bool, overrides: list[str]) -> None:
    """Work until the first `count` records of the one partition are delivered, or die before.

    Without a journal: the negative control.
    """
    settings = load(None, overrides, {})
    doom = Doom(point, passage)
    doom_steps(doom)
    fingerprinter = scheme_for(settings)
    parameters = parameters_for(settings, fingerprinter.stamp())
    hooks = CommitHooks(
        before_commit=lambda: doom.pass_by("before-index-commit"),
        after_commit=lambda: doom.pass_by("after-index-commit"),
    )
    service: Loop
    transport: DoomedTransport

    def look(_: BatchReport) -> None:
        if transport.delivered_to >= count:
            service.stop()

    stories = settings.topics.stories is not None
    if not journal:
        forget_positions(pytest.MonkeyPatch())
    with Index.open(settings.index.directory, parameters, map_bytes_max=2**30, hooks=hooks, stories=stories) as index:
        transport = DoomedTransport(settings, doom)
        service = build_service(settings, transport, index, fingerprinter, Listening(batch=look), settings.recovery)
        service.run()
