"""A protected set over a real broker: a worker is killed amid a stream, and each report and each copy come out once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from kafka.consumer.fetcher import ConsumerRecord

from deploy.kafka_run import DESTINATIONS, Run, create_topics, fill, stop
from deploy.planted_stories import committed_records
from tests.support.command_line import run as command
from tests.support.news import LINES
from tests.support.services import Started, kill_a_worker, make_run, verified, wait_until, wrong


def reports(records: list[ConsumerRecord]) -> Counter[tuple[bytes, bytes]]:
    """How often each position came out with each report."""
    headers = [dict(record.headers) for record in records]
    return Counter(
        (each["neardup.position"], each["neardup.protected"]) for each in headers if "neardup.protected" in each
    )


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_reports_are_in_headers_topic_and_metric_and_a_kill_doubles_none(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], client: str
) -> None:
    questions, documents = LINES[10:40], LINES[:300]
    (tmp_path / "questions.jsonl").write_bytes(b"".join(line + b"\n" for line in questions))
    made = command("protect", tmp_path / "questions.jsonl", "--out", tmp_path / "evaluation", "--processes", 1)
    assert made.code == 0, made.err
    run = make_run(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}", partitions=2)
    copies = run.topic("protected")
    create_topics(kafka.bootstrap_servers, [copies], 1)
    sets = orjson.dumps([str(tmp_path / "evaluation")]).decode()
    run = replace(run, settings=(*run.settings, f"index.protected={sets}", f"topics.protected={copies}"))
    service = start(run)
    wait_until(run.ready)
    fill(kafka.bootstrap_servers, run.input_topic, documents)
    wait_until(lambda: run.delivered() > len(documents) // 4)
    kill_a_worker(service.process)

    def delivered() -> list[ConsumerRecord]:
        return list(committed_records(kafka.bootstrap_servers, [run.topic(each) for each in DESTINATIONS]))

    wait_until(lambda: len(delivered()) == len(documents))
    shown = run.metrics()
    assert stop(service.process) == 0
    outputs = delivered()
    told = reports(outputs)
    assert set(told.values()) == {1}
    # A document of the set resembles its own entry, if it has a text.
    exact = sum(b'"similarity":1.0' in report for _, report in told)
    assert exact >= len(questions) - 3
    assert reports(list(committed_records(kafka.bootstrap_servers, [copies]))) == told
    assert 'neardup_protected_matches_total{set="evaluation"}' in shown
    code, found = verified(run)
    assert (code, wrong(found)) == (0, {})
    # The negative control: one report less is another count.
    told.popitem()
    assert reports(outputs) != told
