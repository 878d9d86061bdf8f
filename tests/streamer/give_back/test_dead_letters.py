"""Dead letters over the broker in memory: summarized, described, and replayed once, wherever the command dies."""

from collections import Counter
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from streamer.give_back.dead_letters import ReplayCounts, describe, printable, replay, summarize
from streamer.give_back.report import description_table, replay_as_json, replay_table, summary_as_json, summary_table
from streamer.give_back.selection import Selection
from streamer.records.record import Lost
from streamer.settings.settings import Batching, Settings
from streamer.transports.output_log import REPLAY
from tests.support.examples import examples
from tests.support.memory_broker import Crashed, CrashPoint, Stored
from tests.support.memory_output_log import MemoryOutputLog
from tests.support.memory_service import World, document

LACKING = b'{"body": "a text that stands where nobody looks for it, long enough to be compared"}'
START_MS = 1_700_000_000_000


def printed(table: RenderableType) -> str:
    out = StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


def broken(number: int, value: bytes | None = b"{broken \xff\x1b") -> Stored:
    headers = (("trace", b"%d" % number), ("neardup.id", b"somebody else's"), ("empty", None))
    return Stored(b"key %d" % number, value, START_MS + number, headers)


def world_of(directory: Path, **sections: object) -> World:
    world = World(directory, Settings.model_validate({"batch": Batching(records_max=3)} | sections))
    world.broker.create_for(world.settings, 2)
    good = Stored(
        b"good", document("good", "a text that is long enough to be compared with others of its kind"), START_MS
    )
    world.broker.write("documents", 0, [broken(number) for number in range(5)])
    world.broker.write("documents", 1, [good, broken(5, LACKING), broken(6, None)])
    world.run()
    return world


def output_log(world: World, *crashes: CrashPoint | None) -> MemoryOutputLog:
    made = MemoryOutputLog(world.broker, world.settings, crashes=list(crashes))
    made.open(REPLAY)
    return made


def replayed(world: World, filters: Selection = Selection(), **options: bool) -> ReplayCounts:  # noqa: B008
    return replay(output_log(world), filters, world.settings.batch, **options)


def came_back(world: World) -> list[Stored]:
    return [
        each
        for each in world.broker.records("documents")
        if any(name == "neardup.replayed" for name, _ in each.headers)
    ]


def test_dead_letters_are_counted_by_reason_with_their_times_and_examples(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    found = summarize(output_log(world), Selection())
    assert {reason: each.count for reason, each in found.items()} == {"not-utf-8": 5, "no-text": 1, "tombstone": 1}
    of_bytes = found["not-utf-8"]
    assert (of_bytes.first_ms, of_bytes.last_ms, of_bytes.replayed_before) == (START_MS, START_MS + 4, 0)
    assert len(of_bytes.examples) == 3
    assert list(summarize(output_log(world), Selection(since_ms=START_MS + 5))) == ["no-text", "tombstone"]
    assert summarize(output_log(world), Selection(reason="poison")) == {}
    assert "not-utf-8" in printed(summary_table(found))
    assert summary_as_json(found)["reasons"][0]["count"] == 5


def test_a_dead_letter_is_shown_with_the_words_of_the_decoder_and_its_bytes(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    [found] = describe(output_log(world), "documents/0/3")
    assert (found["reason"], found["value_bytes"]) == ("not-utf-8", 10)
    assert found["value"] == r"{broken \xff\x1b"
    assert found["words"].startswith("not-utf-8")
    assert ["trace", "3"] in found["headers"]
    assert r"{broken \xff\x1b" in printed(description_table([found]))
    assert describe(output_log(world), "documents/0/99") == []


def test_what_is_shown_is_bounded_and_no_terminal_obeys_it() -> None:
    assert printable(b"a" * 10, 4) == "aaaa"
    assert printable("\x1b[2J 文\n\u202e".encode()) == "\\x1b[2J 文\n\\u202e"


def test_a_replayed_record_goes_to_the_input_as_it_came_and_says_where_it_was(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    assert replayed(world, Selection(reason="no-text"), dry_run=True).replayed == 1
    assert came_back(world) == []
    assert replayed(world, Selection(reason="no-text")).replayed == 1
    [back] = came_back(world)
    assert (back.key, back.value, back.timestamp_ms) == (b"key 5", LACKING, START_MS + 5)
    stream = world.broker.topics["documents"].id
    assert back.headers == (
        ("trace", b"5"),
        ("empty", b""),
        ("neardup.replayed", b"documents/1/1"),
        ("neardup.replayed.stream", stream.encode()),
    )


def test_after_the_setting_was_mended_the_service_decides_anew_and_a_loop_is_seen(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    replayed(world, Selection(reason="no-text"))
    replayed(world, Selection(reason="tombstone"))
    world.settings = world.settings.model_copy(
        update={"decode": world.settings.decode.model_copy(update={"text": "/body"})}
    )
    world.starts = 0
    world.run()
    [mended] = [each for each in world.broker.records(world.settings.topics.unique) if each.value == LACKING]
    assert dict(mended.headers)["neardup.replayed"] == b"documents/1/1"
    assert summarize(output_log(world), Selection(reason="tombstone"))["tombstone"].replayed_before == 1
    # The one that failed again is a dead letter of its own now: it may be replayed once more, the first one not.
    found = replayed(world, Selection(reason="tombstone"))
    assert (found.matched, found.replayed, found.replayed_before) == (2, 1, 1)


@examples(15)
@given(st.lists(st.lists(st.sampled_from([None, *CrashPoint]), max_size=3), max_size=4))
def test_wherever_the_command_dies_every_dead_letter_comes_back_once(
    tmp_path_factory: pytest.TempPathFactory, lives: list[list[CrashPoint | None]]
) -> None:
    world = world_of(tmp_path_factory.mktemp("world"))
    for crashes in lives:
        with suppress(Crashed):
            replay(output_log(world, *crashes), Selection(), world.settings.batch)
    replayed(world)
    assert replayed(world).replayed == 0
    assert Counter(each.key for each in came_back(world)) == {b"key %d" % number: 1 for number in range(7)}


def test_what_holds_no_bytes_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"recovery": {"unreadable": "skip"}}))
    world.fill([Stored(None, None, lost=Lost(3, "damaged")), broken(1)])
    world.run()
    found = replayed(world)
    assert (found.matched, found.replayed, found.refused) == (2, 1, 1)
    assert "without bytes" in printed(replay_table(found, dry_run=False))
    assert replay_as_json(found, dry_run=False)["refused"] == 1
