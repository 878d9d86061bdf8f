"""Delivery: what a broker's refusal of a batch means, by what its topics take now."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from kafka import errors

from index import Source
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.records.record import Record
from streamer.settings.settings import Settings
from streamer.transports.kafka import writer
from streamer.transports.kafka.client import Producer, Send
from streamer.transports.kafka.writer import Writer

LIMIT_BYTES = 500_000


class Refusing:
    """A producer whose broker finds every batch too large."""

    identity = None

    def __init__(self, error: errors.KafkaError) -> None:
        self._error = error

    def has_lost_connection(self) -> bool:
        return False

    def begin(self) -> None:
        pass

    def fill(self, *_: object) -> bool:
        raise self._error


def sends(*lengths: int) -> list[Send]:
    return [
        Send("unique", Record(Source("pages", 0), "pages", place, None, b"x" * length, 0), (), None)
        for place, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("error", [errors.MessageSizeTooLargeError(), errors.RecordListTooLargeError()])
@pytest.mark.parametrize(
    ("taken_now", "expected", "words"),
    [
        (LIMIT_BYTES, SettingsError, "the largest, pages/0/1, has 70 bytes.*raise max.message.bytes"),
        (LIMIT_BYTES - 1, DeliveryDoubtful, f"no more than {LIMIT_BYTES - 1} bytes by now.*pages/0/1, has 70 bytes"),
        # Without the right to ask, only a person can know.
        (None, SettingsError, "raise max.message.bytes"),
    ],
    ids=["the same limit", "a lower one", "unknown"],
)
def test_a_batch_that_is_too_large_is_made_anew_only_where_the_topics_take_less_than_before(
    monkeypatch: pytest.MonkeyPatch,
    error: errors.KafkaError,
    taken_now: int | None,
    expected: type[Exception],
    words: str,
) -> None:
    answers: Iterator[int | None] = iter([LIMIT_BYTES, taken_now])
    monkeypatch.setattr(writer, "take_over", lambda *_, **__: None)
    monkeypatch.setattr(writer, "output_bytes_max", lambda *_: next(answers))

    def make(*_: object) -> Producer:
        return cast(Producer, Refusing(error))

    nobody: Any = None
    delivering = Writer(Settings(), "0", nobody, make, ["unique"], note=None)
    with pytest.raises(expected, match=words):
        delivering.deliver(sends(20, 70, 30), nobody, None)
