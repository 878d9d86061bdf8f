"""One worker of a part over real Kafka, whose process dies by kill -9 at a named point of its n-th batch."""

from collections.abc import Sequence
from typing import Any

import pytest

from index.index import Index
from index.storage.file.commit_hooks import CommitHooks
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.observe.batch_report import BatchReport
from streamer.parts.wiring import decide_part, fingerprint_part, route_part
from streamer.parts.wrapper import Wrapper
from streamer.records.record import Batch, Outgoing
from streamer.service.loop import Loop
from streamer.settings.parts import Part
from streamer.settings.settings import load
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.doomed_worker import POINTS, Doom, doom_steps
from tests.support.listening import Listening
from tests.support.without_journal import forget_positions

POINTS_OF: dict[Part, tuple[str, ...]] = {
    "fingerprint": tuple(point for point in POINTS if "index" not in point),
    "decide": POINTS,
    "route": tuple(point for point in POINTS if "index" not in point),
}


def doom_transport(transport: KafkaTransport | Wrapper, doom: Doom) -> None:
    """Let a transport pass its points by."""
    read, deliver = transport.read, transport.deliver

    def read_or_die() -> Any:
        event = read()
        if isinstance(event, Batch) and event.records:
            doom.begun = True
            doom.pass_by("after-read")
        return event

    def deliver_and_die(batch: Batch, outgoing: Sequence[Outgoing], *rest: Any) -> None:
        deliver(batch, outgoing, *rest)
        doom.pass_by("after-kafka-commit")

    transport.read, transport.deliver = read_or_die, deliver_and_die  # type: ignore[method-assign]


def live_part(part: Part, point: str, passage: int, count: int, journal: bool, overrides: list[str]) -> None:
    """Work until this process has handed on `count` records of the part's input, or dies before."""
    settings = load(None, overrides, {})
    doom = Doom(point, passage)
    doom_steps(doom)
    fingerprinter = scheme_for(settings)
    done = 0
    loop: Loop

    def add(batch: BatchReport) -> None:
        nonlocal done
        done += batch.records
        if done >= count:
            loop.stop()

    listener = Listening(batch=add)
    if part == "decide":
        hooks = CommitHooks(
            before_commit=lambda: doom.pass_by("before-index-commit"),
            after_commit=lambda: doom.pass_by("after-index-commit"),
        )
        parameters = parameters_for(settings, fingerprinter.stamp())
        if not journal:
            forget_positions(pytest.MonkeyPatch())
        with Index.open(settings.index.directory, parameters, map_bytes_max=2**30, hooks=hooks) as index:
            deciding, loop = decide_part(settings, "0", index, fingerprinter, listener)
            doom_transport(deciding, doom)
            loop.run()
    elif part == "route":
        routing, loop = route_part(settings, "0", fingerprinter, listener)
        doom_transport(routing, doom)
        loop.run()
    else:
        reading, loop = fingerprint_part(settings, "0", fingerprinter, listener)
        doom_transport(reading, doom)
        loop.run()
