"""Verification: a service that worked is sound, and every planted error is found and named."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from rich.console import Console

from deploy.made_up_site import others, reprints, site
from index import Index, Source, Verdict, errors
from index.tools import frames_of
from streamer.errors import NoDocuments
from streamer.fingerprint.documents import prepare
from streamer.fingerprint.fingerprints import hexadecimal
from streamer.fingerprint.scheme import parameters_for, scheme_for, settings_digest
from streamer.records.decode import Decoder, Document
from streamer.records.reason import Reason, label
from streamer.records.record import Decision, Lost, Record
from streamer.records.route import Router
from streamer.settings.settings import Batching, Minhash, Route, Settings
from streamer.verification.findings import CHECKS
from streamer.verification.report import report
from tests.support.memory_broker import MemoryBroker, Partition, Stored, stored
from tests.support.memory_output_log import MemoryOutputLog
from tests.support.memory_service import SENTENCES, World, document
from tests.support.paths import ROOT
from tests.support.verified import outputs, position_of, verified, with_header, wrong

PUBLIC_KEY = {"fingerprint": {"key": "public"}}


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


def test_a_service_that_worked_is_sound(tmp_path: Path) -> None:
    findings = verified(worked(tmp_path))
    assert wrong(findings) == {}
    assert findings.sound
    assert findings.counts["input"] == len(documents()) + 4
    assert findings.counts["outputs"] == len(documents()) + 4
    assert findings.counts["in flight"] == 0
    verdicts = "unique", "duplicate", "undecidable", "dead-letter", "update", "suspect", "given-back", "extends"
    assert [*findings.as_json()["counts"]] == ["input", "outputs", *verdicts, "in flight", "texts read"]
    assert findings.counts["given-back"] == 0
    assert {each.check for each in findings if not each.examined} == {
        *("update-id", "update-equal", "update-unretired", "given-back", "protected"),
    }


def test_a_service_that_lets_suspects_pass_is_sound_and_a_wrong_original_of_one_is_found(tmp_path: Path) -> None:
    page = "".join(SENTENCES)
    names = [f"page number {number:04}" for number in range(20)]
    values = [
        orjson.dumps({"id": name, "text": f"{page} {name} {name[::-1]}", "host": "site.example"}) for name in names
    ]
    sections = {"guard": {"documents_min": 5, "policy": "pass"}, "index": {"templates": False}}
    world = World(tmp_path, Settings.model_validate({"batch": Batching(records_max=4)} | sections))
    world.fill([document("other", SENTENCES[0]), *values])
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["suspect"] == 14
    world.directory = tmp_path / "restored"
    world.fill([document("one more", SENTENCES[1])])
    world.run()
    assert sum(world.restored) == 21
    assert wrong(verified(world)) == {}
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if b"suspect" in dict(each[2].headers).values()
    )
    other = with_header(record.headers, "neardup.original.position", "documents/0/0")
    log.records[offset] = replace(record, headers=with_header(other, "neardup.original.id", "other"))
    found = wrong(verified(world))
    assert position_of(record) in str(found["journal-differs"])
    assert position_of(record) in str(found["similarity"])


def test_longer_versions_are_sound_and_a_wrong_original_of_one_is_found(tmp_path: Path) -> None:
    wholes = others("en", 12).texts[:5]
    teasers = [text[: int(0.85 * len(text))] for text in wholes]
    world = World(tmp_path, Settings.model_validate({"batch": Batching(records_max=4)} | PUBLIC_KEY))
    world.fill(
        [
            document(f"{kind}-{at}", text)
            for kind, part in (("teaser", teasers), ("whole", wholes), ("copy", wholes))
            for at, text in enumerate(part)
        ]
    )
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["extends"] == findings.counts["duplicate"] == 5
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if b"extends" in dict(each[2].headers).values()
    )
    other = with_header(record.headers, "neardup.original.position", "documents/0/4")
    log.records[offset] = replace(record, headers=with_header(other, "neardup.original.id", "teaser-4"))
    found = wrong(verified(world))
    assert position_of(record) in str(found["journal-differs"])
    assert position_of(record) in str(found["similarity"])


def pages_one_host(texts: Sequence[str]) -> list[bytes]:
    """Records of pages that are known by their addresses."""
    values = [{"id": f"https://site.example/{number}", "text": text} for number, text in enumerate(texts)]
    return [orjson.dumps(value) for value in values]


def kept_by_frame(world: World) -> list[tuple[Partition, int, Stored]]:
    """Outputs of pages that were unique by the frame of their host alone."""
    return [each for each in outputs(world, "documents-unique") if b"template" in dict(each[2].headers).values()]


def test_a_service_that_keeps_pages_by_a_frame_is_sound_and_a_wrong_original_of_one_is_found(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"batch": Batching(records_max=16)}))
    world.fill([document("other", SENTENCES[0]), *pages_one_host(site("en", 0.1, pages=60, copies=30).texts)])
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    log, offset, record = kept_by_frame(world)[-1]
    other = with_header(record.headers, "neardup.original.position", "documents/0/0")
    log.records[offset] = replace(record, headers=with_header(other, "neardup.original.id", "other"))
    assert position_of(record) in str(wrong(verified(world))["journal-differs"])


def test_one_article_in_the_frames_of_many_hosts_is_sound(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"batch": Batching(records_max=64)}))
    crawled = reprints("en", 0.3, articles=3, hosts=10, earlier_pages=12)
    values = [
        {"id": f"https://{host}/{number}", "text": text}
        for number, (host, text) in enumerate(zip(crawled.hosts, crawled.texts, strict=True))
    ]
    world.fill([orjson.dumps(value) for value in values])
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["duplicate"] >= 24


def test_an_index_that_was_restored_with_frames_is_sound(tmp_path: Path) -> None:
    world = World(tmp_path / "first", Settings.model_validate({"batch": Batching(records_max=16)}))
    world.fill(pages_one_host(site("zh", 0.1, pages=50, copies=20).texts))
    world.run()
    world.directory = tmp_path / "restored"
    world.fill([document("one more", SENTENCES[1])])
    world.run()
    assert sum(world.restored) == 70
    assert wrong(verified(world)) == {}
    with Index.open(world.directory, None, map_bytes_max=2**30, read_only=True) as index:
        (frame,) = frames_of(index, 10)
    assert (frame.host, frame.is_known) == ("site.example", True)


def test_an_update_of_a_page_that_was_dropped_as_a_copy_is_sound_and_a_wrong_version_of_it_is_found(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, Settings.model_validate({"batch": Batching(records_max=16)}))
    text, other = others("en", 2, words=200).texts
    pages = [("mirror", text), ("origin", text), ("origin", f"{text} Both were found alive."), ("third", other)]
    world.fill([orjson.dumps({"id": f"https://{host}.example/1", "text": body}) for host, body in pages])
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert (findings.counts["update"], findings.counts["duplicate"]) == (1, 1)
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if b"update" in dict(each[2].headers).values()
    )
    wrong_version = with_header(record.headers, "neardup.original.position", "documents/0/3")
    log.records[offset] = replace(record, headers=wrong_version)
    assert set(wrong(verified(world))) >= {"journal-differs", "original-id", "original-later"}


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


@pytest.mark.parametrize("shadow", [True, False])
def test_a_service_that_worked_in_shadow_mode_or_did_once_is_sound(tmp_path: Path, shadow: bool) -> None:
    world = worked(tmp_path, route={"shadow": not shadow})
    world.settings = world.settings.model_copy(update={"route": Route(shadow=shadow)})
    world.fill([document(f"late-{number}", text + "?") for number, text in enumerate(SENTENCES)], 1)
    world.run()
    kept = [
        record for _, _, record in outputs(world, "documents-unique") if b"duplicate" in dict(record.headers).values()
    ]
    assert len(kept) >= len(SENTENCES)
    assert wrong(verified(world)) == {}
    # The unique topic lost its beginning, and with it duplicates that only the index still knows.
    for partition in range(2):
        world.broker.delete_before("documents-unique", partition, 14)
    assert wrong(verified(world)) == {}


def test_a_duplicate_among_the_unique_ones_that_does_not_tell_of_shadow_mode_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path, route={"shadow": True})
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if b"duplicate" in dict(each[2].headers).values()
    )
    headers = tuple(header for header in record.headers if header[0] != "neardup.shadow")
    log.records[offset] = replace(record, headers=headers)
    (problem,) = wrong(verified(world))["contradiction"]
    assert problem.endswith("the verdict duplicate does not belong here")


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


@pytest.mark.parametrize(("timestamp_ms", "wrong_ones"), [(1, 0), (2, 1)])
def test_a_timestamp_of_0_may_come_out_as_1_for_confluent_kafka_can_write_no_other(
    tmp_path: Path, timestamp_ms: int, wrong_ones: int
) -> None:
    world = World(tmp_path)
    world.fill([Stored(None, document("one", SENTENCES[0]), 0)])
    world.run()
    log, offset, record = outputs(world, "documents-unique")[0]
    log.records[offset] = replace(record, timestamp_ms=timestamp_ms)
    findings = verified(world)
    assert findings["timestamp"].wrong == wrong_ones
    assert findings.unchecked["timestamps of 0, for which confluent-kafka writes 1"] == 1 - wrong_ones


def test_a_timestamp_that_the_output_topic_gives_by_itself_is_counted_and_not_blamed(tmp_path: Path) -> None:
    world = worked(tmp_path)
    for topic in ("documents-unique", "documents-duplicate"):
        for log, offset, record in outputs(world, topic):
            log.records[offset] = replace(record, timestamp_ms=record.timestamp_ms + 60_000)
    log_of = partial(MemoryOutputLog, world.broker, world.settings)
    findings = verified(world, log_of(stamping=frozenset({"documents-unique", "documents-duplicate"})))
    assert wrong(findings) == {}
    stamped = len(outputs(world, "documents-unique")) + len(outputs(world, "documents-duplicate"))
    assert findings.unchecked["timestamps that output topics give by themselves (LogAppendTime)"] == stamped
    found = verified(world, log_of(stamping=frozenset({"documents-unique"})))
    assert found["timestamp"].wrong == len(outputs(world, "documents-duplicate"))


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
    output_log = MemoryOutputLog(world.broker, world.settings)
    output_log.extent()
    world.broker.write("documents", 0, documents())
    world.run()
    assert wrong(verified(world, output_log)) == {}


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


def test_a_fingerprint_that_the_text_does_not_give_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log, offset, record = outputs(world, "documents-unique")[0]
    digits = (dict(record.headers)["neardup.fingerprint"] or b"").decode()
    changed = ("0" if digits[0] != "0" else "1") + digits[1:]
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.fingerprint", changed))
    found = wrong(verified(world))
    assert found["fingerprint"][0].startswith(f"{position_of(record)}: has the fingerprint {digits}")
    assert found["entry-differs"] == [f"{position_of(record)}: entered with another fingerprint"]


@pytest.mark.parametrize("name", ["neardup.reason", "neardup.id"])
def test_a_reason_or_an_id_that_the_record_does_not_give_is_found(tmp_path: Path, name: str) -> None:
    world = worked(tmp_path)
    log, offset, record = outputs(world, "documents-dead-letter")[0]
    headers = with_header((*record.headers, ("neardup.id", b"")), name, "too-large")
    log.records[offset] = replace(record, headers=headers)
    (problem,) = wrong(verified(world))["fingerprint"]
    assert problem.startswith(f"{position_of(record)}: ")
    assert "too-large" in problem


def changed_similarity(world: World, similarity: str) -> str:
    log, offset, record = next(
        each for each in outputs(world, "documents-duplicate") if dict(each[2].headers)["neardup.reason"] == b"similar"
    )
    name = "neardup.similarity" if "neardup.similarity" in dict(record.headers) else "neardup.distance"
    log.records[offset] = replace(record, headers=with_header(record.headers, name, similarity))
    return position_of(record)


@pytest.mark.parametrize("similarity", ["0.1234", "0.9"])
def test_a_similarity_that_is_not_that_of_the_texts_is_found(tmp_path: Path, similarity: str) -> None:
    world = worked(tmp_path)
    where = changed_similarity(world, similarity)
    (problem,) = wrong(verified(world))["similarity"]
    assert problem.startswith(f"{where}: tells similarity {float(similarity)} of ")


def test_a_similarity_that_is_no_number_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    changed_similarity(world, "high")
    (problem,) = wrong(verified(world))["contradiction"]
    assert "is no number" in problem


def test_a_duplicate_of_a_document_that_is_unlike_it_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    unlike = outputs(world, "documents-unique")[-1][2]
    where = planted(world, lambda *_: (position_of(unlike), identity_of(unlike)))
    assert wrong(verified(world))["similarity"][0].startswith(f"{where}: ")


def appended(world: World, value: bytes, *, entered: bytes | None = None, known: bool = True) -> str:
    """A unique document behind all that was decided, as a service delivers it that never looked; returns its position.

    entered  value of the entry in the index, where it is another
    known    whether the index knows the position
    """
    broker, name = world.broker, "documents"
    broker.write(name, 1, [value])
    log, source = broker.topics[name].partitions[1], Source(broker.topics[name].id, 1)
    record = Record(source, name, log.end - 1, None, value, 0)
    decoder, scheme = Decoder(world.settings.decode), scheme_for(world.settings)
    (found,) = decoder.decode([record])
    assert isinstance(found, Document)
    entries = prepare(decoder, scheme, [record])
    (digits,) = hexadecimal(entries.kinds, entries.fingerprints)
    decision = Decision(Verdict.UNIQUE, label(Verdict.UNIQUE, Reason(int(entries.reasons[0]))), found.id, digits)
    (outgoing,) = Router(connector_name="", task_id="").route([record], [decision])
    broker.topics["documents-unique"].partitions[0].append(stored(outgoing))
    broker.group(world.settings.kafka.group).committed[source] = log.end
    with Index.open(world.directory, parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30) as index:
        if known:
            entry = prepare(decoder, scheme, [replace(record, value=entered or value)])
            index.restore(entry, np.array([Verdict.UNIQUE], np.uint8), [None])
        index.set_applied(source, log.end)
    return record.position


SCHEMES: dict[str, dict[str, Any]] = {
    "minhash": {},
    "simhash": {"fingerprint": {"scheme": "simhash", "second_look": "none"}},
    "simhash, 128 bits": {
        "fingerprint": {"scheme": "simhash", "bits": 128, "second_look": "none"},
        "index": {"distance_max": 7},
    },
    "cosine": {"fingerprint": {"scheme": "simhash"}},
    "metadata": {"fingerprint": {"scheme": "simhash", "second_look": "metadata"}, "decode": {"metadata": ["/id"]}},
    "insert = unique": {"index": {"insert": "unique"}},
    "insert = root": {"index": {"insert": "root"}},
    "insert = root, cosine": {
        "fingerprint": {"scheme": "simhash", "second_look": "cosine"},
        "index": {"distance_max": 7, "insert": "root"},
    },
}


@pytest.mark.parametrize("sections", SCHEMES.values(), ids=SCHEMES)
def test_services_of_all_kinds_are_sound_and_their_wrong_similarities_and_missed_matches_found(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    world = worked(tmp_path, **sections)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings["similarity"].examined > 3
    assert findings["near-uniques"].examined > 3
    changed = changed_similarity(
        world, "0.9999" if "similarity" in str(outputs(world, "documents-duplicate")) else "77"
    )
    original = next(record for _, _, record in outputs(world, "documents-unique") if identity_of(record) == "base-2")
    missed = appended(world, document("repost", SENTENCES[2]))
    found = wrong(verified(world))
    assert [problem.partition(":")[0] for problem in found["similarity"]] == [changed]
    (problem,) = found["near-uniques"]
    assert problem.startswith(f"{missed}: is a near-duplicate of ")
    assert problem.endswith(position_of(original)) or sections.get("index", {}).get("insert") == "root"


def test_a_short_text_that_is_unique_twice_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    missed = appended(world, document("short-repost", "早安"))
    (problem,) = wrong(verified(world))["near-uniques"]
    assert problem.startswith(f"{missed}: is a near-duplicate of ")


def test_a_unique_document_that_the_index_does_not_know_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    where = appended(
        world, document("new", "An entirely new report about the weather over the northern sea"), known=False
    )
    assert wrong(verified(world)) == {"journal-missing": [f"{where}: is not known to the index"]}


def test_an_entry_of_another_document_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    value = document("new", "An entirely new report about the weather over the northern sea")
    where = appended(world, value, entered=value.replace(b"weather", b"harvest"))
    assert wrong(verified(world)) == {"entry-differs": [f"{where}: entered with another fingerprint"]}
    where = appended(world, value, entered=value.replace(b"new", b"old", 1))
    assert f"{where}: entered under another id" in wrong(verified(world))["entry-differs"]


def test_an_entry_of_a_position_that_the_input_does_not_have_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    world.broker.skip("documents", 1)
    gap = world.broker.topics["documents"].partitions[1].end - 1
    scheme = scheme_for(world.settings)
    record = Record(Source(world.broker.topics["documents"].id, 1), "documents", gap, None, documents()[0].value, 0)
    world.broker.write("documents", 1, [document("behind", "An entirely new report about the weather")])
    with Index.open(world.directory, parameters_for(world.settings, scheme.stamp()), map_bytes_max=2**30) as index:
        entry = prepare(Decoder(world.settings.decode), scheme, [record])
        index.restore(entry, np.array([Verdict.UNIQUE], np.uint8), [None])
    assert wrong(verified(world)) == {"journal-foreign": [f"documents/1/{gap}: is unique"]}


def test_a_verdict_that_is_not_that_of_the_index_is_found(tmp_path: Path) -> None:
    world = worked(tmp_path)
    duplicate = outputs(world, "documents-duplicate")[0][2]
    where = planted(world, lambda *_: (position_of(duplicate), "another id"))
    assert wrong(verified(world))["journal-differs"] == [
        f"{where}: has another original in the index",
        f"{where}: names its original by another id",
    ]


def chain() -> list[bytes]:
    """Documents each of which resembles the one before it, and hardly the first one."""
    words = " ".join(SENTENCES[2:4]).split()
    return [
        document(f"link-{number}", " ".join([*(f"word{each}" for each in range(3 * number)), *words[3 * number :]]))
        for number in range(8)
    ]


def chained(directory: Path, root_similarity_min: float) -> World:
    sections = {"minhash": {"similarity_min": 0.6}, "index": {"root_similarity_min": root_similarity_min}}
    world = World(directory, Settings.model_validate(sections))
    world.fill(chain())
    world.run()
    return world


def test_a_chain_that_breaks_where_it_leaves_its_root_is_sound(tmp_path: Path) -> None:
    world = chained(tmp_path / "root", 0.4)
    assert wrong(verified(world)) == {}
    told = [
        float(dict(each.headers)["neardup.similarity"] or 0) for _, _, each in outputs(world, "documents-duplicate")
    ]
    assert 0.4 <= min(told) < 0.6
    alone = chained(tmp_path / "stricter", 0.6)
    assert wrong(verified(alone)) == {}
    assert len(outputs(alone, "documents-unique")) > len(outputs(world, "documents-unique"))


def test_a_sample_reads_some_texts_and_holds_them_against_all(tmp_path: Path) -> None:
    world = worked(tmp_path)
    findings = verified(world, sample=5)
    assert wrong(findings) == {}
    assert 0 < findings.counts["texts read"] < findings.counts["input"]
    assert findings["similarity"].examined == verified(world)["similarity"].examined
    appended(world, document("repost", SENTENCES[2]))
    found = {sample: verified(world, sample=sample)["near-uniques"].wrong for sample in (1, 4, 8, 16, 1000)}
    assert found[1000] == 1
    assert set(found.values()) == {0, 1}


def again(world: World) -> None:
    """The service reads all documents once more, at new offsets."""
    world.broker.write("documents", 0, documents())
    world.run()


def test_entries_that_expired_or_were_forgotten_are_no_missed_matches(tmp_path: Path) -> None:
    world = worked(tmp_path / "expired", index={"entries_max": 3})
    again(world)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["near-duplicates that are not both known to the index"] > 0
    assert findings.unchecked["outputs that may have expired from the index"] > 0
    world = worked(tmp_path / "forgotten", index={"insert": "unique"})
    parameters = parameters_for(world.settings, scheme_for(world.settings).stamp())
    with Index.open(world.directory, parameters, map_bytes_max=2**30) as index:
        assert index.forget(["base-1"])
    again(world)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["near-duplicates of entries that expired or were forgotten"] > 0


def test_a_restored_index_is_sound_and_one_that_restored_nothing_is_not(tmp_path: Path) -> None:
    world = worked(tmp_path / "first")
    world.directory = tmp_path / "second"
    again(world)
    assert world.restored
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["outputs that enter nothing, and that a restored index does not know"] > 0
    world.directory = tmp_path / "third"
    with Index.open(
        world.directory, parameters_for(world.settings, scheme_for(world.settings).stamp()), map_bytes_max=2**30
    ) as index:
        for source, offset in world.broker.group(world.settings.kafka.group).committed.items():
            index.begin(source, "documents", offset)
    again(world)
    assert len(wrong(verified(world))["journal-missing"]) > 6


@pytest.mark.parametrize("sample", [None, 0])
@pytest.mark.parametrize("sections", [{}, {"fingerprint": {"scheme": "simhash"}}, {"index": {"insert": "unique"}}])
def test_an_index_that_was_restored_by_another_secret_key_is_sound_and_its_distances_are_counted(
    tmp_path: Path, sections: dict[str, dict[str, object]], sample: int | None
) -> None:
    world = World(tmp_path / "first", Settings.model_validate(sections), key="secret")
    world.fill([document(f"page-{number}", text) for number, text in enumerate(others("en", 120).texts)])
    world.run()
    before = verified(world, sample=sample)
    assert wrong(before) == {}
    assert before.counts["duplicate"] >= 15
    world.directory = tmp_path / "restored"
    again(world)
    assert sum(world.restored) >= 100
    findings = verified(world, sample=sample)
    assert wrong(findings) == {}
    assert findings.unchecked[BY_OTHER_SETTINGS] == 120
    if world.settings.index.insert == "root" and world.settings.fingerprint.scheme == "minhash":
        assert findings.unchecked["distances that another key or other settings than those of now measured"] >= 5
    log, offset, record = outputs(world, "documents-duplicate")[-1]
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.verdict", "unique"))
    assert "contradiction" in wrong(verified(world, sample=sample))


def test_a_document_like_one_that_was_updated_before_is_no_missed_match_in_a_restored_index(tmp_path: Path) -> None:
    """Another partition has the older version, so the restored index has it behind what came after its update."""
    world = World(tmp_path / "first")
    world.fill([document("page", SENTENCES[2]), document("page", SENTENCES[3])], 1, partitions=2)
    world.run()
    world.fill([document("copy", SENTENCES[2])], 0)
    world.run()
    assert wrong(verified(world)) == {}
    world.directory = tmp_path / "restored"
    world.fill([document("one more", SENTENCES[0])], 0)
    world.run()
    assert world.restored
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["near-duplicates of entries that expired or were forgotten"] > 0
    missed = appended(world, document("repost", SENTENCES[3]))
    assert missed in str(wrong(verified(world))["near-uniques"])


def test_an_index_that_was_lost_has_yet_to_be_restored(tmp_path: Path) -> None:
    world = worked(tmp_path / "first")
    world.directory = tmp_path / "second"
    with Index.open(
        world.directory, parameters_for(world.settings, scheme_for(world.settings).stamp()), map_bytes_max=2**30
    ):
        pass
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["outputs that the index has yet to restore"] == findings.counts["input"]


def test_what_has_left_the_logs_is_not_checked_and_what_is_left_is(tmp_path: Path) -> None:
    world = worked(tmp_path)
    again(world)
    for partition in (0, 1):
        world.broker.delete_before("documents-duplicate", partition, 1)
        world.broker.delete_before("documents", partition, 3)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["older than what is left of the outputs"] > 0
    assert findings.unchecked["outputs of records that have left the input"] > 0
    assert findings.unchecked["originals that have left the input"] > 0
    log, offset, record = next(
        each for each in outputs(world, "documents-unique") if position_of(each[2]).startswith("documents/0/1")
    )
    del log.records[offset]
    assert wrong(verified(world)) == {"missing": [position_of(record)]}


def test_records_from_before_the_first_start_are_missing_only_where_the_service_was_to_begin_at_the_first(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, Settings.model_validate({"recovery": {"first_start": "latest"}}))
    world.fill([each.value or b"no json" for each in documents()])
    world.run()
    world.broker.write("documents", 0, documents())
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["before the first output (recovery.first_start)"] == len(documents())
    world.settings = Settings.model_validate(PUBLIC_KEY)
    assert len(wrong(verified(world))["missing"]) == len(documents())


def test_an_input_that_was_made_anew_is_checked_and_its_predecessor_is_not(tmp_path: Path) -> None:
    world = worked(tmp_path, recovery={"topic_recreated": "continue"})
    world.broker.create("documents", 2)
    again(world)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["input"] == len(documents())
    assert findings.unchecked["outputs of an input that was recreated since"] == len(documents()) + 4
    assert findings.unchecked["originals in an input that was recreated since"] > 0
    assert not any("another input" in reason for reason in findings.unchecked)


def test_records_that_a_compacted_input_dropped_are_not_checked(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log = world.broker.topics["documents"].partitions[0]
    for offset in (0, 3, len(documents()[::2])):
        log.records.pop(offset, None)
    found = wrong(verified(world))
    assert found["foreign"]
    assert found["journal-foreign"]
    assert found["original-missing"]
    findings = verified(world, MemoryOutputLog(world.broker, world.settings, compacted=True))
    assert wrong(findings) == {}
    assert findings.unchecked["originals that have left the input"] > 0


@pytest.mark.parametrize("reason", ["poison", "unreadable"])
def test_the_text_of_a_dead_letter_that_must_not_or_cannot_be_read_is_not_read(tmp_path: Path, reason: str) -> None:
    world = worked(tmp_path)
    before = verified(world).counts["texts read"]
    log, offset, record = outputs(world, "documents-dead-letter")[0]
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.reason", reason))
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.counts["texts read"] == before - 1


def test_a_dead_letter_that_stands_for_records_that_cannot_be_read_is_not_foreign(tmp_path: Path) -> None:
    world = worked(tmp_path)
    world.broker.skip("documents", 0)
    gap = world.broker.topics["documents"].partitions[0].end - 1
    _, _, record = outputs(world, "documents-dead-letter")[0]
    headers = with_header(record.headers, "neardup.position", f"documents/0/{gap}")
    log = world.broker.topics["documents-dead-letter"].partitions[0]
    log.append(Stored(None, None, -1, with_header(headers, "neardup.reason", "unreadable")))
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["outputs that stand for records that cannot be read"] == 1


def with_damage(directory: Path) -> World:
    """A service that has skipped three records at the end of a partition which cannot be read, and gone on behind them."""
    world = worked(directory)
    world.broker.write("documents", 0, [Stored(None, None, -1, lost=Lost(3, "they are damaged"))])
    world.broker.skip("documents", 0, 2)
    world.broker.write("documents", 0, documents()[:1])
    world.run()
    return world


def lost_of(world: World) -> tuple[Partition, int]:
    log = world.broker.topics["documents"].partitions[0]
    (offset,) = [offset for offset, record in log.records.items() if record.lost]
    return log, offset


def mended(world: World, count: int) -> None:
    """Let `count` of the records be read, from the first that could not be."""
    log, first = lost_of(world)
    for offset in range(first, first + count):
        log.records[offset] = documents()[1]
    log.records = dict(sorted(log.records.items()))


STOOD_FOR = "records that could not be read, with a dead letter that stands for them"


def test_records_that_cannot_be_read_are_accounted_for_by_the_dead_letter_that_stands_for_them(tmp_path: Path) -> None:
    findings = verified(with_damage(tmp_path))
    assert wrong(findings) == {}
    assert findings.unchecked["outputs of records that cannot be read"] == 1


def test_records_that_can_be_read_again_are_accounted_for_by_the_dead_letter_that_stands_for_them(
    tmp_path: Path,
) -> None:
    world = with_damage(tmp_path)
    mended(world, 3)
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["dead letters of records that could not be read, and can be now"] == 1
    assert findings.unchecked[STOOD_FOR] == 2


@pytest.mark.parametrize("again", [False, True], ids=["not readable", "readable again"])
def test_an_offset_that_the_dead_letter_does_not_state_is_missing(tmp_path: Path, again: bool) -> None:
    world = with_damage(tmp_path)
    _, first = lost_of(world)
    if again:
        mended(world, 3)
    log, offset, record = outputs(world, "documents-dead-letter")[-1]
    assert ("neardup.offsets", b"3") in record.headers
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.offsets", "2"))
    (missing,) = wrong(verified(world)).pop("missing")
    assert missing.startswith(f"documents/0/{first + 2}")


def test_records_that_cannot_be_read_and_of_which_nothing_tells_are_missing(tmp_path: Path) -> None:
    world = with_damage(tmp_path)
    _, first = lost_of(world)
    log, offset, _ = outputs(world, "documents-dead-letter")[-1]
    del log.records[offset]
    missing = [f"documents/0/{first + place}: cannot be read, and no dead letter stands for it" for place in range(3)]
    assert wrong(verified(world)) == {"missing": missing}


def test_records_that_were_damaged_after_they_came_out_are_not_held_against_their_outputs(tmp_path: Path) -> None:
    world = worked(tmp_path)
    log = world.broker.topics["documents"].partitions[0]
    log.records[0] = Stored(None, None, -1, lost=Lost(3, "they are damaged"))
    del log.records[1], log.records[2]
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked["outputs of records that cannot be read"] == 3
    assert findings.unchecked["originals that cannot be read"] > 0


def test_a_number_of_offsets_that_is_none_is_found(tmp_path: Path) -> None:
    world = with_damage(tmp_path)
    log, offset, record = outputs(world, "documents-dead-letter")[-1]
    log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.offsets", "many"))
    assert "it covers 'many' offsets" in wrong(verified(world))["contradiction"][0]


BY_OTHER_SETTINGS = "texts and fingerprints of outputs that other decode or fingerprint settings made"


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("field", ["text", "id"])
def test_what_was_decided_before_decode_settings_were_mended_is_counted_and_not_blamed(
    tmp_path: Path, field: str, lost: bool
) -> None:
    mistaken = {"text": "/title", "id": "/url"}[field]
    world = World(tmp_path / "first", Settings.model_validate({"decode": {field: mistaken}}))
    values = [
        orjson.dumps({"id": f"page-{number}", "url": f"site/{number}", "title": f"Page {number}", "text": text})
        for number, text in enumerate(SENTENCES)
    ]
    world.fill(values)
    world.run()
    world.settings = world.settings.model_copy(update={"decode": Settings().decode})
    if lost:
        world.directory = tmp_path / "restored"
    world.fill([value.replace(b"page-", b"copy-") for value in values])
    world.run()
    findings = verified(world)
    assert wrong(findings) == {}
    assert findings.unchecked[BY_OTHER_SETTINGS] == len(SENTENCES)
    assert findings["fingerprint"].examined == len(SENTENCES)


def test_a_fingerprint_of_other_settings_is_found_where_the_output_names_those_of_now(tmp_path: Path) -> None:
    world = worked(tmp_path, decode={"text": "/id"})
    digest = settings_digest(Settings(), scheme_for(Settings()).stamp())
    for log, offset, record in outputs(world, "documents-unique"):
        log.records[offset] = replace(record, headers=with_header(record.headers, "neardup.settings", digest))
    world.settings = world.settings.model_copy(update={"decode": Settings().decode})
    assert "fingerprint" in wrong(verified(world))


def test_other_settings_than_those_of_the_index_are_refused(tmp_path: Path) -> None:
    world = worked(tmp_path)
    world.settings = Settings.model_validate(PUBLIC_KEY | {"minhash": {"similarity_min": 0.6}})
    with pytest.raises(errors.ParametersDifferError, match="similarity_min"):
        verified(world)


def test_a_service_whose_threshold_became_stricter_is_sound(tmp_path: Path) -> None:
    texts = [SENTENCES[2] + SENTENCES[3], SENTENCES[2] + SENTENCES[3] + SENTENCES[0], SENTENCES[3] + SENTENCES[2]]
    world = World(
        tmp_path,
        Settings.model_validate(
            {"minhash": {"similarity_min": 0.3}, "index": {"insert": "unique", "longer": "duplicate"}}
        ),
    )
    world.fill([document(f"early-{number}", text) for number, text in enumerate(texts)])
    world.run()
    world.settings = world.settings.model_copy(update={"minhash": Minhash(similarity_min=0.95)})
    world.fill([document(f"late-{number}", text + SENTENCES[5]) for number, text in enumerate(texts)])
    world.run()
    told = [dict(record.headers)["neardup.verdict"] for _, _, record in outputs(world, "documents-unique")]
    assert (len(told), len(outputs(world, "documents-duplicate"))) == (4, 2)
    assert wrong(verified(world)) == {}
    world.settings = world.settings.model_copy(update={"minhash": Minhash(similarity_min=0.3)})
    assert "near-uniques" in wrong(verified(world))


def test_the_page_of_questions_names_every_check_in_order() -> None:
    rows = re.findall(r"^\| (`.*?) \| [^|]* \|$", (ROOT / "docs" / "questions.md").read_text(), re.MULTILINE)
    named = []
    for first, *suffixes in (re.findall(r"`([\w-]+)`", cell) for cell in rows):
        # "`update-id`, `-equal`" stands for update-id and update-equal.
        named += [first, *(first.split("-")[0] + each if each.startswith("-") else each for each in suffixes)]
    assert [each for each in named if each in CHECKS] == list(CHECKS)
