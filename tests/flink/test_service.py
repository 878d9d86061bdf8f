"""Documents in, documents out: with `fingerprint` and `route` in processes of their own, and `decide` on Flink."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from deploy.flink_service import flink_service
from deploy.planted_fingerprints import sequential
from index import Verdict
from streamer.demo.demo import documents
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import produce

DOCUMENTS = 1_500
TIMEOUT_SECONDS = 240


def outputs(settings: Settings, count: int) -> Iterator[dict[str, str]]:
    """Headers of so many output records, as they come."""
    topics = (settings.topics.unique, settings.topics.duplicate, settings.topics.dead_letter)
    partitions = [TopicPartition(topic, partition) for topic in topics for partition in range(4)]
    consumer = KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    try:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while count > 0 and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    count -= 1
                    yield {name: value.decode() for name, value in record.headers}
    finally:
        consumer.close()


@pytest.mark.timeout(600)
def test_every_document_comes_out_once_with_the_verdict_of_one_index(tmp_path: Path) -> None:
    with flink_service(tmp_path) as (settings, _):
        given = [*documents(DOCUMENTS - 1, 7), b"no document"]
        assert produce(settings, settings.topics.input, given) == DOCUMENTS
        told = list(outputs(settings, DOCUMENTS))
        parameters = parameters_for(settings, {})
        expected = sequential(settings.kafka.bootstrap_servers[0], settings.topics.fingerprints, parameters)
    by_position = {}
    for (partition, _), batch in expected.items():
        for offset, verdict, original in zip(batch.offsets, batch.verdicts, batch.original_ids, strict=True):
            by_position[f"{settings.topics.input}/{partition}/{offset}"] = Verdict(verdict).label, original
    assert len(by_position) == len(told) == DOCUMENTS
    assert {
        each["neardup.position"]: (each["neardup.verdict"], each.get("neardup.original.id")) for each in told
    } == by_position
    verdicts = Counter(each["neardup.verdict"] for each in told)
    assert verdicts["dead-letter"] >= 1
    assert verdicts["duplicate"] > DOCUMENTS / 20
