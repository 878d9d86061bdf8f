"""A lost index is restored as a whole, by one worker, before any worker decides."""

import itertools
import shutil
from pathlib import Path

import pytest

from deploy.made_up_site import others
from index.entry import Insert, Source
from index.index import Index
from index.storage.file.commit_hooks import CommitHooks
from index.turn import Turn
from streamer.errors import DeliveryDoubtful, RecoveryRefused
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.service import recovery
from streamer.service.recovery import Recoverer, Unrecovered
from streamer.service.state import State
from streamer.settings.settings import Index as IndexSettings
from streamer.settings.settings import Recovery, Route, Settings, load
from streamer.transports.transport import Assigned
from tests.support.indexes import all_records, looked_at
from tests.support.listening import Listening
from tests.support.memory_broker import Crashed, MemoryTransport, Partition, Stored
from tests.support.memory_service import SENTENCES, World, document, with_an_undelivered_original
from tests.support.tiers import first_of
from tests.support.verified import verified, wrong


def lost_index_whose_owner_of_partition_0_is_gone(directory: Path, insert: Insert) -> World:
    """Originals stand in partition 1 and their duplicates in partition 0, all delivered. Their owner of then is dead, and
    still holds partition 0. The index is lost. The originals wait again, in partition 1, which a living worker gets."""
    world = World(directory / "lost", Settings(index=IndexSettings(insert=insert)))
    world.fill([document(f"first-{number}", text) for number, text in enumerate(SENTENCES)], 1, partitions=2)
    world.run()
    world.fill([document(f"second-{number}", text + "!") for number, text in enumerate(SENTENCES)], 0)
    world.run()
    world.fill([document(f"third-{number}", text + "?") for number, text in enumerate(SENTENCES)], 1)
    del world.broker.group(world.settings.kafka.group).owners[1]
    world.directory, world.instance = directory / "new", "1"

    turns = itertools.count()

    def expel_the_dead_owner_in_time() -> None:
        # To restore takes fewer turns.
        if next(turns) == 6:
            world.broker.expel(world.settings.kafka.group, "0")

    world.each_turn = expel_the_dead_owner_in_time
    return world


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_what_another_worker_owned_is_restored_before_the_first_decision(tmp_path: Path, insert: Insert) -> None:
    world = lost_index_whose_owner_of_partition_0_is_gone(tmp_path, insert)
    world.run()
    assert sum(world.restored) == len(SENTENCES) * (1 if insert == "unique" else 2)
    outputs = world.outputs()
    topic = world.settings.topics.input
    late = [outputs[f"{topic}/1/{len(SENTENCES) + number}"] for number in range(len(SENTENCES))]
    assert {destination for destination, _ in late} == {world.settings.topics.duplicate}
    originals = [(dict(headers)["neardup.original.position"] or b"").decode() for _, headers in late]
    assert originals == [f"{topic}/1/{number}" for number in range(len(SENTENCES))]
    with reopened(world) as index:
        assert {source.partition: at.offset for source, at in index.applied().items()} == {0: 6, 1: 12}


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_a_lost_index_is_restored_from_what_came_out_with_shadow_mode_on_and_off_as_if_it_had_never_been_on(
    tmp_path: Path, insert: Insert
) -> None:
    found = []
    for shadow in ([False, False, False], [False, True, False], [True, False, True]):
        directory = tmp_path / str(shadow)
        world = World(directory / "lost", Settings(index=IndexSettings(insert=insert)))
        world.fill([document(f"first-{number}", text) for number, text in enumerate(SENTENCES)])
        for number, is_on in enumerate(shadow):
            world.settings = world.settings.model_copy(update={"route": Route(shadow=is_on)})
            world.fill([document(f"{number}-{each}", text + "!" * number) for each, text in enumerate(SENTENCES)])
            world.run()
        world.directory = directory / "new"
        world.fill([document(f"last-{number}", text + "?") for number, text in enumerate(SENTENCES)])
        world.run()
        assert sum(world.restored) == len(SENTENCES) * (1 if insert == "unique" else 4)
        found.append([(at, headers) for at, (_, headers) in sorted(world.outputs().items())])
        with looked_at(world.directory) as index:
            entries = [(record.offset, record.verdict) for record in all_records(index)]
        found.append(sorted(entries))
    assert found[0::2] == [found[0]] * 3
    assert found[1::2] == [found[1]] * 3


def reopened(world: World) -> Index:
    scheme = scheme_for(world.settings)
    return Index.open(world.directory, parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30)


def test_a_worker_refuses_to_begin_where_the_policy_forbids_to_restore_what_another_owns(tmp_path: Path) -> None:
    world = lost_index_whose_owner_of_partition_0_is_gone(tmp_path, "unique")
    with reopened(world) as index:
        index.set_applied(source_of(world, 1), len(SENTENCES))
    with pytest.raises(RecoveryRefused, match=r"/0: the group is at 6, the index at 0.*recovery\.index_behind"):
        world.run_once(policy=Recovery(index_behind="stop"))


