"""Gaps between records: the log's own are passed, and a record passed over by the client ends the reading."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

from index import Source
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Lost, Record
from streamer.settings.settings import Recovery
from streamer.transports.kafka import topic_reader, unreadable
from streamer.transports.kafka.kafka_python import continuity
from streamer.transports.kafka.kafka_python.continuity import LOOK_SECONDS, Continuity
from streamer.transports.kafka.topic_reader import TopicReader
from streamer.transports.kafka.unreadable import FETCHES_MIN, Damages
from tests.support.transport_worlds import KafkaWorld, make_settings

ALL_WELL = range(0)


def records(*offsets: int) -> list[Record]:
    return [Record(Source("stream", 0), "documents", offset, None, b"", 0, ()) for offset in offsets]


class Watched:
    """A partition read from offset 10 on, whose log has a record at each offset of `missed` that the client passed over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 100.0
        self.missed: Sequence[int] = ALL_WELL
        self.looks: list[int] = []
        monkeypatch.setattr(continuity, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        monkeypatch.setattr(topic_reader, "make_detached_consumer", lambda _, committed_only: self)
        self.settings = settings = make_settings().model_copy(update={"recovery": Recovery(unreadable="skip")})
        self.damages = Damages()
        self.continuity = Continuity(settings, TopicReader(settings))
        self.continuity.begin(0, 10)

    def follow(self, *offsets: int) -> None:
        self.continuity.follow(0, records(*offsets))

    def assign(self, _partitions: object) -> None:
        pass

    def pause(self, _partition: object) -> None:
        pass

    resume = pause

    def highwater(self, _partition: object) -> int:
        return 20

    def beginning_offsets(self, partitions: Sequence[Any], **_: object) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    end_offsets = beginning_offsets

    def seek(self, partition: Any, offset: int) -> None:
        self.looks.append(offset)
        self._at = partition

    def poll(self, **_: object) -> dict[Any, list[Any]]:
        found = [SimpleNamespace(offset=offset) for offset in self.missed if offset >= self.looks[-1]]
        return {self._at: found[:1]} if found else {}

    def position(self, _partition: object, **_: object) -> int:
        return 2**62


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_records_without_gaps_ask_nobody(watched: Watched) -> None:
    watched.follow(10, 11)
    watched.follow()
    watched.follow(12)
    assert watched.looks == []


def test_records_that_were_skipped_as_unreadable_leave_no_gap(watched: Watched) -> None:
    lost = Record(Source("stream", 0), "documents", 10, None, None, 0, (), Lost(5, "cannot be read"))
    watched.continuity.follow(0, [lost])
    watched.follow(15)
    assert watched.looks == []


@pytest.mark.parametrize("offsets", [(9, 10), (10, 10), (10, 12, 11)])
def test_a_client_that_goes_back_is_stopped(watched: Watched, offsets: tuple[int, ...]) -> None:
    with pytest.raises(DeliveryDoubtful, match="went back below offset 10"):
        watched.follow(*offsets)


def test_the_first_record_is_compared_with_what_was_asked_for_however_short_ago_the_last_look_was(
    watched: Watched,
) -> None:
    watched.follow(12)
    watched.continuity.begin(0, 20)
    watched.missed = [21]
    with pytest.raises(DeliveryDoubtful, match="passed the record of offset 21 over and read on at 25"):
        watched.follow(25)
    assert watched.looks == [10, 20]


def test_damage_in_a_gap_ends_the_reading_although_damage_may_be_skipped(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "LASTING_SECONDS", 0.0)
    at = TopicPartition(watched.settings.topics.input, 0)

    def fetch_damage(**_: object) -> dict[Any, list[Any]]:
        for _fetch in range(FETCHES_MIN):
            watched.damages.note(at, 10, 12, "broken")
        return {}

    monkeypatch.setattr(watched, "poll", fetch_damage)
    with pytest.raises(DeliveryDoubtful, match="read on at 12, and the records of offsets 10 to 11 cannot be read"):
        watched.follow(12)


def test_the_largest_gap_amid_the_records_is_looked_into_once_in_a_while(watched: Watched) -> None:
    watched.follow(10, 12, 15, 17)
    watched.follow(19)
    assert watched.looks == [13]
    watched.seconds += LOOK_SECONDS
    watched.missed = [20]
    with pytest.raises(DeliveryDoubtful, match="offset 20 over and read on at 21"):
        watched.follow(21)


def test_a_partition_that_was_given_away_begins_afresh(watched: Watched) -> None:
    watched.follow(10)
    watched.continuity.forget(0)
    watched.continuity.begin(0, 3)
    watched.follow(3)
    assert watched.looks == []


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up()
    yield made
    made.tear_down()


def follow_in(world: KafkaWorld, begin: int, *offsets: int) -> None:
    with closing(TopicReader(world.settings)) as reader:
        watch = Continuity(world.settings, reader)
        watch.begin(0, begin)
        watch.follow(0, records(*offsets))


@pytest.mark.kafka
def test_a_committed_record_in_a_gap_is_noticed(world: KafkaWorld) -> None:
    world.write([b"0", b"1", b"2", b"3"])
    follow_in(world, 1, 1, 2)
    with pytest.raises(DeliveryDoubtful, match="offset 0 over and read on at 2"):
        follow_in(world, 0, 2)
    with pytest.raises(DeliveryDoubtful, match="offset 1 over and read on at 3"):
        follow_in(world, 0, 0, 3)


@pytest.mark.kafka
def test_ends_of_transactions_and_aborted_records_explain_a_gap(world: KafkaWorld) -> None:
    servers = world.settings.kafka.bootstrap_servers
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=str(uuid.uuid4()))
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(2):
            producer.send(world.settings.topics.input, b"value", partition=0)
        producer.flush()
        end()
    producer.close()
    # 0 1 commit | 3 4 abort | 6 7 commit
    follow_in(world, 0, 0, 1, 6, 7)
    follow_in(world, 2, 6)
    with pytest.raises(DeliveryDoubtful, match="offset 6 over"):
        follow_in(world, 2, 7)


@pytest.mark.kafka
def test_a_gap_whose_offsets_are_gone_from_the_log_is_for_recovery_to_judge(world: KafkaWorld) -> None:
    world.write([b"0", b"1", b"2", b"3"])
    world.delete_before(2)
    with pytest.raises(DeliveryDoubtful, match="offset 1 is gone from the log"):
        follow_in(world, 1, 3)
