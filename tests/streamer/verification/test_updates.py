from dataclasses import replace
from pathlib import Path

import pytest

from streamer.settings.settings import Batching, Settings
from tests.support.memory_service import SENTENCES, World, document
from tests.support.verified import outputs, position_of, verified, with_header, wrong

PAGE = "".join(SENTENCES)


def crawled(directory: Path, insert: str = "unique") -> World:
    """A service that has seen pages again: unchanged, changed, and as a copy of another page."""
    index = {"insert": insert, "recrawl": "update"}
    world = World(directory, Settings.model_validate({"batch": Batching(records_max=4), "index": index}))
    page = [document("page", text) for text in (f"{PAGE} missing", f"{PAGE} missing", f"{PAGE} found alive")]
    short = [document("short", text) for text in ("a", "b")]
    world.fill([*page, document("other", SENTENCES[0]), *short, document("other", f"{PAGE} found alive!"), page[0]])
    world.run()
    return world


@pytest.mark.parametrize("insert", ["unique", "root"])
def test_a_service_that_updates_is_sound_and_so_is_its_restored_index(insert: str, tmp_path: Path) -> None:
    world = crawled(tmp_path, insert)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["update"] == 3
    assert all(findings[check].examined == 3 for check in ("update-id", "update-equal", "update-unretired"))
    world.directory = tmp_path / "restored"
    world.fill([document("one more", SENTENCES[1]), document("page", f"{PAGE} missing!")])
    world.run()
    assert world.restored
    findings = verified(world)
    assert (wrong(findings), findings.counts["duplicate"], findings.counts["update"]) == ({}, 2, 4)


def test_a_page_that_was_updated_from_another_partition_is_no_missed_duplicate_of_its_update(tmp_path: Path) -> None:
    """A restored index has the documents of another partition in another order than they were decided in."""
    world = World(tmp_path, Settings.model_validate({"index": {"recrawl": "update"}}))
    for partition, end in ((1, "missing"), (0, "found alive")):
        world.fill([document("page", f"{PAGE} {end}")], partition, partitions=2)
        world.run()
    assert wrong(verified(world)) == {}
    world.directory = tmp_path / "restored"
    world.fill([document("one more", "A text that resembles no other of them.")], partitions=2)
    world.run()
    assert world.restored
    findings = verified(world)
    assert (wrong(findings), findings.counts["update"]) == ({}, 1)
    assert any(count for what, count in findings.unchecked.items() if "whose order" in what)


@pytest.mark.parametrize(
    ("header", "value", "check"),
    [
        ("neardup.original.id", "another", "update-id"),
        ("neardup.original.position", "documents/0/0", "update-equal"),
        ("neardup.similarity", "0.3", "similarity"),
    ],
)
def test_an_update_that_tells_something_else_of_what_it_replaced_is_found(
    header: str, value: str, check: str, tmp_path: Path
) -> None:
    world = crawled(tmp_path)
    updates = [each for each in outputs(world, "documents-unique") if b"update" in dict(each[2].headers).values()]
    # The last one is the first text of the page again.
    log, offset, record = updates[-1]
    log.records[offset] = replace(record, headers=with_header(record.headers, header, value))
    assert position_of(record) in str(wrong(verified(world))[check])
