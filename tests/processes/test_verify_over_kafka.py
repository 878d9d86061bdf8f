"""`streamer verify` over a real broker: sound beside a service at work and after it, and not when a position was skipped."""

import subprocess
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import orjson
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.kafka_run import Run, fill, stop
from streamer.demo.demo import documents
from tests.support.services import Started, make_run, verified, wait_until, wrong

EXIT_FOUND_WRONG = 1


def test_a_service_is_sound_at_work_and_after_it_and_a_skipped_position_is_named(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.count=2", partitions=2)
    values = list(documents(600))
    service = start(run)
    wait_until(run.ready, timeout_seconds=180)
    fill(kafka.bootstrap_servers, run.input_topic, values)
    wait_until(lambda: run.delivered() > 20, timeout_seconds=180)
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    assert found["counts"]["outputs"] > 0
    wait_until(lambda: run.delivered() >= len(values), timeout_seconds=180)
    assert stop(service.process) == 0
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    assert found["counts"]["outputs"] == len(values)
    assert found["counts"]["in flight"] == 0
    skipped = skip_a_position(run)
    code, found = verified(run)
    assert code == EXIT_FOUND_WRONG
    assert wrong(found) == {"missing": [skipped]}


def test_an_open_transaction_is_named_while_it_is_waited_for_and_the_answer_stays_readable(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path)
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, list(documents(100)))
    abort_a_record(kafka.bootstrap_servers, run.input_topic)
    # The input ends in an aborted record and its mark, which are no lag.
    wait_until(lambda: run.delivered() == 100 and lags(run) == [0.0])
    assert stop(service.process) == 0
    stranger = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"stranger-{run.name}")
    stranger.init_transactions()
    stranger.begin_transaction()
    stranger.send(run.topic("unique"), value=b"open", partition=0).get(timeout=10)
    said, answer = tmp_path / "said", tmp_path / "answer"
    with said.open("wb") as errors, answer.open("wb") as output:
        command = [*run.arguments()[:-1], "verify", "--json"]
        verifying = subprocess.Popen(command, stdout=output, stderr=errors)
        try:
            # Within 30 seconds of its first look, with time to start on a busy machine.
            wait_until(lambda: f"transactional id 'stranger-{run.name}'" in said.read_text(), timeout_seconds=180)
            assert f"{run.topic('unique')}/0 from offset" in said.read_text()
            stranger.abort_transaction()
            assert verifying.wait(120) == 0
        finally:
            verifying.kill()
            verifying.wait()
    stranger.close()
    assert orjson.loads(answer.read_bytes())["counts"]["outputs"] == 100


def abort_a_record(servers: str, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=servers, transactional_id=str(uuid.uuid4()))) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()


def lags(run: Run) -> list[float]:
    lines = [line for line in run.metrics().splitlines() if line.startswith("neardup_lag_records{")]
    return [float(line.rpartition(" ")[2]) for line in lines]


def skip_a_position(run: Run) -> str:
    """Commit the offset behind a new record in the name of the group; returns its position."""
    fill(run.bootstrap_servers, run.input_topic, [b'{"text": "never delivered"}'])
    # Static members stay until their session is over, and only an empty group takes offsets of no member.
    with KafkaAdminClient(bootstrap_servers=run.bootstrap_servers) as admin:
        wait_until(lambda: admin.describe_groups([run.name])[run.name]["group_state"] == "Empty")
    consumer = KafkaConsumer(bootstrap_servers=run.bootstrap_servers, group_id=run.name, enable_auto_commit=False)
    with closing(consumer):
        partitions = [TopicPartition(run.input_topic, number) for number in (0, 1)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        (at,) = (each for each in partitions if consumer.committed(each) != ends[each])
        consumer.commit({at: OffsetAndMetadata(ends[at], consumer.committed(at, metadata=True).metadata, -1)})
    return f"{at.topic}/{at.partition}/{ends[at] - 1}"
