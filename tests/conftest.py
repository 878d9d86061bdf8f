"""The Kafka brokers that tests run against."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deploy.local_kafka import LocalKafka
    from tests.support.secure_kafka import SecureKafka


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--flink", action="store_true", help="collect tests/flink, which needs an environment of its own")
    parser.addoption("--installed", metavar="PYTHON", help="run tests/examples with the release that this Python has")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == Path(__file__).with_name("flink") and not config.getoption("--flink") else None


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control lets what it starts in the background ignore Ctrl-C, and what a test starts would too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Repeatable fingerprints in this process and in those that tests start; tests of the key say otherwise.
    os.environ.setdefault("STREAMER_FINGERPRINT__KEY", "public")
    # kafka-python reads its protocol definitions by functions that Python 3.11 calls deprecated and 3.13 does not.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    # A machine under load makes no example wrong. Flink's environment lacks the library.
    if config.pluginmanager.hasplugin("hypothesispytest"):
        import hypothesis

        hypothesis.settings.register_profile("without-deadline", deadline=None)
        hypothesis.settings.load_profile("without-deadline")


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


@pytest.fixture(scope="session")
def struck_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalKafka]]:
    """Local brokers that tests may kill, stop or suspend, by name; each runs again when it is asked for."""
    from deploy.local_kafka import LocalKafka, LocalKafkaError

    brokers: dict[str, LocalKafka] = {}

    def running(name: str, overrides: Mapping[str, str] | None = None) -> LocalKafka:
        if name not in brokers:
            brokers[name] = LocalKafka(tmp_path_factory.mktemp(name), overrides=overrides)
        brokers[name].resume()
        try:
            brokers[name].start()
        except LocalKafkaError as error:
            pytest.fail(str(error), pytrace=False)
        return brokers[name]

    yield running
    for broker in brokers.values():
        broker.kill()


@pytest.fixture
def fragile_kafka(struck_brokers: Callable[..., LocalKafka]) -> LocalKafka:
    """A broker that the test may strike. Every test takes topics, groups and transactional ids of its own."""
    return struck_brokers("fragile-kafka")


@pytest.fixture
def forgetful_kafka(struck_brokers: Callable[..., LocalKafka]) -> LocalKafka:
    """The same, and it takes records of a transaction which its coordinator does not know."""
    from tests.support.forgotten import FORGETFUL

    return struck_brokers("forgetful-kafka", FORGETFUL)
