"""Several services with a topic and a decode preset each, on one index: what holds, and what does not."""

import json
import shutil
from pathlib import Path

import orjson
import pytest

from streamer.records import route
from streamer.settings.settings import Settings
from tests.support.command_line import run
from tests.support.memory_broker import Crash, CrashPoint, MemoryBroker
from tests.support.memory_service import SENTENCES, World, document


def body(identity: str, text: str) -> bytes:
    return orjson.dumps({"name": identity, "body": text})


def worlds(directory: Path) -> tuple[World, World]:
    """Two services on one broker and one index: other topics, other group, other fields."""
    plain = Settings()
    topics = {name: f"crawl-{topic}" for name, topic in plain.topics.model_dump().items()}
    other = plain.model_copy(
        update={
            "topics": plain.topics.model_copy(update=topics),
            "kafka": plain.kafka.model_copy(update={"group": "crawl"}),
            "decode": plain.decode.model_copy(update={"text": "/body", "id": "/name"}),
        }
    )
    broker = MemoryBroker()
    return World(directory, plain, broker=broker), World(directory, other, broker=broker)


def verdicts(world: World) -> dict[str, str]:
    """Verdict, and position of the original, by input position. A position that came out twice raises."""
    said = {}
    for position, (_, headers) in world.outputs().items():
        verdict, original = (dict(headers)[name] or b"" for name in (route.VERDICT, route.ORIGINAL_POSITION))
        said[position] = f"{verdict.decode()} {original.decode()}".strip()
    return said


def filled(directory: Path, point: CrashPoint | None = None) -> tuple[World, World]:
    """Both have read two records. The first of the second service is a copy."""
    news, crawl = worlds(directory)
    crash = [] if point is None else [Crash(point)]
    news.fill([document("one", SENTENCES[0]), *crash, document("two", SENTENCES[1])])
    crawl.fill([body("copy of one", SENTENCES[0]), *crash, body("three", SENTENCES[2])])
    news.run()
    crawl.run()
    return news, crawl


@pytest.mark.parametrize("point", [None, *CrashPoint])
def test_each_record_comes_out_once_and_near_duplicates_of_two_topics_have_one_unique(
    tmp_path: Path, point: CrashPoint | None
) -> None:
    news, crawl = filled(tmp_path, point)
    news.fill([document("copy of three", SENTENCES[2])])
    news.run()
    assert verdicts(news) == {
        "documents/0/0": "unique",
        "documents/0/1": "unique",
        "documents/0/2": "duplicate crawl-documents/0/1",
    }
    assert verdicts(crawl) == {"crawl-documents/0/0": "duplicate documents/0/0", "crawl-documents/0/1": "unique"}


@pytest.mark.parametrize("all_restore_first", [True, False])
def test_after_a_loss_copies_are_known_if_each_service_restores_its_deliveries_before_records_come(
    tmp_path: Path, all_restore_first: bool
) -> None:
    news, crawl = filled(tmp_path)
    shutil.rmtree(tmp_path)
    if all_restore_first:
        news.run()
        crawl.run()
    news.fill([document("copy of three", SENTENCES[2])])
    news.run()
    crawl.run()
    expected = "duplicate crawl-documents/0/1" if all_restore_first else "unique"
    assert verdicts(news)["documents/0/2"] == expected
    assert len(verdicts(crawl)) == 2


def test_over_files_each_folder_is_verified_explained_and_given_back_with_its_own_fields(tmp_path: Path) -> None:
    for name, lines in (
        ("news", [document("one", SENTENCES[0]), document("two", SENTENCES[1])]),
        ("crawl", [body("copy of one", SENTENCES[0]), body("three", SENTENCES[2])]),
    ):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join([*lines, b""]))
    common = ("--index", tmp_path / "index", "--set", "fingerprint.key=public")
    news = ("--out", tmp_path / "news", *common)
    crawl = ("--out", tmp_path / "crawl", *common, "--set", "decode.text=/body", "--set", "decode.id=/name")
    for name, given in (("news", news), ("crawl", crawl)):
        done = run("filter", tmp_path / f"{name}.jsonl", *given)
        assert done.code == 0, done.err
    lines = map(json.loads, (tmp_path / "crawl" / "verdicts.jsonl").read_text().splitlines())
    assert [(line["verdict"], line["original"]) for line in lines] == [("duplicate", "one"), ("unique", None)]
    for given in (news, crawl):
        verified = run("verify", *given, "--json")
        assert verified.code == 0, verified.out
        unchecked = json.loads(verified.out)["unchecked"]
        assert unchecked.get("originals in another input, which shares the index", 0) == (given is crawl)
        assert unchecked["positions of another input, which shares the index"] == 2
        assert not any("recreated" in reason for reason in unchecked)
    why = run("why", "copy of one", *crawl)
    assert why.code == 0, why.err
    # At 80 columns a long path goes on in the next line.
    assert "news.jsonl:1" in why.out.replace("\n", "")
    given_back = run("give-back", "--original", "one", *crawl, "--json")
    assert (given_back.code, json.loads(given_back.out)["given_back"]) == (0, 1)
    assert (tmp_path / "crawl" / "unique.jsonl").read_bytes().splitlines()[-1] == body("copy of one", SENTENCES[0])
