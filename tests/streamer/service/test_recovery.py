"""Every state that a start can find has one written answer."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from index.entry import Source
from index.index import Index
from streamer.errors import DeliveryDoubtful, RecoveryRefused
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.service import recovery
from streamer.service.recovery import Foreign, Plan, Recoverer, SourceOffsets, Unrecovered, plan
from streamer.settings.settings import Recovery, Settings
from streamer.transports.transport import Assigned, Transport
from tests.support.listening import Listening
from tests.support.memory_broker import Crash, Crashed, MemoryBroker, MemoryTransport, Partition
from tests.support.memory_service import SENTENCES, document
from tests.support.memory_service import World as MemoryWorld


def found(
    committed: int | None,
    applied: int | None,
    *,
    first: int = 0,
    end: int = 100,
    recreated: bool = False,
    begun: bool = False,
) -> SourceOffsets:
    return SourceOffsets("news", 3, committed, applied, first, end, recreated, begun)


def make_index(directory: Path) -> Index:
    scheme = scheme_for(Settings())
    return Index.open(directory, parameters_for(Settings(), scheme.stamp()), map_bytes_max=2**30)


def recoverer(
    transport: Transport, index: Index, policy: Recovery, progress: Callable[[int], None] = lambda count: None
) -> Recoverer:
    chosen = Settings()
    return Recoverer(transport, index, Decoder(chosen.decode), scheme_for(chosen), policy, Listening(restored=progress))


STOPPING = Recovery(index_behind="stop")


@pytest.mark.parametrize("policy", [Recovery(), STOPPING])
def test_a_group_and_an_index_that_agree_go_on_where_they_were(policy: Recovery) -> None:
    assert plan(found(7, 7), policy) == Plan(7)


@pytest.mark.parametrize("policy", [Recovery(), STOPPING])
def test_an_index_ahead_of_the_group_replays_from_the_committed_offset(policy: Recovery) -> None:
    assert plan(found(5, 9), policy) == Plan(5)


def test_an_index_behind_the_group_is_restored_before_going_on() -> None:
    assert plan(found(9, 5), Recovery()) == Plan(9, restore=range(5, 9))


def test_an_index_behind_the_group_stops_where_the_policy_says_so() -> None:
    with pytest.raises(RecoveryRefused, match=r"news/3: the group is at 9, the index at 5.*recovery\.index_behind"):
        plan(found(9, 5), STOPPING)


def test_a_new_index_under_an_old_group_is_restored_from_the_beginning() -> None:
    assert plan(found(9, None), Recovery()) == Plan(9, restore=range(9))


def test_a_new_index_under_a_group_that_committed_nothing_yet_has_nothing_to_restore() -> None:
    assert plan(found(0, None), STOPPING) == Plan(0)


def test_a_first_start_begins_at_the_first_record_and_says_so_to_the_group() -> None:
    assert plan(found(None, None, first=4), Recovery()) == Plan(4, commit=True)


def test_a_first_start_may_begin_behind_the_last_record() -> None:
    assert plan(found(None, None, first=4), Recovery(first_start="latest")) == Plan(100, commit=True)


@pytest.mark.parametrize("first_start", ["earliest", "latest"])
def test_a_partition_that_is_added_later_begins_at_its_first_record(first_start: Literal["earliest", "latest"]) -> None:
    assert plan(found(None, None, first=4, begun=True), Recovery(first_start=first_start)) == Plan(4, commit=True)


LATEST = Recovery(first_start="latest")


def test_what_added_partitions_hold_before_they_are_found_is_delivered(tmp_path: Path) -> None:
    world = MemoryWorld(tmp_path)
    world.fill([document("before", SENTENCES[0])], partitions=2)
    world.run_once(policy=LATEST)
    assert world.outputs() == {}, "history was read"
    topic = world.settings.topics.input
    world.broker.topics[topic].partitions.append(Partition())
    world.broker.write(topic, 2, [document(f"added-{number}", text) for number, text in enumerate(SENTENCES)])
    world.run_once(policy=LATEST)
    assert sorted(world.outputs()) == [f"{topic}/2/{number}" for number in range(len(SENTENCES))]


@pytest.mark.parametrize("last", [0, 1], ids=["the lowest partition waits", "the lowest partition goes first"])
def test_workers_that_begin_at_the_end_begin_all_partitions_there_and_none_reads_history(
    tmp_path: Path, last: int
) -> None:
    chosen = Settings()
    broker = MemoryBroker()
    broker.create_for(chosen, 2)
    for partition in (0, 1):
        broker.write(chosen.topics.input, partition, [b"before"] * 5)
    with make_index(tmp_path) as index:
        transports = [MemoryTransport(broker, chosen, str(number)) for number in (0, 1)]
        for transport in transports:
            transport.open()
        # Both join before the first is asked to begin.
        for transport in transports:
            transport.read()
        plans: dict[Source, Plan] = {}
        for number in (1 - last, last, 1 - last):
            assigned = transports[number].read()
            if isinstance(assigned, Assigned):
                recovered = recoverer(transports[number], index, LATEST).recover(assigned)
                plans.update({} if isinstance(recovered, Unrecovered) else recovered)
    assert {source.partition: each.begin for source, each in plans.items()} == {0: 5, 1: 5}


def test_a_worker_waits_for_the_owner_of_the_lowest_partition_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "BEGIN_WAIT_SECONDS", 0.2)
    broker = MemoryBroker()
    broker.create_for(Settings(), 2)
    transport = MemoryTransport(broker, Settings(), "0")
    transport.open()
    whole = transport.read()
    assert isinstance(whole, Assigned)
    part = Assigned(whole.sources[1:], whole.names, whole.sources[:1])
    signs_of_life: list[int] = []
    with make_index(tmp_path) as index:
        waiting = recoverer(transport, index, LATEST, signs_of_life.append)
        assert waiting.recover(part) is Unrecovered.WAITING
        time.sleep(0.3)
        with pytest.raises(DeliveryDoubtful, match="at its end: the others wait"):
            waiting.recover(part)
    assert len(signs_of_life) > 1


class Overtaken(MemoryTransport):
    """Another worker, which shares the index, decides and commits whenever this one asks what is committed."""

    def __init__(self, broker: MemoryBroker, settings: Settings, index: Index, busy: Source) -> None:
        super().__init__(broker, settings, "0")
        self._index = index
        self._busy = busy

    def committed(self, sources: Iterable[Source]) -> dict[Source, int | None]:
        self._index.set_applied(self._busy, self._index.applied()[self._busy].offset + 10)
        self._group.committed[self._busy] = self._index.applied()[self._busy].offset
        return super().committed(sources)


def test_what_another_worker_decides_meanwhile_is_not_taken_for_lost(tmp_path: Path) -> None:
    broker = MemoryBroker()
    broker.create_for(Settings(), 2)
    with make_index(tmp_path) as index:
        busy = Source(broker.topics[Settings().topics.input].id, 1)
        index.begin(busy, Settings().topics.input, 0)
        transport = Overtaken(broker, Settings(), index, busy)
        transport.open()
        whole = transport.read()
        assert isinstance(whole, Assigned)
        part = Assigned(whole.sources[:1], whole.names, whole.sources[1:])
        assert recoverer(transport, index, STOPPING).recover(part) == {whole.sources[0]: Plan(0, commit=True)}


def test_lost_group_offsets_need_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"everything below 8.*recovery\.committed_missing"):
        plan(found(None, 8), Recovery())


def test_lost_group_offsets_may_be_taken_from_the_index() -> None:
    assert plan(found(None, 8), Recovery(committed_missing="applied")) == Plan(8, commit=True)


def test_lost_group_offsets_below_what_retention_kept_are_counted_as_skipped() -> None:
    policy = Recovery(committed_missing="applied")
    assert plan(found(None, 8, first=20), policy) == Plan(20, commit=True, skipped=12)


def test_lost_group_offsets_may_be_answered_by_delivering_everything_again() -> None:
    assert plan(found(None, 8, first=2), Recovery(committed_missing="earliest")) == Plan(2, commit=True)


def test_a_recreated_input_needs_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"deleted and made again.*recovery\.topic_recreated"):
        plan(found(None, None, recreated=True), Recovery())


def test_a_recreated_input_is_read_from_its_first_record() -> None:
    policy = Recovery(topic_recreated="continue", first_start="latest")
    assert plan(found(None, None, recreated=True), policy) == Plan(0, commit=True)


def test_a_recreated_input_that_was_begun_before_goes_on_as_any_other() -> None:
    assert plan(found(5, 9, recreated=True), Recovery()) == Plan(5)
    assert plan(found(5, None, recreated=True), Recovery()) == Plan(5, restore=range(5))


def test_undelivered_records_that_retention_took_need_a_person() -> None:
    with pytest.raises(RecoveryRefused, match=r"5 offsets from 10 on were deleted.*recovery\.offsets_gone"):
        plan(found(10, 10, first=15), Recovery())


def test_undelivered_records_that_retention_took_are_skipped_and_counted_where_the_policy_says_so() -> None:
    policy = Recovery(offsets_gone="skip")
    assert plan(found(10, 4, first=15), policy) == Plan(15, restore=range(4, 10), commit=True, skipped=5)


@pytest.mark.parametrize(("committed", "applied"), [(101, 101), (None, 101)])
def test_offsets_behind_the_end_always_need_a_person(committed: int | None, applied: int) -> None:
    policy = Recovery(offsets_gone="skip", topic_recreated="continue", committed_missing="applied")
    with pytest.raises(RecoveryRefused, match="at offset 101, but the input ends at 100"):
        plan(found(committed, applied), policy)


# --- offsets that the service did not commit ----------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [None, 7])
def test_a_foreign_offset_with_undelivered_records_below_it_needs_a_person(applied: int | None) -> None:
    strangers = ("client 'reports' at 10.0.0.7 (partitions: 3)",)
    with pytest.raises(RecoveryRefused) as refusal:
        plan(replace(found(9, applied), foreign=Foreign(6, strangers)), Recovery())
    for words in ("news/3", "offset 9", "--to-offset 6", strangers[0], "recovery.foreign_offsets = 'trust'"):
        assert words in str(refusal.value)
    trusting = Recovery(foreign_offsets="trust")
    assert plan(replace(found(9, applied), foreign=Foreign(6)), trusting) == plan(found(9, applied), trusting)


def test_a_foreign_offset_below_which_all_was_delivered_is_a_replay() -> None:
    assert plan(replace(found(5, 9), foreign=Foreign(5)), Recovery()) == Plan(5)
    assert plan(
        replace(found(4, None, first=4), foreign=Foreign(4)), STOPPING.model_copy(update={"index_behind": "restore"})
    )


def delivered_world(directory: Path, count: int = len(SENTENCES)) -> tuple[MemoryWorld, Source]:
    """A service that has delivered so many documents, and its only source."""
    world = MemoryWorld(directory)
    world.fill([document(str(number), text) for number, text in enumerate(SENTENCES[:count])])
    world.run_once()
    return world, Source(world.broker.topics[world.settings.topics.input].id, 0)


TRUSTING = Recovery(foreign_offsets="trust")


def test_what_another_program_read_of_the_group_is_not_skipped_but_where_the_policy_says_so(tmp_path: Path) -> None:
    for policy, count in ((Recovery(), len(SENTENCES)), (TRUSTING, 2)):
        world, source = delivered_world(tmp_path / policy.foreign_offsets, 2)
        world.fill([document(str(number), text) for number, text in enumerate(SENTENCES[2:], 2)])
        group = world.broker.group(world.settings.kafka.group)
        group.commit_without_note(source, len(SENTENCES))
        if policy is not TRUSTING:
            group.strangers = ("client 'reports' at 10.0.0.7 (partitions: 0)",)
            with pytest.raises(RecoveryRefused, match=r"offset 6 .*between 2 and.*client 'reports'.*--to-offset 2\)"):
                world.run_once()
            group.commit_without_note(source, 2)
        world.run_once(policy=policy)
        assert len(world.outputs()) == count


@pytest.mark.parametrize(("policy", "count"), [(Recovery(), 4), (TRUSTING, 3)], ids=["refused", "control: trusted"])
def test_a_batch_that_was_decided_and_not_delivered_is_not_skipped(
    tmp_path: Path, policy: Recovery, count: int
) -> None:
    """The index knows the batch, so that an offset behind it is no further than the applied one."""
    world, source = delivered_world(tmp_path, 3)
    world.fill([Crash(), document("3", SENTENCES[3])])
    with pytest.raises(Crashed):
        world.run_once()
    world.broker.group(world.settings.kafka.group).commit_without_note(source, 4)
    if policy is not TRUSTING:
        with pytest.raises(RecoveryRefused, match=r"--to-offset 3\)"):
            world.run_once()
        world.broker.group(world.settings.kafka.group).commit_without_note(source, 3)
    world.run_once(policy=policy)
    assert len(world.outputs()) == count


def test_a_group_may_be_set_back_by_hand_and_delivers_again(tmp_path: Path) -> None:
    world, source = delivered_world(tmp_path)
    world.broker.group(world.settings.kafka.group).commit_without_note(source, 1)
    world.run_once()
    with pytest.raises(AssertionError, match="came out twice"):
        world.outputs()


def alone(directory: Path, count: int, partitions: int = 1) -> tuple[MemoryWorld, list[Source]]:
    """A service that has delivered so many documents of its first partition, each in a batch of its own."""
    world = MemoryWorld(directory, Settings().replaced(batch={"records_max": 1}))
    world.fill([document(str(number), text) for number, text in enumerate(SENTENCES[:count])], partitions=partitions)
    world.run_once()
    stream = world.broker.topics[world.settings.topics.input].id
    return world, [Source(stream, partition) for partition in range(partitions)]


def lose_commits(world: MemoryWorld, source: Source, offset: int) -> None:
    """What a broker answers that has not loaded the last commits: an older offset, with our note."""
    world.broker.group(world.settings.kafka.group).committed[source] = offset


@pytest.mark.parametrize("offset", range(6))
def test_commits_that_the_brokers_lost_deliver_nothing_twice(tmp_path: Path, offset: int) -> None:
    world, (source,) = alone(tmp_path, 4)
    lose_commits(world, source, min(offset, 3))
    world.fill([Crash(), *(document(str(number), text) for number, text in enumerate(SENTENCES[4:], 4))])
    with pytest.raises(Crashed):
        world.run_once()
    lose_commits(world, source, min(offset, 4))
    world.run_once()
    assert len(world.outputs()) == len(SENTENCES)
    assert world.broker.group(world.settings.kafka.group).committed[source] == len(SENTENCES)


def test_without_the_workers_notes_they_would_be_delivered_twice(tmp_path: Path) -> None:
    world, (source,) = alone(tmp_path, 4)
    lose_commits(world, source, 2)
    world.broker.group(world.settings.kafka.group).delivered.clear()
    world.run_once()
    with pytest.raises(AssertionError, match="came out twice"):
        world.outputs()


def test_what_the_outputs_lost_too_is_delivered_again(tmp_path: Path) -> None:
    """As in brokers that were restored from a copy."""
    world, (source,) = alone(tmp_path, 4)
    lose_commits(world, source, 2)
    kept = world.broker.topics[world.settings.topics.unique].partitions[0].records
    for offset in sorted(kept)[2:]:
        del kept[offset]
    world.run_once()
    assert len(world.outputs()) == 4


def test_lost_commits_of_a_partition_without_new_records_are_seen_to_its_last_record(tmp_path: Path) -> None:
    world, (idle, _) = alone(tmp_path, 3, partitions=2)
    world.fill([document(str(number), text) for number, text in enumerate(SENTENCES[3:], 3)], partition=1)
    world.run_once()
    lose_commits(world, idle, 2)
    world.run_once()
    assert len(world.outputs()) == len(SENTENCES)


def test_a_group_set_back_by_hand_delivers_all_of_it_again_also_after_a_crash_amid_it(tmp_path: Path) -> None:
    world, (source,) = alone(tmp_path, 5)
    world.broker.group(world.settings.kafka.group).commit_without_note(source, 1)
    world.broker.topics[world.settings.topics.input].partitions[0].crashes[2] = [Crash()]
    with pytest.raises(Crashed):
        world.run_once()
    world.run_once()
    delivered = sum(len(world.broker.records(name)) for name in (world.settings.topics.unique,))
    assert delivered == 5 + 4


def test_a_worker_does_not_begin_beside_a_partition_that_another_program_has_read_on(tmp_path: Path) -> None:
    broker = MemoryBroker()
    broker.create_for(Settings(), 2)
    broker.write(Settings().topics.input, 1, [b"any"] * 5)
    with make_index(tmp_path) as index:
        transport = MemoryTransport(broker, Settings(), "0")
        transport.open()
        whole = transport.read()
        assert isinstance(whole, Assigned)
        part = Assigned(whole.sources[:1], whole.names, whole.sources[1:])
        broker.group(Settings().kafka.group).commit_without_note(whole.sources[1], 5)
        with pytest.raises(RecoveryRefused, match="documents/1: the service did not commit offset 5"):
            recoverer(transport, index, Recovery()).recover(part)
