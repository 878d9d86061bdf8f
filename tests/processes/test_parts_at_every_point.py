"""The parts of a service in processes of their own: kill -9 at every point of each part, then a fresh process goes on."""

import signal
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import create_topics, fill
from streamer.settings.parts import PARTS, Part
from tests.support.doomed_part import POINTS_OF
from tests.support.doomed_runs import BATCH_RECORDS, NEVER, STORIES, Filter, Parts, values
from tests.support.transport_worlds import Client

COUNT = len(values())
BATCHES = -(-COUNT // BATCH_RECORDS)


@pytest.fixture(scope="module")
def input_topic(kafka: SimpleNamespace) -> str:
    topic = f"parts-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, [topic])
    fill(kafka.bootstrap_servers, topic, values())
    return topic


@pytest.fixture(scope="module")
def serial(kafka: SimpleNamespace, input_topic: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Outputs of an undisturbed run of the service that is not in parts."""
    peace = Filter(kafka.bootstrap_servers, input_topic, tmp_path_factory.mktemp("peace"))
    assert peace.live("after-read", NEVER, count=COUNT) == 0
    outputs = peace.outputs(COUNT)
    del outputs[STORIES]
    return outputs


def left_of(part: Part, batches_done: int = 0) -> int:
    """Records of a part's input that are left behind so many batches of documents: `decide` reads a record for each."""
    return BATCHES - batches_done if part == "decide" else COUNT - batches_done * BATCH_RECORDS


@pytest.mark.parametrize(("client", "passage"), [("confluent-kafka", 1), ("kafka-python", 3)])
@pytest.mark.parametrize("place", range(max(map(len, POINTS_OF.values()))))
def test_kill_9_of_each_part_changes_no_output(
    kafka: SimpleNamespace,
    input_topic: str,
    serial: dict[str, object],
    tmp_path: Path,
    place: int,
    client: Client,
    passage: int,
) -> None:
    parts = Parts(kafka.bootstrap_servers, input_topic, tmp_path, client)
    for part in PARTS:
        # A part with fewer points than others dies at one of them again.
        point = POINTS_OF[part][place % len(POINTS_OF[part])]
        assert parts.live(part, point, passage, count=left_of(part)) == -signal.SIGKILL
        done = passage if point == "after-kafka-commit" else passage - 1
        assert parts.live(part, count=left_of(part, done)) == 0
    assert parts.outputs(COUNT) == serial


def test_without_the_journal_kill_9_after_the_index_commit_does_change_outputs(
    kafka: SimpleNamespace, input_topic: str, serial: dict[str, object], tmp_path: Path
) -> None:
    """Negative control: this harness can fail."""
    parts = Parts(kafka.bootstrap_servers, input_topic, tmp_path)
    assert parts.live("fingerprint", count=COUNT) == 0
    assert parts.live("decide", "after-index-commit", 1, count=BATCHES, journal=False) == -signal.SIGKILL
    assert parts.live("decide", count=BATCHES, journal=False) == 0
    assert parts.live("route", count=COUNT) == 0
    assert parts.outputs(COUNT) != serial
