"""Real processes, broker and index: kill -9 at every point of the path, then a fresh process goes on."""

import signal
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import DESTINATIONS, Outputs, Run, create_topics, fill
from tests.support.doomed_worker import POINTS, live
from tests.support.lives import exit_code_of
from tests.support.memory_service import SENTENCES, document
from tests.support.transport_worlds import Client

pytestmark = pytest.mark.kafka

BATCH_RECORDS = 8
NEVER = 10_000


def values() -> list[bytes]:
    """Every sentence, with one more full stop, once more, and changed; an undecidable one and dead letters."""
    originals = [document(f"base-{number}", text) for number, text in enumerate(SENTENCES)]
    copies = [document(f"copy-{number}", text + "。") for number, text in enumerate(SENTENCES)]
    again = [document(f"again-{number}", text) for number, text in enumerate(SENTENCES)]
    changed = [document(f"base-{number}", f"{text} 最新消息。") for number, text in enumerate(SENTENCES)]
    return [
        *originals[:3],
        b"{",
        *copies[:3],
        document("empty", "…"),
        *originals[3:],
        *copies[3:],
        *again,
        *changed,
        b"",
    ][:32]


class Filter:
    """One group with its topics and its index, over a shared input topic of one partition."""

    def __init__(
        self, bootstrap_servers: str, input_topic: str, directory: Path, client: Client = "kafka-python"
    ) -> None:
        self._client = client
        self.run = Run(f"kill-{uuid.uuid4().hex[:8]}", bootstrap_servers, input_topic, directory, 0)
        create_topics(bootstrap_servers, [self.run.topic(destination) for destination in DESTINATIONS])

    def live(self, point: str, passage: int, *, count: int, journal: bool = True) -> int:
        """Run one life of a worker. Returns its exit code, negative where a signal ended it."""
        overrides = [one for one in self.run.arguments() if "=" in one]
        chosen = [
            f"kafka.client={self._client}",
            "fingerprint.features_min=1",
            f"batch.records_max={BATCH_RECORDS}",
            *overrides,
        ]
        return exit_code_of(live, point, passage, count, journal, chosen)

    def outputs(self, count: int) -> dict[str, object]:
        seen = Outputs(self.run)
        seen.wait_for(count, timeout_seconds=30)
        seen.close()
        return dict(seen.by_position)


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
    delivered = BATCH_RECORDS * (passage if point == "after-kafka-commit" else passage - 1)
    assert killed.live(point, NEVER, count=len(values()) - delivered) == 0
    assert killed.outputs(len(values())) == serial


def test_without_the_journal_kill_9_after_the_index_commit_does_change_outputs(
    kafka: SimpleNamespace, input_topic: str, serial: dict[str, object], tmp_path: Path
) -> None:
    """Negative control: this harness can fail."""
    killed = Filter(kafka.bootstrap_servers, input_topic, tmp_path)
    assert killed.live("after-index-commit", 1, count=len(values()), journal=False) == -signal.SIGKILL
    assert killed.live("after-read", NEVER, count=len(values()), journal=False) == 0
    assert killed.outputs(len(values())) != serial
