"""The tutorial's commands, run word for word by a newcomer. The Chinese tutorial has the same ones (test_chinese.py)."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.support.newcomer import Newcomer, blocks, command_of
from tests.support.paths import DOCS

TUTORIAL = (DOCS / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [command_of(line) for block in blocks(TUTORIAL, "sh") for line in block]
WHY_OF_THE_SERVICE = ".venv/bin/streamer --config service.toml why ferry-2"


def with_other_names(line: bytes) -> bytes:
    """A document as a crawl with other field names has it: crawl.jsonl on the page."""
    document = orjson.loads(line)
    return orjson.dumps({"url": f"https://news.example/{document['id']}", "body": document["text"]})


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, copy_tracked_files: Callable[[Path], None]) -> Newcomer:
    """Who has typed every command of the tutorial, in order."""
    folder = tmp_path_factory.mktemp("tutorial") / "clone"
    copy_tracked_files(folder)
    lines = (folder / "examples" / "documents.jsonl").read_bytes().splitlines()
    (folder / "crawl.jsonl").write_bytes(
        b"".join(with_other_names(line) + b"\n" for line in lines if b'"text"' in line)
    )
    ((_, *settings),) = blocks(TUTORIAL, "toml")
    (folder / "service.toml").write_text("\n".join(settings))
    person = Newcomer(folder)
    try:
        for command in COMMANDS:
            if command == WHY_OF_THE_SERVICE:
                person.waits_for(len(lines))
            person.types(command)
    finally:
        person.presses_control_c()
    return person


@pytest.mark.kafka
def test_every_command_of_the_tutorial_works_as_printed(newcomer: Newcomer) -> None:
    assert len(COMMANDS) >= 13
    assert set(COMMANDS) <= set(newcomer.printed)
    assert newcomer.printed[".venv/bin/streamer --config service.toml run"] == "0"


def test_the_answers_are_those_that_the_tutorial_promises(newcomer: Newcomer) -> None:
    printed = newcomer.printed
    assert '"verdict":"duplicate"' in printed["cat tried/verdicts.jsonl"]
    assert "the words differ" in printed[".venv/bin/streamer why ferry-2 --out tried --index tried-index"]
    assert "duplicate" in printed[WHY_OF_THE_SERVICE]
    assert "all is sound" in printed[".venv/bin/streamer --config service.toml verify"]
