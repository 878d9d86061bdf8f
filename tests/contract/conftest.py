from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamer.settings.settings import Settings
    from streamer.transports.kafka.transport import KafkaTransport


@pytest.fixture
def open_transport() -> Iterator[Callable[[Settings], KafkaTransport]]:
    """Factory of transports that are closed at the end of the test."""
    from streamer.transports.kafka.transport import KafkaTransport

    transports: list[KafkaTransport] = []

    def make(settings: Settings) -> KafkaTransport:
        transports.append(KafkaTransport(settings, "0"))
        return transports[-1]

    yield make
    for transport in transports:
        transport.close()
    gc.collect()
