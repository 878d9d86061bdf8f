"""Final refusals of a write: the broker's word does not change by a retry, so a person changes the topic's setting."""

from collections.abc import Collection, Mapping, Sequence

from kafka import KafkaAdminClient, errors

from streamer.transports.kafka.client import Send
from streamer.transports.kafka.clients import CLEANUP_POLICY, TIMESTAMP_AFTER, TIMESTAMP_BEFORE, topic_settings

FINAL = (
    errors.InvalidConfigurationError,
    errors.InvalidRecordError,
    errors.InvalidRequiredAcksError,
    errors.InvalidTimestampError,
    errors.InvalidTopicError,
    errors.PolicyViolationError,
    errors.UnsupportedCompressionTypeError,
    errors.UnsupportedForMessageFormatError,
)
"""Errors of a record or its topic that no retry mends. Sizes and rights have messages of their own."""

_TIMES = (TIMESTAMP_BEFORE, TIMESTAMP_AFTER)
_ANY_TIME = "9223372036854775807"


def why_refused(admin: KafkaAdminClient, error: errors.KafkaError, sends: Sequence[Send]) -> str:
    """Message about a final refusal: topic, setting, record and remedy, as far as the brokers tell. Raises KafkaError."""
    topics = list(dict.fromkeys(send.topic for send in sends))
    if isinstance(error, errors.UnsupportedCompressionTypeError):
        return f"the broker does not take kafka.compression for {_named(topics)} ({error}): choose another codec"
    causes = _causes(topic_settings(admin, topics, [CLEANUP_POLICY, *_TIMES]), error, sends)
    if causes:
        return f"{'; '.join(causes)} ({error})"
    return f"the broker refuses what is written to {_named(topics)} ({error}): change the settings of that topic"


def _causes(found: Mapping[str, Mapping[str, str]], error: errors.KafkaError, sends: Sequence[Send]) -> list[str]:
    causes: dict[str, str] = {}
    is_record, is_time = (isinstance(error, kind) for kind in (errors.InvalidRecordError, errors.InvalidTimestampError))
    for topic, record, *_ in sends:
        policy = found.get(topic, {}).get(CLEANUP_POLICY, "")
        if is_record and "compact" in policy and record.key is None:
            causes.setdefault(
                topic,
                f"topic {topic!r} has cleanup.policy = {policy}, and so takes no record without a key, such as "
                f"{record.position}: set its cleanup.policy to delete",
            )
    # kafka-python's word for a time is that for any record.
    if causes or not (is_record or is_time):
        return list(causes.values())
    for topic, settings in found.items():
        bounds = {key: settings[key] for key in _TIMES if settings.get(key, _ANY_TIME) != _ANY_TIME}
        if bounds and (is_time or "imestamp" in str(error)):
            held = ", ".join(f"{key} = {value}" for key, value in bounds.items())
            causes[topic] = (
                f"topic {topic!r} has {held}, which refuses a record's time: set each to {_ANY_TIME}. Of a topic between parts "
                "set message.timestamp.type to LogAppendTime, and look at the clock of this host"
            )
    return list(causes.values())


def _named(topics: Collection[str]) -> str:
    return f"topic {', '.join(map(repr, topics))}"
