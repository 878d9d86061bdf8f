"""Real processes, broker and index: kill -9 at every point of the path, then a fresh process goes on."""

import signal
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import create_topics, fill
from tests.support.doomed_runs import NEVER, Filter, values
from tests.support.doomed_worker import POINTS
from tests.support.transport_worlds import Client


@pytest.fixture(scope="module")
def input_topic(kafka: SimpleNamespace) -> str:
    topic = f"kill-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, [topic])
    fill(kafka.bootstrap_servers, topic, values())
    return topic


@pytest.fixture(scope="module")
def serial(kafka: SimpleNamespace, input_topic: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Outputs of an undisturbed run."""
    peace = Filter(kafka.bootstrap_servers, input_topic, tmp_path_factory.mktemp("peace"))
    assert peace.live("after-read", NEVER, count=len(values())) == 0
    return peace.outputs(len(values()))


@pytest.mark.parametrize(("client", "passage"), [("confluent-kafka", 1), ("kafka-python", 3)])
@pytest.mark.parametrize("point", POINTS)
def test_kill_9_changes_no_output(
    kafka: SimpleNamespace,
    input_topic: str,
    serial: dict[str, object],
    tmp_path: Path,
    point: str,
    passage: int,
    client: Client,
) -> None:
    killed = Filter(kafka.bootstrap_servers, input_topic, tmp_path, client)
    assert killed.live(point, passage, count=len(values())) == -signal.SIGKILL
    assert killed.live(point, NEVER, count=len(values())) == 0
    assert killed.outputs(len(values())) == serial


def test_without_the_journal_kill_9_after_the_index_commit_does_change_outputs(
    kafka: SimpleNamespace, input_topic: str, serial: dict[str, object], tmp_path: Path
) -> None:
    """Negative control: this harness can fail."""
    killed = Filter(kafka.bootstrap_servers, input_topic, tmp_path)
    assert killed.live("after-index-commit", 1, count=len(values()), journal=False) == -signal.SIGKILL
    assert killed.live("after-read", NEVER, count=len(values()), journal=False) == 0
    assert killed.outputs(len(values())) != serial
