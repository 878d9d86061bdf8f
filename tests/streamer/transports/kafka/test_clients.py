"""The client's errors in plain words."""

import pytest
from kafka.errors import (
    KafkaConfigurationError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.transports.kafka.clients import broker_errors
from tests.support.transport_worlds import make_settings


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (KafkaTimeoutError("late"), BrokerUnavailable, "no answer from 127.0.0.1:1 while testing: .*late"),
        (SaslAuthenticationFailedError("no"), SettingsError, "refuses kafka.sasl_username"),
        (TopicAuthorizationFailedError({"documents"}), SettingsError, "does not allow this user.*testing"),
        (KafkaConfigurationError("odd"), SettingsError, "refuses its settings"),
    ],
)
def test_errors_of_the_client_become_ours(raised: Exception, expected: type[Exception], message: str) -> None:
    with pytest.raises(expected, match=message), broker_errors(make_settings(), "testing"):
        raise raised
