"""A final refusal names its topic and setting, as far as the broker tells them."""

from typing import cast

import pytest
from kafka import KafkaAdminClient, errors

from index import Source
from streamer.records.record import Record
from streamer.transports.kafka import refusals
from streamer.transports.kafka.client import Send
from streamer.transports.kafka.clients import TIMESTAMP_AFTER, TIMESTAMP_BEFORE
from streamer.transports.kafka.refusals import why_refused


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.PolicyViolationError("no"), "refuses what is written to topic 'unique'"),
        (errors.InvalidTopicError("no"), "refuses what is written to topic 'unique'"),
        (errors.InvalidRecordError("no"), "refuses what is written to topic 'unique'"),
        (errors.UnsupportedCompressionTypeError("no"), "kafka.compression for topic 'unique'"),
    ],
)
def test_a_refusal_without_a_visible_setting_names_the_topic_and_the_brokers_words(
    monkeypatch: pytest.MonkeyPatch, error: errors.KafkaError, words: str
) -> None:
    monkeypatch.setattr(refusals, "topic_settings", lambda *_: {})
    record = Record(Source("topic-id", 0), "documents", 7, key=None, value=b"{}", timestamp_ms=0)
    sends = [Send("unique", record, (), partition=None)]
    told = why_refused(cast(KafkaAdminClient, None), error, sends)
    assert words in told
    assert "no" in told


def test_a_refused_time_names_the_topic_s_setting_and_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"verdicts": {"cleanup.policy": "delete", TIMESTAMP_AFTER: "3600000", TIMESTAMP_BEFORE: str(2**63 - 1)}}
    monkeypatch.setattr(refusals, "topic_settings", lambda *_: found)
    record = Record(Source("topic-id", 0), "documents", 7, key=None, value=b"{}", timestamp_ms=2**41)
    told = why_refused(
        cast(KafkaAdminClient, None),
        errors.InvalidTimestampError("out of range"),
        [Send("verdicts", record, (), partition=0)],
    )
    assert told.startswith(
        f"topic 'verdicts' has {TIMESTAMP_AFTER} = 3600000, which refuses a record's time: set each to "
    )
    assert "message.timestamp.type to LogAppendTime, and look at the clock of this host" in told
