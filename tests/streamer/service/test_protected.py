"""Protected sets in the service: workers crash at every point, and each report comes out once, with its record."""

from pathlib import Path

import orjson
import pytest

from streamer.settings.settings import Batching, Settings, Topics
from streamer.settings.settings import Index as IndexSettings
from tests.support.command_line import run
from tests.support.memory_broker import Crash, Crashed, CrashPoint
from tests.support.memory_service import SENTENCES, World, document

TOPIC = "documents-protected"


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    """A set of two texts."""
    questions = tmp_path / "questions.jsonl"
    questions.write_bytes(b"".join(document(f"q{number}", SENTENCES[number]) + b"\n" for number in (2, 4)))
    assert run("protect", questions, "--out", tmp_path / "evaluation", "--processes", 1).code == 0
    return tmp_path / "evaluation"


def world_of(folder: Path, *protected: Path, topic: str | None = TOPIC) -> World:
    index = IndexSettings(protected=[*protected])
    chosen = Settings(batch=Batching(records_max=3), index=index, topics=Topics(protected=topic if protected else None))
    return World(folder, chosen)


DOCUMENTS = [
    *(document(f"page-{number}", text) for number, text in enumerate(SENTENCES)),
    b"no json",
    *(document(f"copy-{number}", f"{text}!") for number, text in enumerate(SENTENCES)),
]


def reports(world: World) -> dict[str, list[dict[str, object]]]:
    """What the header says, by position, from the outputs."""
    topics = world.settings.topics
    records = [
        each for name in (topics.unique, topics.duplicate, topics.dead_letter) for each in world.broker.records(name)
    ]
    headers = [dict(record.headers) for record in records]
    return {
        (each["neardup.position"] or b"").decode(): orjson.loads(each["neardup.protected"] or b"")
        for each in headers
        if "neardup.protected" in each
    }


def test_what_a_set_reports_is_in_the_header_and_in_the_topic_and_decides_nothing(
    tmp_path: Path, evaluation: Path
) -> None:
    world, plain = world_of(tmp_path / "index", evaluation), world_of(tmp_path / "plain")
    for each in (world, plain):
        each.fill(DOCUMENTS)
        each.run()
    assert world.outputs() == plain.outputs()
    assert not reports(plain)
    told = reports(world)
    assert {position: report[0]["id"] for position, report in told.items()} == {
        "documents/0/2": "q2",
        "documents/0/4": "q4",
        "documents/0/9": "q2",
        "documents/0/11": "q4",
    }
    copies = world.broker.records(TOPIC)
    assert sorted(told) == sorted((dict(each.headers)["neardup.position"] or b"").decode() for each in copies)
    assert [orjson.loads(each.value or b"")["id"] for each in copies] == ["page-2", "page-4", "copy-2", "copy-4"]
    assert sum(counts["evaluation"] for counts in world.protected) == len(copies)
    # A set without a match is counted, too: Prometheus sees an increase only from zero.
    assert all(counts.keys() == {"evaluation"} for counts in world.protected)


@pytest.mark.parametrize("point", list(CrashPoint))
def test_a_crash_at_any_point_changes_no_report_and_doubles_no_copy(
    tmp_path: Path, evaluation: Path, point: CrashPoint
) -> None:
    expected = world_of(tmp_path / "peaceful", evaluation)
    expected.fill(DOCUMENTS)
    expected.run()
    for place in range(0, len(DOCUMENTS), 5):
        world = world_of(tmp_path / f"crashed-{place}", evaluation)
        world.fill([*DOCUMENTS[:place], Crash(point), *DOCUMENTS[place:]])
        world.run()
        assert world.starts == 2
        assert world.outputs() == expected.outputs()
        assert reports(world) == reports(expected)
        assert [each.value for each in world.broker.records(TOPIC)] == [
            each.value for each in expected.broker.records(TOPIC)
        ]


def test_a_set_that_was_replaced_between_lives_changes_reports_alone(tmp_path: Path, evaluation: Path) -> None:
    world = world_of(tmp_path / "index", evaluation)
    world.fill([*DOCUMENTS[:3], Crash(), *DOCUMENTS[3:]])
    with pytest.raises(Crashed):
        world.run_once()
    world.settings = world.settings.replaced(index={"protected": []}, topics={"protected": None})
    world.run()
    plain = world_of(tmp_path / "plain")
    plain.fill(DOCUMENTS)
    plain.run()
    assert world.outputs() == plain.outputs()
    assert set(reports(world)) == {"documents/0/2"}