def source_of(world: World, partition: int) -> Source:
    return Source(world.broker.topics[world.settings.topics.input].id, partition)


@pytest.mark.parametrize("insert", first_of("root", "unique"))
@pytest.mark.parametrize("passage", range(1, 8))
def test_a_restoration_that_breaks_off_anywhere_is_done_again_and_ends_the_same(
    tmp_path: Path, passage: int, insert: Insert
) -> None:
    peace = lost_index_whose_owner_of_partition_0_is_gone(tmp_path / "peace", insert)
    peace.run()
    world = lost_index_whose_owner_of_partition_0_is_gone(tmp_path / "crash", insert)
    left = passage

    def crash() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crashed

    starts = world.starts
    world.run(CommitHooks(before_commit=crash))
    assert world.starts == starts + 2
    assert verdicts(world) == verdicts(peace)


def verdicts(world: World) -> list[object]:
    return sorted(
        (position.rpartition("documents")[2], destination, headers)
        for position, (destination, headers) in world.outputs().items()
    )


def test_a_service_is_restoring_until_the_index_is_whole(tmp_path: Path) -> None:
    world = lost_index_whose_owner_of_partition_0_is_gone(tmp_path, "unique")
    world.states.clear()
    world.run()
    assert world.states == [State.STARTING, State.RESTORING, State.RUNNING, State.DRAINING, State.STOPPED]


def test_while_another_process_restores_a_worker_waits_with_signs_of_life_and_then_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "TURN_WAIT_SECONDS", 0.3)
    world = lost_index_whose_owner_of_partition_0_is_gone(tmp_path, "unique")
    transport = MemoryTransport(world.broker, world.settings, "1")
    transport.open()
    assigned = transport.read()
    assert isinstance(assigned, Assigned)
    signs_of_life: list[int] = []
    with reopened(world) as index:
        other = Turn(world.directory / "data.mdb")
        assert other.take()
        waiting = Recoverer(
            transport,
            index,
            Decoder(world.settings.decode),
            scheme_for(world.settings),
            Recovery(),
            Listening(restored=signs_of_life.append),
        )
        found = [waiting.recover(assigned) for _ in range(6)]
        assert found[0] is Unrecovered.WAITING
        assert found[-1] is Unrecovered.RESTORING
        assert len(signs_of_life) == 6
        assert index.applied() == {}
        other.give_back()
        assert waiting.recover(assigned) is Unrecovered.RESTORING
        world.broker.expel(world.settings.kafka.group, "0")
        assigned = transport.read()
        assert isinstance(assigned, Assigned)
        assert len(assigned.sources) == 2
        assert isinstance(waiting.recover(assigned), dict)
        assert other.take(), "the turn was not given back"
        other.give_back()


