"""A command to forget is a record of the log, or the reason is told why it cannot be one."""

import uuid
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, TopicPartition

from deploy.kafka_run import create_topics
from index.dataflow import name_digests
from streamer.errors import SettingsError
from streamer.flink import forget as forgetting
from streamer.flink.batches import arrival
from streamer.flink.forget import forget
from streamer.settings.settings import Settings, load


def settings_of(kafka: SimpleNamespace, *more: str) -> Settings:
    topics = [f"forget-{uuid.uuid4().hex[:8]}-{name}" for name in ("fingerprints", "verdicts")]
    create_topics(kafka.bootstrap_servers, topics, 2)
    chosen = [f"kafka.bootstrap_servers={kafka.bootstrap_servers}", *more]
    return load(None, [*chosen, f"topics.fingerprints={topics[0]}", f"topics.verdicts={topics[1]}"], {})


def names_in(settings: Settings, end: int) -> list[list[int]]:
    """Names in the records of the topic, each a list."""
    at, found = TopicPartition(settings.topics.fingerprints, 0), list[list[int]]()
    with KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers) as consumer:
        consumer.assign([at])
        consumer.seek_to_beginning()
        while len(found) < end:
            for record in consumer.poll(timeout_ms=500).get(at, []):
                content = arrival(record.value, record.timestamp, at.topic)
                assert b"id-1" not in record.value
                assert content.forgets is not None
                found.append(content.forgets.tolist())
    return found


def test_ids_and_a_scope_are_written_as_digests_in_order(
    kafka: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "NAMES_MAX", 2)
    settings = settings_of(kafka)
    ids = ["id-1", "文档", "id-3"]
    written = forget(settings, ids)
    assert (written.topic, written.entries, written.ends) == (settings.topics.fingerprints, 3, {0: 2})
    assert forget(settings, [], "tenant/").ends == {0: 3}
    digests = [name_digests(id_)[0] for id_ in ids]
    assert names_in(settings, 3) == [digests[:2], digests[2:], [name_digests("tenant/any/page")[1]]]


def test_a_job_whose_entries_never_leave_is_asked_for_nothing() -> None:
    settings = load(None, ["index.recrawl=duplicate"], {})
    with pytest.raises(
        SettingsError, match=r"index\.recrawl: duplicate: without updates and without retention no entry"
    ):
        forget(settings, ["a"])
