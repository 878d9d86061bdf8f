"""Stories of a worker over the broker in memory: written with its deliveries, and nothing that crashes loses one."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from index import Source
from index.index import Index
from index.turn import Turn
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.records.record import Record
from streamer.records.route import parse_position
from streamer.service.stories import Stories
from streamer.settings.settings import Batching, Settings, Topics
from tests.support.memory_broker import Crash, CrashPoint
from tests.support.memory_service import SENTENCES, World, document

NAME = "documents-stories"


def world_of(directory: Path) -> World:
    batch = Batching(records_max=3)
    return World(directory, Settings(topics=Topics(stories=NAME), batch=batch))


def copies(count: int, sentence: int = 0, begin: int = 0) -> list[bytes]:
    return [document(f"https://{copy}.example/{sentence}", SENTENCES[sentence]) for copy in range(begin, begin + count)]


def written(world: World) -> list[tuple[str, Any]]:
    """Values in their order, by the root's id; None as removed."""
    return [
        (orjson.loads(record.key or b"")["id"], orjson.loads(record.value) if record.value else None)
        for record in world.broker.records(NAME)
    ]


def latest(world: World) -> dict[str, Any]:
    return dict(written(world))


@pytest.mark.parametrize("point", list(CrashPoint))
def test_a_crash_repeats_a_value_at_most_and_loses_none(tmp_path: Path, point: CrashPoint) -> None:
    values = [*copies(4), *copies(3, 2), *copies(6, begin=4)]
    world, peace = world_of(tmp_path / "world"), world_of(tmp_path / "peace")
    world.fill([Crash(point), *values[:5], Crash(point), *values[5:]])
    peace.fill(values)
    world.run()
    peace.run()
    assert latest(world) == latest(peace)
    assert {id_: value["documents"] for id_, value in latest(peace).items()} == {
        "https://0.example/0": 10,
        "https://0.example/2": 3,
    }
    for each in (world, peace):
        sizes = [value["documents"] for id_, value in written(each) if id_ == "https://0.example/0"]
        assert sizes == sorted(sizes), "a later value is never a smaller one"
    assert len(written(peace)) == len(set(map(str, written(peace)))), "only a crash repeats a value"


def test_a_value_names_documents_hosts_times_and_members(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.fill(copies(2))
    world.run()
    (record,) = world.broker.records(NAME)
    assert orjson.loads(record.key or b"") == {"position": "documents/0/0", "id": "https://0.example/0"}
    assert orjson.loads(record.value or b"") == {
        "id": "https://0.example/0",
        "position": "documents/0/0",
        "documents": 2,
        "hosts": 2,
        "first_hosts": ["0.example", "1.example"],
        "first_seen": None,
        "last_seen": None,
        "longest": {"id": "https://0.example/0", "position": "documents/0/0"},
        "newest": {"id": "https://1.example/0", "position": "documents/0/1"},
        "extends": None,
        "updates": None,
    }
    position = parse_position(record.headers)
    assert position is not None
    assert (position.source.stream, position.offset) == (world.broker.topics["documents"].id, 0)


def test_a_lost_index_is_restored_with_the_same_stories_and_an_idle_worker_writes_them(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.fill([*copies(5), *copies(3, 2), *copies(1, 4)])
    world.run()
    before, count = latest(world), len(written(world))
    shutil.rmtree(tmp_path)
    world.run()
    assert len(written(world)) == count + len(before) == count + 2
    assert latest(world) == before


def test_a_forgotten_root_and_a_drop_that_is_given_back_are_written_as_such(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.fill([*copies(2), *copies(3, 2)])
    world.run()
    scheme = scheme_for(world.settings)
    with Index.open(
        tmp_path, parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30, stories=True
    ) as index:
        index.forget(["https://0.example/0"])
        (drop,) = [
            record for record in world.broker.records("documents-duplicate") if b'1.example/2"' in (record.value or b"")
        ]
        position = parse_position(drop.headers)
        assert position is not None
        record = Record(position.source, "documents", position.offset, None, drop.value, 0)
        assert index.give_back(prepare(Decoder(world.settings.decode), scheme, [record]), delivered=True).all()
    world.run()
    assert latest(world)["https://0.example/0"] is None
    assert latest(world)["https://0.example/2"]["documents"] == 2


def test_one_worker_at_a_time_writes_stories(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.fill(copies(1))
    world.run()
    scheme = scheme_for(world.settings)
    with Index.open(
        tmp_path / "other", parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30, stories=True
    ):
        pass
    (tmp_path / "stories.turn").touch()
    turn = Turn(tmp_path / "stories.turn")
    assert turn.take()
    world.fill(copies(1, begin=1))
    world.run()
    assert written(world) == []
    turn.give_back()
    world.run()
    assert [value["documents"] for _, value in written(world)] == [2]


class WithoutStories:
    """An index whose due roots have all left it."""

    cleared = 0

    def take_stories_turn(self) -> bool:
        return True

    def due_stories(self, _limit: int) -> tuple[list[Any], int]:
        return [], 0 if self.cleared else 7

    def clear_stories(self, mark: int) -> None:
        assert not self.cleared
        self.cleared = mark

    def stream_names(self) -> dict[str, str]:
        return {}


def test_roots_that_have_left_the_index_are_due_no_more_and_hold_nothing_up() -> None:
    index = WithoutStories()
    stories = Stories(index)  # type: ignore[arg-type]
    record = Record(Source("stream", 0), "documents", 7, None, b"{}", 0)
    assert (stories.due([record]), stories.written(), index.cleared) == ([], [], 7)
    assert (stories.due([]), stories.written()) == ([], [])


def test_without_the_topic_nothing_is_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fill(copies(3))
    world.run()
    scheme = scheme_for(world.settings)
    with Index.open(
        tmp_path, parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30, read_only=True
    ) as index:
        assert index.stories(10) == []