def test_a_worker_that_reads_already_begins_anew_where_the_index_falls_behind(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fill([document("one", SENTENCES[0])], partitions=2)
    group, topic = world.broker.group(world.settings.kafka.group), world.settings.topics.input

    def move_offsets() -> None:
        # An older version moves the group's offsets, and the worker gets another partition.
        if world.reports and len(world.broker.topics[topic].partitions) == 2:
            world.broker.topics[topic].partitions.append(Partition())
            world.broker.write(topic, 2, [document("two", SENTENCES[1])])
            group.committed[source_of(world, 2)] = 1
            group.claims[source_of(world, 2)] = ("", True)

    world.each_turn = move_offsets
    with pytest.raises(DeliveryDoubtful, match="being restored while this worker reads"):
        world.run_once()
    world.run_once()
    assert sorted(world.outputs()) == [f"{topic}/0/0"]


# --- originals that were decided and never delivered ---------------------------------------------------------------------


def lost_index_with_an_undelivered_original(directory: Path, insert: Insert) -> World:
    """The index is lost, and a third copy waits in partition 0, which is read first."""
    world = with_an_undelivered_original(directory / "lost", insert)
    world.directory = directory / "new"
    return world


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_an_original_that_a_delivered_duplicate_names_comes_out_as_unique_though_the_index_was_lost_before_its_delivery(
    tmp_path: Path, insert: Insert
) -> None:
    world = lost_index_with_an_undelivered_original(tmp_path, insert)
    world.run()
    topics = world.settings.topics
    destinations = {at.removeprefix(topics.input): where for at, (where, _) in world.outputs().items()}
    assert destinations == {"/1/0": topics.unique, "/0/0": topics.duplicate, "/0/1": topics.duplicate}
    assert wrong(verified(world)) == {}


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_an_original_that_came_out_as_a_duplicate_of_a_later_copy_is_found(
    tmp_path: Path, insert: Insert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without the safeguard."""
    monkeypatch.setattr(MemoryTransport, "inputs_at", lambda *_: iter(()))
    world = lost_index_with_an_undelivered_original(tmp_path, insert)
    world.run()
    topic = world.settings.topics.input
    assert wrong(verified(world))["original-not-unique"] == [f"{topic}/0/0: names {topic}/1/0"]


# --- outputs that have lost records -----------------------------------------------------------------------------------


def trimmed(directory: Path, index: IndexSettings | None = None, hours: int = 0) -> World:
    """All is delivered, one document an hour for `hours`; the index is lost, and the first two records of the unique
    topic are gone. Each document waits to be read again."""
    world = World(directory / "lost", Settings(index=index or IndexSettings()))
    times = [number * 3_600_000 for number in range(len(SENTENCES))] if hours else [0] * len(SENTENCES)
    world.broker.create_for(world.settings)
    world.fill(
        [
            Stored(None, document(f"first-{at}", text), time)
            for at, (text, time) in enumerate(zip(SENTENCES, times, strict=True))
        ]
    )
    world.run()
    world.broker.delete_before(world.settings.topics.unique, 0, 2)
    world.fill([Stored(None, document(f"again-{at}", text + "!"), times[-1]) for at, text in enumerate(SENTENCES)])
    world.directory = directory / "new"
    return world


def late_destinations(world: World) -> list[str]:
    """Where the documents went that were read again, in their order."""
    outputs, topics = world.outputs(), world.settings.topics
    places = (f"{topics.input}/0/{len(SENTENCES) + at}" for at in range(len(SENTENCES)))
    return [outputs[place][0].removeprefix("documents-") for place in places]


def test_a_restoration_from_outputs_that_lost_records_is_refused_before_anything_enters(tmp_path: Path) -> None:
    world = trimmed(tmp_path)
    with pytest.raises(RecoveryRefused) as refusal:
        world.run_once()
    assert str(refusal.value) == (
        "the index cannot be restored in full, for the outputs have lost records: documents-unique/0 begins at offset 2. "
        "Documents of documents/0 [0, 6) may be among them, and reposts of those would come out as unique. Bring a newer "
        "backup back (streamer index restore), or set recovery.outputs_trimmed = 'continue' to go on with what is left."
    )
    assert sum(world.restored) == 0
    assert world.gaps == []


def test_what_is_left_of_the_outputs_is_restored_and_the_gap_counted_where_the_policy_says_so(tmp_path: Path) -> None:
    world = trimmed(tmp_path)
    world.run_once(policy=Recovery(outputs_trimmed="continue"))
    assert sum(world.restored) == len(SENTENCES) - 2
    assert world.gaps == [1]
    assert world.behind == [len(SENTENCES), 0]
    assert late_destinations(world) == ["unique"] * 2 + ["duplicate"] * (len(SENTENCES) - 2)


def test_an_old_copy_that_lacks_only_what_is_left_is_restored_without_a_person(tmp_path: Path) -> None:
    world = World(tmp_path / "index")
    world.fill([document(f"first-{at}", text) for at, text in enumerate(SENTENCES[:4])])
    world.run()
    shutil.copytree(tmp_path / "index", tmp_path / "old-copy")
    world.fill([document(f"first-{at}", text) for at, text in enumerate(SENTENCES[4:], 4)])
    world.run()
    world.broker.delete_before(world.settings.topics.unique, 0, 3)
    world.directory = tmp_path / "old-copy"
    world.run_once()
    assert sum(world.restored) == 2
    assert world.gaps == []


@pytest.mark.parametrize(
    ("index", "excused"),
    [
        (IndexSettings(entries_max=4), True),
        (IndexSettings(entries_max=5), False),
        (IndexSettings(age_max_hours=3), True),
        (IndexSettings(age_max_hours=3.5), False),
    ],
    ids=["as many are left as count", "fewer are left", "as old ones are left as count", "only younger ones are left"],
)
def test_what_the_index_would_not_count_any_more_needs_not_to_be_restored(
    tmp_path: Path, index: IndexSettings, excused: bool
) -> None:
    world = trimmed(tmp_path, index, hours=1)
    if excused:
        world.run_once()
        assert world.gaps == []
    else:
        with pytest.raises(RecoveryRefused, match=r"recovery\.outputs_trimmed"):
            world.run_once()
    assert sum(world.restored) == len(SENTENCES) - 2


@pytest.mark.parametrize("scheme", first_of("minhash", "simhash"))
def test_a_shared_id_is_known_from_the_outputs_after_the_index_was_lost(tmp_path: Path, scheme: str) -> None:
    """A feed gives all its items its own address. The outputs' reasons say so, and no item is an update of the last."""
    texts = others("en", 30).texts[6:]
    reprints = [
        document(f"https://other.example/{number}", f"{text} Nobody was hurt.") for number, text in enumerate(texts)
    ]
    found = []
    for is_lost in (False, True):
        settings = load(None, [f"fingerprint.scheme={scheme}", "index.recrawl=update"], {})
        world = World(tmp_path / f"{is_lost}", settings)
        world.fill([document("https://feed.example/", text) for text in texts[:12]])
        world.run()
        if is_lost:
            world.directory = tmp_path / "new"
        world.fill([*(document("https://feed.example/", text) for text in texts[12:]), *reprints])
        world.run()
        found.append(verdicts(world))
    peace, lost = found
    assert [dict(headers)["neardup.reason"] for *_, headers in peace].count(b"shared-id") >= 18
    assert lost == peace
