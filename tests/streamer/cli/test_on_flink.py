"""`streamer index forget --flink`: what it writes and says, and what it refuses."""

import uuid
from types import SimpleNamespace

import orjson
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.kafka_run import create_topics
from tests.support.command_line import run


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--source", "a"], 2, "a job on Flink reads one input"),
        (["--dry-run", "a"], 2, "no operator on Flink looks documents up by their ids"),
        (["--scope", "a"], 78, "--scope needs decode.scope"),
        (["--set", "index.recrawl=duplicate", "a"], 78, "no entry leaves a job on Flink"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    arguments: list[str], code: int, complaint: str
) -> None:
    done = run("index", "forget", "--flink", *arguments)
    assert done.code == code
    assert complaint in " ".join(done.err.split())


def test_a_command_is_a_record_and_ends_once_a_checkpoint_has_it(kafka: SimpleNamespace) -> None:
    name = f"told-{uuid.uuid4().hex[:8]}"
    fingerprints, verdicts = f"{name}-fingerprints", f"{name}-verdicts"
    create_topics(kafka.bootstrap_servers, [fingerprints, verdicts], 2)
    with KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=f"{name}.flink", enable_auto_commit=False
    ) as job:
        # As if a job's checkpoint had the next two records.
        job.commit({TopicPartition(fingerprints, 0): OffsetAndMetadata(2, "", -1)})
    chosen = (f"kafka.bootstrap_servers={kafka.bootstrap_servers}", f"kafka.group={name}", "decode.scope=/tenant")
    chosen += (f"topics.fingerprints={fingerprints}", f"topics.verdicts={verdicts}")
    settings = [word for each in chosen for word in ("--set", each)]
    done = run(*settings, "index", "forget", "--flink", "a", "b", "--json")
    place = {"topic": fingerprints, "partition": 0}
    assert orjson.loads(done.out) == {"ids": ["a", "b"], "scope": None, **place, "offset": 0}
    assert f"written at {fingerprints}/0 offset 0: what came before it is forgotten" in done.err
    done = run(*settings, "index", "forget", "--flink", "--scope", "north", "--json")
    assert orjson.loads(done.out) == {"ids": [], "scope": "north", **place, "offset": 1}
