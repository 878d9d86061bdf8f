"""The Kafka brokers that tests run against."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deploy.local_kafka import LocalKafka
    from tests.support.secure_kafka import SecureKafka


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python reads its protocol definitions by functions that Python 3.11 calls deprecated and 3.13 does not.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The `bootstrap_servers` of one broker for all tests: that of KAFKA_BOOTSTRAP_SERVERS, else a local one.

    Every test takes topics, groups and transactional ids of its own.
    """
    from deploy.local_kafka import LocalKafka, LocalKafkaError, require_broker

    bootstrap_servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    problem = ""
    with ExitStack() as stack:
        try:
            if bootstrap_servers:
                require_broker(bootstrap_servers)
            else:
                bootstrap_servers = stack.enter_context(LocalKafka(tmp_path_factory.mktemp("kafka"))).bootstrap_servers
        except LocalKafkaError as error:
            problem = f"KAFKA_BOOTSTRAP_SERVERS is {bootstrap_servers or 'not set'}: {error}"
        if problem:
            pytest.fail(problem, pytrace=False)
        yield SimpleNamespace(bootstrap_servers=bootstrap_servers)


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """One broker with TLS, passwords and rights for all tests, always a local one."""
    from deploy.local_kafka import LocalKafkaError
    from tests.support.secure_kafka import running

    problem = ""
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(running(tmp_path_factory.mktemp("secure-kafka")))
        except LocalKafkaError as error:
            problem = str(error)
        if problem:
            pytest.fail(problem, pytrace=False)
        yield broker


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Callable[..., LocalKafka]]:
    """A factory of started local brokers that a test may kill or suspend; all are gone after the test."""
    from deploy.local_kafka import LocalKafka, LocalKafkaError

    brokers: list[LocalKafka] = []

    def start_broker(overrides: Mapping[str, str] | None = None) -> LocalKafka:
        broker = LocalKafka(tmp_path / f"kafka-{len(brokers) + 1}", overrides=overrides)
        brokers.append(broker)
        try:
            broker.start()
        except LocalKafkaError as error:
            pytest.fail(str(error), pytrace=False)
        return broker

    yield start_broker
    for broker in brokers:
        broker.kill()
