"""The client's errors in plain words."""

import logging
import resource
import time
from collections.abc import Callable

import pytest
from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.net.selector import NetworkSelector

from streamer.errors import BrokerUnavailable, SettingsError
from streamer.transports.kafka.clients import broker_errors
from tests.support.transport_worlds import make_settings


@pytest.mark.parametrize(("options", "warnings"), [({}, 0), ({"slow_task_threshold_secs": 0.1}, 1)])
def test_a_busy_machine_makes_the_client_warn_of_nothing(
    options: dict[str, float], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kafka")
    selector = NetworkSelector(**options)

    async def step() -> None:
        time.sleep(0.15)

    selector.run(step)
    selector.close()
    assert len([line for line in caplog.messages if "ran for" in line]) == warnings


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (KafkaTimeoutError("late"), BrokerUnavailable, "no answer from 127.0.0.1:1 while testing: .*late"),
        (SaslAuthenticationFailedError("no"), SettingsError, "refuses kafka.sasl_username"),
        (
            TopicAuthorizationFailedError({"documents"}),
            SettingsError,
            "does not allow the anonymous.*testing.*documents",
        ),
        (GroupAuthorizationFailedError("g"), SettingsError, r"READ on group 'group-.*' \(kafka.group\)"),
        (
            TransactionalIdAuthorizationFailedError(),
            SettingsError,
            r"WRITE on transactional-id 'group-.*:0-'.*prefixed",
        ),
        (ClusterAuthorizationFailedError(), SettingsError, "a right on the cluster while testing"),
        (InvalidSessionTimeoutError(), SettingsError, r"kafka.session_timeout_ms \(2000\)"),
        (KafkaError("Unexpected: InvalidTransactionTimeoutError"), SettingsError, r"kafka.transaction_timeout_ms"),
        (InconsistentGroupProtocolError(), BrokerUnavailable, r"group 'group-.*' has members of another program"),
        (KafkaConfigurationError("odd"), SettingsError, "refuses its settings"),
    ],
)
def test_errors_of_the_client_become_ours(raised: Exception, expected: type[Exception], message: str) -> None:
    with pytest.raises(expected, match=message), broker_errors(make_settings(), "testing"):
        raise raised


def test_a_client_without_a_file_for_its_connection_blames_the_limit_and_not_the_broker() -> None:
    files, limits = resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(OSError, match="Too many open files"):
        asked_with(lambda: resource.setrlimit(files, (3, limits[1])), lambda: resource.setrlimit(files, limits))


def asked_with(before: Callable[[], None], after: Callable[[], None]) -> None:
    """A question without an answer, amid what comes before and after it."""
    try:
        with broker_errors(make_settings(), "testing"):
            before()
            raise KafkaError("no answer")
    finally:
        after()
