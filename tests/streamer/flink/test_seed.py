"""Entries of an index go to a topic of their own, or the reason is told why they cannot."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.kafka_run import create_topics
from deploy.planted_fingerprints import batches_of, decide_here, planted
from index import errors
from index.dataflow.history import are_entries
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import longer_of, parameters_for, scheme_for
from streamer.flink.batches import heartbeat
from streamer.flink.seed import seed
from streamer.flink.seed_batch import unpack_seeds
from streamer.flink.taking_in import taken_in, wait_until_taken_in
from streamer.index_admin.tools import open_for_reading
from streamer.records.reason import recrawl_by
from streamer.settings.parts import settings_of as settings_of_part
from streamer.settings.settings import Settings, load

PARTITIONS = 4
COUNT = 600


def settings_of(kafka: SimpleNamespace, directory: Path, *more: str) -> Settings:
    name = f"seed-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-fingerprints", f"{name}-verdicts"]
    create_topics(kafka.bootstrap_servers, topics, PARTITIONS)
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=name) as consumer:
        # A broker knows of groups once somebody asked.
        consumer.committed(TopicPartition(topics[0], 0))
    return load(
        None,
        [
            "fingerprint.key=public",
            *more,
            f"kafka.bootstrap_servers={kafka.bootstrap_servers}",
            f"kafka.group={name}",
            f"topics.fingerprints={topics[0]}",
            f"topics.verdicts={topics[1]}",
            f"index.directory={directory}",
        ],
        {},
    )


def filled(settings: Settings) -> Sequence[bytes]:
    parameters = parameters_for(settings, scheme_for(settings).stamp())
    contents = list(batches_of(planted(parameters, COUNT, seed=1), seed=2))
    chosen = {"longer": longer_of(settings.index), "recrawl": recrawl_by(settings.index.recrawl)}
    decide_here(parameters, settings.index.directory, contents, **chosen)
    return contents


def read_by_the_deciding_service(settings: Settings, partition: int) -> int:
    """Write three records to the log, of which the service has read two: the time of the second one."""
    topic, group = settings.topics.fingerprints, settings_of_part(settings, "decide").kafka.group
    with KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers) as producer:
        sent = [producer.send(topic, heartbeat(partition), partition=partition).get(timeout=60) for _ in range(3)]
    with KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers, group_id=group) as consumer:
        consumer.commit({TopicPartition(topic, partition): OffsetAndMetadata(sent[1].offset + 1, "", -1)})
    read_ms: int = sent[1].timestamp
    return read_ms


def test_every_entry_is_written_once_and_all_partitions_come_to_an_end(kafka: SimpleNamespace, tmp_path: Path) -> None:
    settings = settings_of(kafka, tmp_path / "index")
    filled(settings)
    read_ms = read_by_the_deciding_service(settings, partition=2)
    with open_for_reading(settings) as index:
        entries = index.statistics().entries + index.statistics().exact_entries
        written = seed(settings, index, lambda _: None)
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=f"{settings.kafka.group}.flink",
        enable_auto_commit=False,
    )
    partitions = [TopicPartition(written.topic, partition) for partition in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ids, times, ends, until, left = [], [], {}, {}, sum(written.ends.values())
    while left:
        for at, records in consumer.poll(timeout_ms=500).items():
            assert at.partition not in ends
            left -= len(records)
            times += [record.timestamp for record in records]
            for record in records:
                _, batch, seeds = unpack_seeds(record.value, "seeds")
                if batch is not None:
                    assert seeds.history is not None
                    ids += [batch.entries.ids[row] for row in np.flatnonzero(are_entries(seeds.history))]
                if seeds.ends is not None:
                    ends[at.partition], until[at.partition] = sum(seeds.ends.values()), seeds.until_ms
    assert len(ids) == len(set(ids)) == entries == written.entries
    assert sorted(ends) == list(range(PARTITIONS))
    assert sum(ends.values()) == COUNT
    assert until == {partition: read_ms if partition == 2 else -1 for partition in range(PARTITIONS)}
    assert sorted(times)[:-PARTITIONS] == list(range(1, len(times) - PARTITIONS + 1))
    assert len(set(sorted(times)[-PARTITIONS:])) == 1
    consumer.commit({at: OffsetAndMetadata(written.ends[at.partition], "", -1) for at in partitions})
    wait_until_taken_in(settings, written, seeding=True, get=None, say=print)
    consumer.close()
    with open_for_reading(settings) as index:
        again = seed(settings, index, lambda _: None)
    # What the first job committed goes with the older topic.
    assert again == written
    assert not taken_in(settings, again)


def test_what_flink_cannot_carry_and_other_settings_are_refused_by_their_names(
    kafka: SimpleNamespace, tmp_path: Path
) -> None:
    settings = settings_of(kafka, tmp_path / "index")
    filled(settings)
    chosen = settings.model_copy(update={"guard": settings.guard.model_copy(update={"policy": "pass"})})
    with open_for_reading(settings) as index, pytest.raises(SettingsError, match=r"guard\.policy"):
        seed(chosen, index, lambda _: None)
    looser = settings.model_copy(update={"index": settings.index.model_copy(update={"insert": "unique"})})
    with open_for_reading(settings) as index, pytest.raises(errors.ParametersDifferError, match="insert: stored root"):
        seed(looser, index, lambda _: None)


def test_an_index_that_decided_more_than_it_told_is_refused(kafka: SimpleNamespace, tmp_path: Path) -> None:
    settings = settings_of(kafka, tmp_path / "index")
    settings = settings.model_copy(
        update={"topics": settings.topics.model_copy(update={"input": f"{settings.kafka.group}-input"})}
    )
    create_topics(kafka.bootstrap_servers, [settings.topics.input], PARTITIONS)
    filled(settings)
    at = TopicPartition(settings.topics.input, 2)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=settings.kafka.group)
    consumer.commit({at: OffsetAndMetadata(17, "planted-stream", -1)})
    consumer.close()
    with (
        open_for_reading(settings) as index,
        pytest.raises(SettingsError, match=r"partition 2: decided up to \d+, published up to 17"),
    ):
        seed(settings, index, lambda _: None)
