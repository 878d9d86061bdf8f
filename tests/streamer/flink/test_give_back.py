"""What is given back goes to the unique topic and to the log in one transaction, or the reason is told why it cannot."""

import uuid
from collections.abc import Iterable
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from deploy.kafka_run import create_topics
from index import Source
from streamer.errors import SettingsError
from streamer.fingerprint.documents import prepare
from streamer.flink import give_back
from streamer.flink.batches import arrival
from streamer.flink.give_back import JobThatTakesBack
from streamer.records.decode import Decoder
from streamer.records.record import Handover, Record
from streamer.settings.settings import Settings, load
from streamer.transports.kafka import clients
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.output_log import GIVE_BACK
from tests.support.memory_service import SENTENCES, document
from tests.support.services import wait_until
from tests.support.transport_worlds import committed_records

TOPICS = ("input", "unique", "duplicate", "dead_letter", "fingerprints", "verdicts")


@pytest.fixture
def settings(kafka: SimpleNamespace) -> Settings:
    topics = {name: f"give-back-{uuid.uuid4().hex[:8]}-{name}" for name in TOPICS}
    create_topics(kafka.bootstrap_servers, list(topics.values()), 2)
    chosen = [f"kafka.bootstrap_servers={kafka.bootstrap_servers}", "fingerprint.key=public"]
    settings = load(None, [*chosen, *(f"topics.{name}={topic}" for name, topic in topics.items())], {})
    wait_until(lambda: all_exist(settings, topics.values()))
    return settings


def all_exist(settings: Settings, topics: Iterable[str]) -> bool:
    """Whether the broker says so: it may take a moment under load."""
    with clients.asking(settings, "looking for topics") as admin:
        return {*clients.existing_topics(admin, [*topics])} == {*topics}


def dropped(partition: int, offset: int) -> Record:
    value = document(f"page-{offset}", SENTENCES[0])
    return Record(Source("stream", partition), "documents", offset, None, value, 1_000)


RECORDS = [dropped(partition, offset) for partition, offset in ((0, 3), (0, 8), (0, 9), (1, 2))]


def test_the_log_gets_what_is_given_back_by_partition_and_its_own_documents(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(give_back, "DOCUMENTS_MAX", 2)
    job = JobThatTakesBack(settings)
    entries = prepare(Decoder(settings.decode), job.scheme, RECORDS)
    assert job.give_back(entries, delivered=True).tolist() == [False] * 4
    assert job.give_back(entries).tolist() == [True] * 4
    noted = job.noted(RECORDS)
    assert [(each.destination, each.record.source.partition) for each in noted] == [
        (Handover.FINGERPRINTS, 0),
        (Handover.FINGERPRINTS, 0),
        (Handover.FINGERPRINTS, 1),
    ]
    arrivals = [arrival(each.record.value or b"", 1_000, "fingerprints") for each in noted]
    assert all(each.given_back for each in arrivals)
    assert [each.source for each in arrivals] == [Source("stream", 0), Source("stream", 0), Source("stream", 1)]
    assert [each.entries.offsets.tolist() for each in arrivals] == [[3, 8], [9], [2]]
    assert [id_ for each in arrivals for id_ in each.entries.ids] == entries.ids
    fingerprints = np.concatenate([each.entries.fingerprints for each in arrivals])
    assert (fingerprints == entries.fingerprints).all()


def test_both_topics_have_it_from_one_transaction(settings: Settings) -> None:
    job = JobThatTakesBack(settings)
    job.give_back(prepare(Decoder(settings.decode), job.scheme, RECORDS))
    with closing(KafkaOutputLog(settings, job.noted)) as output_log:
        output_log.open(GIVE_BACK)
        output_log.append(RECORDS)
    written = job.written()
    assert (written.topic, written.entries, sorted(written.ends)) == (settings.topics.fingerprints, 4, [0, 1])
    (server,) = settings.kafka.bootstrap_servers
    delivered, noted = (committed_records(server, name) for name in (settings.topics.unique, written.topic))
    assert sorted(each.value or b"" for each in delivered) == sorted(each.value or b"" for each in RECORDS)
    assert len(noted) == 2


def test_a_job_whose_entries_never_leave_is_asked_for_nothing() -> None:
    chosen = load(None, ["index.recrawl=duplicate", "fingerprint.key=public"], {})
    with pytest.raises(SettingsError, match=r"index\.recrawl: duplicate: without updates and without retention"):
        JobThatTakesBack(chosen)
