"""The whole examination, from the command line, against a real broker."""

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamer.cli.main import cli
from streamer.doctor import machine
from streamer.doctor.doctor import SAMPLE
from streamer.doctor.finding import State
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import create_topics, produce
from tests.support.secure_kafka import SecureKafka
from tests.support.transport_worlds import make_settings

# The client leaves the socket of every refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wherever the tests run, the folder is taken for one on a disk."""
    monkeypatch.setattr(machine, "PASSING_FILE_SYSTEMS", frozenset())
    monkeypatch.setattr(machine, "NETWORK_FILE_SYSTEMS", frozenset())
    yield
    gc.collect()


def examined(settings: Settings, folder: Path, *more: str) -> tuple[int, dict[str, str], str]:
    """Exit code, states by check, and all that was printed."""
    names = settings.topics
    chosen = [
        f"kafka.group={settings.kafka.group}",
        f"kafka.bootstrap_servers={','.join(settings.kafka.bootstrap_servers)}",
        "kafka.request_timeout_ms=1000",
        *(f"topics.{key}={name}" for key, name in names.model_dump().items() if name is not None),
        f"index.directory={folder}",
        "observe.port=0",
        *more,
    ]
    arguments = [part for one in chosen for part in ("--set", one)]
    done = CliRunner().invoke(cli, ["doctor", "--json", *arguments])
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.exit_code
    return done.exit_code, {each["check"]: each["state"] for each in found["findings"]}, done.stdout


def test_a_service_that_can_run_is_said_to_be_well(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    settings = make_settings(secure_kafka.open_address)
    create_topics(settings, 1, 1)
    code, states, _ = examined(settings, tmp_path / "index")
    assert code == 0
    assert State.WRONG.value not in states.values()
    assert states[f"broker {secure_kafka.open_address}"] == "ok"
    assert states["clock"] == "not checked"
    assert states["hosts (decode.host)"] == "not checked"
    assert states["kafka.session_timeout_ms"] == "ok"
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("value", "state"), [(b'{"text": "a"}', "advice"), (b'{"text": "a", "url": "//b.example"}', "ok")]
)
def test_an_input_without_hosts_is_worth_a_word(
    secure_kafka: SecureKafka, tmp_path: Path, value: bytes, state: str
) -> None:
    settings = make_settings(secure_kafka.open_address)
    create_topics(settings, 2, 1)
    produce(settings, settings.topics.input, [value] * (SAMPLE + 50))
    code, states, printed = examined(settings, tmp_path / "index")
    assert code == 0
    assert states["hosts (decode.host)"] == state
    assert ("newest documents names one" in printed) is (state == "advice")
    _, states, _ = examined(settings, tmp_path / "index", "decode.host_scope=none")
    assert "hosts (decode.host)" not in states


def test_missing_topics_need_a_person(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    settings = make_settings(secure_kafka.open_address)
    code, states, printed = examined(settings, tmp_path)
    assert code == os.EX_CONFIG
    assert states[f"topic {settings.topics.input!r} (topics.input)"] == "wrong"
    assert "streamer topics create" in printed


def test_a_broker_that_is_away_may_come_back(tmp_path: Path) -> None:
    code, states, _ = examined(make_settings("127.0.0.1:1"), tmp_path)
    assert code == os.EX_TEMPFAIL
    assert states["broker 127.0.0.1:1"] == "away"
    assert states["rights, topics, timeouts"] == "not checked"


def test_a_wrong_password_needs_a_person_and_is_not_printed(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    right = secure_kafka.connection("SASL", secure_kafka.make_user()) | {"sasl_password": "guessed-password"}
    servers = right.pop("bootstrap_servers")
    assert isinstance(servers, list)
    settings = make_settings(servers[0])
    code, states, printed = examined(settings, tmp_path, *(f"kafka.{key}={value}" for key, value in right.items()))
    assert code == os.EX_CONFIG
    assert states[f"broker {servers[0]}"] == "wrong"
    assert states["rights, topics, timeouts"] == "not checked"
    assert "kafka.sasl_password: " in printed
    assert "guessed-password" not in printed


def test_a_file_that_is_missing_is_named_before_anybody_is_asked(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    code, states, printed = examined(
        make_settings(secure_kafka.address("TLS")),
        tmp_path,
        "kafka.security_protocol=SSL",
        f"kafka.ssl_cafile={tmp_path / 'none.pem'}",
    )
    assert code == os.EX_CONFIG
    assert states["certificates and keys"] == "wrong"
    assert "kafka.ssl_cafile: " in printed


def test_people_get_a_table(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli,
        [
            "doctor",
            *("--set", "kafka.bootstrap_servers=127.0.0.1:1"),
            *("--set", "kafka.request_timeout_ms=300"),
            *("--set", f"index.directory={tmp_path}"),
            *("--set", "observe.port=0"),
        ],
    )
    assert done.exit_code == os.EX_TEMPFAIL
    assert "what to do" in done.stdout
    assert "library for lz4" in done.stdout
