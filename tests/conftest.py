"""The Kafka brokers that tests run against, and which tests a target runs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tiers import BROKERS, REST_FOLDERS, TIERS, belongs, group_of

if TYPE_CHECKING:
    from deploy.local_kafka import LocalKafka
    from tests.support.secure_kafka import SecureKafka

FOLDER = pytest.StashKey[Path]()
"""Where the processes of a run meet."""

LEFT_OUT = pytest.StashKey[int]()
DROPPED: list[object] = []
"""confluent-kafka's producers that the test before has dropped."""

EXAMPLES_PERCENT = {"quick": 25, "standard": 100}
"""Of the number that a test by example names, by profile; see tests/support/examples.py."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--flink", action="store_true", help="collect tests/flink, which needs an environment of its own")
    parser.addoption("--installed", metavar="PYTHON", help="run tests/examples with the release that this Python has")
    parser.addoption("--tier", choices=TIERS, help="run what this target adds: make check, make test, or the rest")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != Path(__file__).parent:
        return None
    left = collection_path.name == "flink" and not config.getoption("--flink")
    return True if left or (config.getoption("--tier") == "test" and collection_path.name in REST_FOLDERS) else None


def pytest_configure(config: pytest.Config) -> None:
    # A shell without job control lets what it starts in the background ignore Ctrl-C, and what a test starts would too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Repeatable fingerprints in this process and in those that tests start; tests of the key say otherwise.
    os.environ.setdefault("STREAMER_FINGERPRINT__KEY", "public")
    # Brokers of tests live for minutes at most: what the JVM's second compiler does for them takes more time than it saves.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    # kafka-python reads its protocol definitions by functions that Python 3.11 calls deprecated and 3.13 does not.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    # A machine under load makes no example wrong. Flink's environment lacks the library.
    if config.pluginmanager.hasplugin("hypothesispytest"):
        import hypothesis

        for name, percent in EXAMPLES_PERCENT.items():
            hypothesis.settings.register_profile(name, deadline=None, max_examples=percent)
        hypothesis.settings.load_profile("standard")
        # Threads of Kafka clients draw from `random` while a strategy does its work. A client that failed goes on trying.
        config.addinivalue_line(
            "filterwarnings", "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
        )
    if config.getoption("numprocesses", None):
        from tests.support.shared_kafka import SharedKafka

        config.stash[FOLDER] = Path(tempfile.mkdtemp(prefix="run-of-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(config.stash[FOLDER]))
        config.add_cleanup(SharedKafka(config.stash[FOLDER]).close)
    elif hasattr(config, "workerinput"):
        config.stash[FOLDER] = Path(config.workerinput["folder"])


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes go by their argument's name: what a compressor made holds the time, and processes must collect the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """End producers that a test left behind. Workers end with theirs, and here they take a core once their broker is gone."""
    module = sys.modules.get("streamer.transports.kafka.confluent.producer")
    if module is not None and (module._dropped or DROPPED):
        ending, DROPPED[:] = DROPPED[:], module._dropped
        module._dropped.clear()
        # Nobody waits: an end has no time limit.
        threading.Thread(target=ending.clear, name="dropped-producers", daemon=True).start()
        del ending


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["folder"] = str(node.config.stash[FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files, and tests that share a lonely broker, each in one process."""
    from tests.support.run_folder import Grouping

    return Grouping(config, log, config.stash[FOLDER]) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another target runs."""
    tier = config.getoption("--tier")
    chosen = [item for item in items if tier is None or belongs(item, tier)]
    config.stash[LEFT_OUT] = len(items) - len(chosen)
    items[:] = chosen
    for item in items:
        if BROKERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
    if hasattr(config, "workerinput"):
        # Tests over brokers wait most of the time: they begin first, so that no process is left with them at the end.
        items.sort(key=lambda item: not BROKERS & set(getattr(item, "fixturenames", ())))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{count} tests belong to other targets: `make check`, `make test`, `make test-all`"
        )


# Before xdist says that this process has collected.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the process that hands out tests which ones go together, and ask for the broker of all."""
    if not hasattr(session.config, "workerinput"):
        return
    from tests.support.run_folder import write_groups
    from tests.support.shared_kafka import want

    folder, process = session.config.stash[FOLDER], session.config.workerinput["workerid"]
    groups = {item.nodeid: group for item in session.items if (group := group_of(item)) is not None}
    write_groups(folder, process, groups)
    if any("kafka" in getattr(item, "fixturenames", ()) for item in session.items):
        want(folder)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The `bootstrap_servers` of one broker for all tests: that of KAFKA_BOOTSTRAP_SERVERS, else a local one of the run.

    Every test takes topics, groups and transactional ids of its own.
    """
    from deploy.local_kafka import LocalKafka, LocalKafkaError, require_broker
    from tests.support.shared_kafka import address

    bootstrap_servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    problem = ""
    with ExitStack() as stack:
        try:
            if bootstrap_servers:
                require_broker(bootstrap_servers)
            elif FOLDER in request.config.stash:
                bootstrap_servers = address(request.config.stash[FOLDER])
            else:
                bootstrap_servers = stack.enter_context(LocalKafka(tmp_path_factory.mktemp("kafka"))).bootstrap_servers
        except LocalKafkaError as error:
            problem = f"KAFKA_BOOTSTRAP_SERVERS is {bootstrap_servers or 'not set'}: {error}"
        if problem:
            pytest.fail(problem, pytrace=False)
        yield SimpleNamespace(bootstrap_servers=bootstrap_servers)


@pytest.fixture
def kafka_of_one_life(kafka: SimpleNamespace) -> SimpleNamespace:
    """The same broker, for the few tests that `make test` runs over it."""
    return kafka


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
