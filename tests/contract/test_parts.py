"""The parts of a service and what they hand each other, over a real broker: waiting, repeating, losing, refusing."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamer.errors import RecordsUnreadable, RecoveryRefused, SettingsError
from streamer.flink.batches import heartbeat
from streamer.parts.fingerprint_batch import unpack_fingerprints
from streamer.parts.verdict_batch import unpack_verdicts
from streamer.settings.settings import Minhash
from streamer.transports.kafka.clients import make_admin
from tests.support.parts_world import PartsWorld, values
from tests.support.transport_worlds import Client

COUNT = 30


@pytest.fixture
def world(kafka: SimpleNamespace, tmp_path: Path) -> PartsWorld:
    return PartsWorld(kafka.bootstrap_servers, tmp_path, records_max=5)


def require_all_delivered(world: PartsWorld, count: int = COUNT) -> None:
    """Every document once, the first of each text as unique."""
    expected = [(offset, "unique" if offset < 6 else "duplicate") for offset in range(count)]
    assert world.delivered() == expected


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_route_waits_for_verdicts_within_bounds_and_goes_on_when_they_come(
    kafka: SimpleNamespace, tmp_path: Path, client: Client
) -> None:
    world = PartsWorld(kafka.bootstrap_servers, tmp_path, client, records_max=5)
    world.write(values(COUNT))
    waited: list[int] = []

    def long_enough(transport: object) -> bool:
        waited.append(transport.waiting())  # type: ignore[attr-defined]
        return len(waited) > 40 and waited[-1] >= 10

    world.run("route", until=long_enough)
    # Two batches, and what one more fetch may bring.
    assert max(waited) <= 3 * 5
    assert world.delivered() == []
    told = False

    def tell_amid(transport: object) -> bool:
        nonlocal told
        if not told and transport.waiting() >= 10:  # type: ignore[attr-defined]
            told = True
            world.run("fingerprint", COUNT)
            world.run("decide", COUNT // 5)
        return told and len(world.delivered()) == COUNT

    world.run("route", until=tell_amid)
    require_all_delivered(world)


def test_route_delivers_every_partition_however_far_verdicts_are_ahead_of_what_waits(
    kafka: SimpleNamespace, tmp_path: Path
) -> None:
    """Verdicts of one partition fill what may be read ahead, while records of another wait for theirs."""
    world = PartsWorld(kafka.bootstrap_servers, tmp_path, partitions=4, records_max=25)
    for partition in range(4):
        world.write(values(1_500), partition=partition)
    world.run("fingerprint", 6_000)
    world.run("decide", len(world.records(world.settings.topics.fingerprints)))
    world.run("route", 6_000)
    topics = world.settings.topics
    delivered = [
        dict(record.headers)["neardup.position"]
        for topic in (topics.unique, topics.duplicate)
        for record in world.records(topic)
    ]
    assert len(delivered) == len(set(delivered)) == 6_000


def test_batches_account_for_every_offset_and_name_what_they_were_made_from(world: PartsWorld) -> None:
    world.write([*values(12), b"{", b""])
    world.run("fingerprint", 14)
    world.run("decide", 3)
    topics = world.settings.topics
    made = world.records(topics.fingerprints)
    batches = [unpack_fingerprints(record.value, "") for record in made]
    assert [(each.heading.begin, each.heading.end) for each in batches] == [(0, 5), (5, 10), (10, 14)]
    assert [dict(record.headers)["neardup.position"].rsplit(b"/", 1)[1] for record in made] == [b"0", b"5", b"10"]
    told = [unpack_verdicts(record.value, "") for record in world.records(topics.verdicts)]
    assert [each.heading for each in told] == [each.heading for each in batches]
    assert told[2].ids[2:] == [None, None]
    assert told[2].details[:2] == [None, None]
    assert all(told[2].details[2:])


def test_verdicts_that_come_twice_are_dropped_and_places_that_are_lost_are_found(world: PartsWorld) -> None:
    world.write(values(COUNT))
    world.run("fingerprint", COUNT)
    world.run("decide", 6)
    world.run("route", 15)
    # Told again from the first batch on; and the router no longer knows where its verdicts stand.
    world.set_group("decide", 0)
    world.run("decide", 3)
    world.set_group("route", 15)
    world.run("route", COUNT - 15)
    require_all_delivered(world)


def test_documents_that_are_fingerprinted_again_keep_their_verdicts(world: PartsWorld) -> None:
    world.write(values(COUNT))
    world.run("fingerprint", COUNT)
    world.run("decide", 6)
    world.set_group("fingerprint", 10)
    world.run("fingerprint", COUNT - 10)
    world.run("decide", 4)
    world.run("route", COUNT)
    require_all_delivered(world)


def test_verdicts_that_retention_took_are_told_again_as_the_message_says(world: PartsWorld) -> None:
    world.write(values(COUNT))
    world.run("fingerprint", COUNT)
    world.run("decide", 6)
    world.run("route", 10)
    ends = [record.offset for record in world.records(world.settings.topics.verdicts)]
    world.delete_before(world.settings.topics.verdicts, ends[3])
    with pytest.raises(RecoveryRefused, match=r"retention took verdicts .*fingerprint' back to 10"):
        world.run("route", 1)
    world.set_group("fingerprint", 10)
    world.run("fingerprint", COUNT - 10)
    world.run("decide", 4)
    world.run("route", COUNT - 10)
    require_all_delivered(world)


def test_fingerprints_that_retention_took_are_written_again(world: PartsWorld) -> None:
    world.write(values(COUNT))
    world.run("fingerprint", COUNT)
    world.run("decide", 2)
    ends = [record.offset for record in world.records(world.settings.topics.fingerprints)]
    world.delete_before(world.settings.topics.fingerprints, ends[4])
    with pytest.raises(RecoveryRefused, match=r"10 offsets from 10 on were deleted .*recovery\.offsets_gone"):
        world.run("decide", 1)
    world.set_group("fingerprint", 10)
    world.run("fingerprint", COUNT - 10)
    world.run("decide", 4)
    world.run("route", COUNT)
    require_all_delivered(world)


def test_a_lost_index_is_not_guessed_where_verdicts_are_gone_that_were_not_delivered(world: PartsWorld) -> None:
    world.write(values(COUNT))
    world.run("fingerprint", COUNT)
    world.run("decide", 6)
    world.run("route", 10)
    ends = [record.offset for record in world.records(world.settings.topics.verdicts)]
    shutil.rmtree(world.settings.index.directory)
    world.delete_before(world.settings.topics.verdicts, ends[3])
    with pytest.raises(RecoveryRefused, match="no verdicts are left on offsets 10 to 14"):
        world.run("decide", 1)


def test_a_lost_index_is_restored_from_outputs_and_from_what_was_told(world: PartsWorld) -> None:
    world.write(values(20))
    world.run("fingerprint", 20)
    world.run("decide", 4)
    world.run("route", 3)
    shutil.rmtree(world.settings.index.directory)
    world.write(values(COUNT)[20:])
    world.run("fingerprint", COUNT - 20)
    world.run("decide", 2)
    world.run("route", COUNT - 5)
    require_all_delivered(world)


def test_an_input_that_was_made_anew_is_for_a_person_to_decide(world: PartsWorld) -> None:
    world.write(values(10))
    for part, count in (("fingerprint", 10), ("decide", 2), ("route", 10)):
        world.run(part, count)  # type: ignore[arg-type]
    with make_admin(world.settings) as admin:
        admin.delete_topics([world.settings.topics.input])
        admin.create_topics({world.settings.topics.input: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([world.settings.topics.input])
    world.write(values(5))
    world.run("fingerprint", 5)
    with pytest.raises(RecoveryRefused, match=r"recovery\.topic_recreated"):
        world.run("decide", 1)
    world.with_policy(topic_recreated="continue")
    world.run("decide", 1)
    world.run("route", 5)
    assert [verdict for _, verdict in world.delivered()].count("duplicate") == 4 + 5


@pytest.mark.parametrize("part", ["decide", "route"])
def test_fingerprints_by_other_settings_are_refused_by_the_name_of_the_setting(world: PartsWorld, part: str) -> None:
    world.write(values(5))
    world.run("fingerprint", 5)
    if part == "route":
        world.run("decide", 1)
        shutil.rmtree(world.settings.index.directory)
    other = world.settings.model_copy(update={"minhash": Minhash(shingles="words")})
    with pytest.raises(SettingsError, match="shingles is words here"):
        world.run(part, 1, settings=other)  # type: ignore[arg-type]


def test_what_is_no_batch_stops_its_reader_with_its_place(world: PartsWorld) -> None:
    topics = world.settings.topics
    world.write([b"a stranger's record"], topics.fingerprints)
    with pytest.raises(RecordsUnreadable, match=f"^{topics.fingerprints}/0 offset 0: no batch"):
        world.run("decide", 1)
    world.write(values(5))
    world.write([b"NDVD"], topics.verdicts)
    with pytest.raises(RecordsUnreadable, match=f"^{topics.verdicts}/0 offset 0: .* cut"):
        world.run("route", 1)


def test_a_partition_without_news_gives_a_sign_of_life_where_it_is_asked_for(world: PartsWorld) -> None:
    batch = world.settings.batch.model_copy(update={"idle_ms": 20})
    world.settings = world.settings.model_copy(update={"batch": batch})
    world.write(values(COUNT))

    def three_signs(_transport: object) -> bool:
        found = [unpack_fingerprints(each.value, "") for each in world.records(world.settings.topics.fingerprints)]
        return sum(not len(each.entries) for each in found) >= 3 and found[-1].heading.begin == COUNT

    world.run("fingerprint", until=three_signs)
    whole = len(world.records(world.settings.topics.fingerprints))
    world.run("decide", whole)
    world.run("route", COUNT)
    require_all_delivered(world)
    assert all(len(unpack_verdicts(each.value, "")) for each in world.records(world.settings.topics.verdicts))


def test_decide_follows_an_engine_that_left_signs_of_life(world: PartsWorld) -> None:
    """The engine's verdicts are delivered, the index is empty and the group has committed nothing: it goes on all the same."""
    signs, fingerprints = [heartbeat(0)] * 3, world.settings.topics.fingerprints
    world.write(values(15))
    world.write(signs, fingerprints)
    world.run("fingerprint", 15)
    world.write(signs, fingerprints)
    world.run("decide", until=lambda _: len(world.records(world.settings.topics.verdicts)) == 3)
    world.run("route", 15)
    shutil.rmtree(world.settings.index.directory)
    world.set_group("decide", 0)
    world.write(values(COUNT)[15:])
    world.run("fingerprint", 15)
    world.write(signs, fingerprints)
    world.run("decide", until=lambda _: len(world.records(world.settings.topics.verdicts)) == 6)
    world.run("route", 15)
    require_all_delivered(world)
    # Signs alone move nothing back.
    world.write(signs, fingerprints)
    world.run("decide", 1)
    world.run("decide", until=lambda transport: transport.decided_to(0) == COUNT)
