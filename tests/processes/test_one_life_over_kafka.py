"""The guarantee over a real broker in one life a client: the short story of the matrix in test_kill_at_every_point.py."""

import signal
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import create_topics, fill
from tests.support.doomed_runs import NEVER, STORIES, Filter, values
from tests.support.transport_worlds import Client

RECORDS = 20


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_after_kill_9_behind_the_commit_of_the_index_every_record_comes_out_once(
    kafka_of_one_life: SimpleNamespace, tmp_path: Path, client: Client
) -> None:
    topic = f"one-life-{uuid.uuid4().hex[:8]}"
    create_topics(kafka_of_one_life.bootstrap_servers, [topic])
    fill(kafka_of_one_life.bootstrap_servers, topic, values()[:RECORDS])
    killed = Filter(kafka_of_one_life.bootstrap_servers, topic, tmp_path, client)
    # The second batch: the index has it, and the outputs do not.
    assert killed.live("after-index-commit", 2, count=RECORDS) == -signal.SIGKILL
    assert killed.live("after-index-commit", NEVER, count=RECORDS) == 0
    outputs = killed.outputs(RECORDS)
    del outputs[STORIES]
    assert len(outputs) == RECORDS
    assert all(isinstance(seen, list) and len(seen) == 1 for seen in outputs.values())
