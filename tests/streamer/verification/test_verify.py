"""Verification: a service that worked is sound, and every planted error is found and named."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from index import Index
from streamer.errors import NoDocuments
from streamer.records.record import Headers
from streamer.settings.settings import Batching, Settings
from streamer.verification.findings import Findings
from streamer.verification.report import report
from streamer.verification.verify import verify
from tests.support.memory_broker import MemoryBroker, Partition, Stored
from tests.support.memory_evidence import MemoryEvidence
from tests.support.memory_service import SENTENCES, World, document


@contextmanager
def no_bar(_title: str, _total: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda _done: None


def documents() -> list[Stored]:
    """Unique documents, near-duplicates, short texts, an undecidable document, a dead letter and a tombstone."""
    values = [
        *(document(f"base-{number}", text) for number, text in enumerate(SENTENCES)),
        *(document(f"copy-{number}", text + "！") for number, text in enumerate(SENTENCES)),
        document("short", "早安"),
        document("short-again", "早安"),
        document("empty", ""),
        b"no json",
        None,
    ]
    return [
        Stored(
            None if number % 3 == 0 else f"key {number}".encode(),
            value,
            1_600_000_000_000 + number,
            (("source", b"crawler"), ("empty", None), ("neardup.verdict", b"an earlier filter's"))
            if number % 2
            else (),
        )
        for number, value in enumerate(values)
    ]


def worked(directory: Path, **sections: object) -> World:
    """A service that has filtered the documents of two partitions."""
    world = World(directory, Settings.model_validate({"batch": Batching(records_max=4)} | sections))
    world.broker.create_for(world.settings, 2)
    found = documents()
    world.broker.write("documents", 0, found[::2])
    world.broker.skip("documents", 0, 3)
    world.broker.write("documents", 0, found[:4])
    world.broker.write("documents", 1, found[1::2])
    world.run()
    return world


def verified(world: World, evidence: MemoryEvidence | None = None) -> Findings:
    evidence = evidence or MemoryEvidence(world.broker, world.settings)
    with Index.open(world.directory, None, map_bytes_max=2**30, read_only=True) as index:
        return verify(world.settings, evidence, index, no_bar)


def wrong(findings: Findings) -> dict[str, list[str]]:
    """What is wrong, by the kind of problem."""
    return {each.check: each.examples for each in findings if each.wrong}


def outputs(world: World, name: str) -> list[tuple[Partition, int, Stored]]:
    """All records of an output, each with its log and its offset there."""
    logs = world.broker.topics[name].partitions
    return [(log, offset, record) for log in logs for offset, record in log.records.items()]


def position_of(record: Stored) -> str:
    return (dict(record.headers)["neardup.position"] or b"").decode()


def with_header(headers: Headers, name: str, value: str) -> Headers:
    return tuple((key, value.encode() if key == name else old) for key, old in headers)


def test_a_service_that_worked_is_sound(tmp_path: Path) -> None:
    findings = verified(worked(tmp_path))
    assert wrong(findings) == {}
    assert findings.sound
    assert findings.counts["input"] == len(documents()) + 4
    assert findings.counts["outputs"] == len(documents()) + 4
    assert findings.counts["in flight"] == 0
    assert all(finding.examined for finding in findings), [each.check for each in findings if not each.examined]


def test_a_service_that_fills_its_index_with_all_documents_is_sound(tmp_path: Path) -> None:
    assert wrong(verified(worked(tmp_path, index={"insert": "all"}))) == {}


def test_an_output_that_is_missing_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log, offset, record = outputs(world, "documents-duplicate")[2]
    del log.records[offset]
    assert wrong(verified(world)) == {"missing": [position_of(record)]}


def test_an_output_that_came_twice_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log, _, record = outputs(world, "documents-duplicate")[2]
    log.append(record)
    assert wrong(verified(world)) == {"doubled": [position_of(record)]}


def test_an_output_of_both_topics_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    _, _, record = outputs(world, "documents-duplicate")[2]
    world.broker.topics["documents-unique"].partitions[0].append(record)
    assert "doubled" in wrong(verified(world))
    assert "contradiction" in wrong(verified(world))


@pytest.mark.parametrize("position", ["documents/0/9999", "documents/7/0"])
def test_an_output_of_a_position_that_is_not_in_the_input_is_found(tmp_path: Path, position: str) -> None:
    world = worked(tmp_path)
    _, _, record = outputs(world, "documents-dead-letter")[0]
    foreign = replace(record, headers=with_header(record.headers, "neardup.position", position))
    world.broker.topics["documents-dead-letter"].partitions[0].append(foreign)
    (problem,) = wrong(verified(world))["foreign"]
    assert position in problem
    assert problem.startswith("documents-dead-letter/0/")


def test_a_gap_in_the_offsets_of_the_input_is_no_position(tmp_path: Path) -> None:
    world = worked(tmp_path)
    gap = len(documents()[::2])
    _, _, record = outputs(world, "documents-dead-letter")[0]
    foreign = replace(record, headers=with_header(record.headers, "neardup.position", f"documents/0/{gap}"))
    world.broker.topics["documents-dead-letter"].partitions[0].append(foreign)
    assert list(wrong(verified(world))) == ["foreign"]


CHANGES: dict[str, Callable[[Stored], Stored]] = {
    "value": lambda record: replace(record, value=(record.value or b"").replace(b"text", b"TEXT")),
    "key": lambda record: replace(record, key=b"another key"),
    "timestamp": lambda record: replace(record, timestamp_ms=record.timestamp_ms + 1),
    "headers": lambda record: replace(
        record, headers=tuple(header for header in record.headers if header[0] != "source")
    ),
}


@pytest.mark.parametrize("part", CHANGES)
def test_an_output_with_another_part_than_the_input_is_found(tmp_path: Path, part: str) -> None:
    world = worked(tmp_path)
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if dict(each[2].headers).get("source")
    )
    log.records[offset] = CHANGES[part](record)
    assert log.records[offset] != record
    (problem,) = wrong(verified(world))[part]
    assert problem.startswith(f"{position_of(record)}: at documents-unique/")


def renamed(record: Stored, position: str, stream: str, identity: str) -> Stored:
    """A duplicate that names another original."""
    headers = with_header(record.headers, "neardup.original.position", position)
    headers = with_header(headers, "neardup.original.stream", stream)
    return replace(record, headers=with_header(headers, "neardup.original.id", identity))


def planted(world: World, choose: Callable[[Stored, str], tuple[str, str]]) -> str:
    """Give a duplicate another original, as `choose` says of it and its stream; returns its position."""
    log, offset, record = outputs(world, "documents-duplicate")[0]
    stream = world.broker.topics["documents"].id
    log.records[offset] = renamed(record, *choose(record, stream)[:1], stream, choose(record, stream)[1])
    return position_of(record)


def identity_of(record: Stored) -> str:
    return (dict(record.headers)["neardup.id"] or b"").decode()


def test_a_duplicate_of_itself_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    where = planted(world, lambda record, _: (position_of(record), identity_of(record)))
    assert wrong(verified(world))["original-itself"] == [f"{where}: names {where}"]


def test_a_duplicate_of_a_later_document_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    later = max(
        (record for _, _, record in outputs(world, "documents-duplicate") if "documents/0" in position_of(record)),
        key=lambda record: int(position_of(record).rsplit("/")[-1]),
    )
    where = planted(world, lambda *_: (position_of(later), identity_of(later)))
    assert wrong(verified(world))["original-later"] == [f"{where}: names {position_of(later)}"]


def test_a_duplicate_of_a_document_that_the_index_decided_later_is_found_between_partitions(tmp_path: Path) -> None:
    world = worked(tmp_path)
    later = next(
        record for _, _, record in reversed(outputs(world, "documents-unique")) if "documents/1" in position_of(record)
    )
    where = planted(world, lambda *_: (position_of(later), identity_of(later)))
    assert where.startswith("documents/0")
    assert wrong(verified(world))["original-later"] == [f"{where}: names {position_of(later)}"]


def test_a_duplicate_of_a_document_that_is_not_unique_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    dead = outputs(world, "documents-dead-letter")[0][2]
    where = planted(world, lambda *_: (position_of(dead), ""))
    assert wrong(verified(world))["original-not-unique"] == [f"{where}: names {position_of(dead)}"]


def test_a_duplicate_of_a_document_that_does_not_exist_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    where = planted(world, lambda *_: ("documents/0/777", "x"))
    (problem,) = wrong(verified(world))["original-missing"]
    assert problem == f"{where}: names documents/0/777, which the input does not have"


def test_an_original_under_another_id_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log, offset, record = outputs(world, "documents-duplicate")[0]
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.original.id", "another"))
    assert len(wrong(verified(world))["original-id"]) == 1


def test_an_index_that_does_not_know_what_came_out_is_found(tmp_path: Path) -> None:
    """The journal of another service, whose input had no such documents."""
    world = worked(tmp_path / "whole")
    other = World(tmp_path / "other", world.settings, broker=MemoryBroker())
    other.broker.create_for(other.settings, 2)
    other.broker.topics["documents"].id = world.broker.topics["documents"].id
    other.broker.write("documents", 0, documents()[:2])
    other.broker.skip("documents", 0, world.broker.topics["documents"].partitions[0].end - 3)
    other.broker.write("documents", 0, documents()[-1:])
    other.run()
    world.directory = other.directory
    found = wrong(verified(world))["journal-missing"]
    assert "documents/0/2: is not known to the index" in found
    assert all(problem.startswith("documents/0/") for problem in found)


def test_records_behind_the_committed_offset_are_in_flight_with_an_output_or_without(tmp_path: Path) -> None:
    world = worked(tmp_path)
    group = world.broker.group(world.settings.kafka.group)
    source = next(iter(group.committed))
    log, offset, record = max(
        (
            each
            for each in outputs(world, "documents-unique")
            if f"documents/{source.partition}/" in position_of(each[2])
        ),
        key=lambda each: int(position_of(each[2]).rsplit("/")[-1]),
    )
    group.committed[source] = int(position_of(record).rsplit("/")[-1])
    del log.records[offset]
    findings = verified(world)
    assert findings["missing"].wrong == 0
    assert findings.counts["in flight"] > 0


def test_a_service_that_goes_on_meanwhile_gives_no_false_alarm(tmp_path: Path) -> None:
    world = worked(tmp_path)
    evidence = MemoryEvidence(world.broker, world.settings)
    world.broker.write("documents", 0, documents())
    world.run()
    assert wrong(verified(world, evidence)) == {}


def test_nothing_committed_is_nothing_to_verify(tmp_path: Path) -> None:
    world = worked(tmp_path)
    world.broker.group(world.settings.kafka.group).committed.clear()
    with pytest.raises(NoDocuments, match=r"kafka\.group"):
        verified(world)


def test_the_report_names_each_problem_and_says_that_not_all_is_sound(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log, offset, record = outputs(world, "documents-duplicate")[2]
    del log.records[offset]
    console = Console(width=200, record=True, file=StringIO())
    console.print(report(verified(world)))
    text = console.export_text()
    assert position_of(record) in text
    assert "not all is sound" in text
