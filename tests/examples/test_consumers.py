"""The readers of the examples, each with its own client, on a real broker."""

import subprocess
import uuid
from types import SimpleNamespace

import orjson
import pytest
from kafka import KafkaProducer

from deploy.kafka_run import create_topics
from tests.support.installation import Installation
from tests.support.paths import ROOT


def deliver(producer: KafkaProducer, topic: str, name: str) -> None:
    headers = [("neardup.id", name.encode()), ("neardup.verdict", b"unique")]
    producer.send(topic, value=b'{"title": "%s"}' % name.upper().encode(), headers=headers)
    producer.flush()


@pytest.fixture
def topic(kafka: SimpleNamespace) -> str:
    """Two documents that were delivered, and between them one that was taken back."""
    topic = f"read-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, [topic])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for name, end in (
        ("ferry", producer.commit_transaction),
        ("gone", producer.abort_transaction),
        ("mill", producer.commit_transaction),
    ):
        producer.begin_transaction()
        deliver(producer, topic, name)
        end()
    producer.close()
    return topic


@pytest.mark.parametrize("client", ["kafka_python", "confluent_kafka"])
def test_a_reader_sees_each_delivered_document_once_and_goes_on_behind_it(
    kafka: SimpleNamespace, topic: str, client: str, installation: Installation
) -> None:
    program = ROOT / "examples" / "consumers" / f"with_{client}.py"
    command = [installation.python, str(program), kafka.bootstrap_servers, topic, f"{topic}-{client}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=installation.variables, text=True) as reader:
        assert reader.stdout is not None
        try:
            lines = [reader.stdout.readline() for _ in range(2)]
        finally:
            reader.kill()
        lines += reader.stdout.readlines()

    assert lines == ["ferry\tunique\tFERRY\n", "mill\tunique\tMILL\n"]


def test_the_front_page_shows_each_story_once_with_its_sources(
    kafka: SimpleNamespace, installation: Installation
) -> None:
    topic = f"stories-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, [topic])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for name, hosts in (("ferry", 2), ("gone", 90), ("mill", 5), ("ferry", 47), ("gone", None)):
        story = {"id": name, "hosts": hosts, "first_hosts": ["a.example", "b.example"]}
        producer.send(topic, key=name.encode(), value=None if hosts is None else orjson.dumps(story))
    producer.close()
    command = [
        installation.python,
        str(ROOT / "examples" / "stories" / "front_page.py"),
        kafka.bootstrap_servers,
        topic,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=installation.variables, text=True) as reader:
        assert reader.stdout is not None
        try:
            lines = [reader.stdout.readline() for _ in range(2)]
        finally:
            reader.kill()
    assert lines == ["47 sources\tferry\ta.example, b.example\n", "5 sources\tmill\ta.example, b.example\n"]
