"""What other settings would have decided, held against services that worked with them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.errors import NoDocuments
from streamer.evaluation.sentences import sentences_of
from streamer.settings.settings import Route, Settings
from streamer.text.normalisation import Normaliser
from streamer.what_if.compare import compared
from tests.support.memory_broker import Stored
from tests.support.memory_output_log import MemoryOutputLog
from tests.support.memory_service import SENTENCES, World

PAGE = "".join(SENTENCES)
FIELDS = {"metadata": ["/tags"]}


def values() -> list[bytes | None]:
    """Documents more or less alike, copies, new versions of some, short texts, an undecidable one, dead letters."""
    texts = [
        *SENTENCES,
        *(text + "！" for text in SENTENCES),
        *(text + other[:20] for text, other in pairwise(SENTENCES)),
        *(PAGE + f" {name} {name[::-1]}" for name in (f"page number {number:03}" for number in range(12))),
        *(PAGE[: 20 * part] for part in range(4, 20)),
        *("早安", "早安", "", PAGE, PAGE),
    ]
    lines = [
        orjson.dumps(
            {"id": f"{number % 30}", "text": text, "body": text[::2], "host": "site.example", "tags": [text[:3]]}
        )
        for number, text in enumerate(texts)
    ]
    return [*lines[::2], b"no json", None, *lines[1::2]]


def worked(directory: Path, sections: dict[str, Any], partitions: int = 3) -> World:
    """A service of these settings that has filtered all of it, which came a few documents at a time from each partition."""
    world = World(directory, Settings.model_validate({"batch": {"records_max": 5}} | sections))
    world.broker.create_for(world.settings, partitions)
    found = values()
    for begin in range(0, len(found), 16):
        for place, value in enumerate(found[begin : begin + 16]):
            world.broker.write(
                "documents", (begin + place) * 7 % partitions, [Stored(None, value, 1_600_000_000_000 + begin)]
            )
        world.run()
    return world


@contextmanager
def no_bar(_title: str, _total: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda _done: None


def found_of(world: World, sections: dict[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[str, str | None]]]:
    """What other settings would have decided of what a service delivered; and of each position verdict and original."""
    settings = Settings.model_validate({"batch": {"records_max": 7}} | sections)
    index = settings.index.model_copy(update={"directory": world.directory})
    settings = settings.model_copy(update={"index": index})
    with compared(settings, MemoryOutputLog(world.broker, settings), no_bar) as differences:
        other = {
            line["position"]: (line["other"]["verdict"], line["other"].get("original_position"))
            for line in differences.lines()
        }
        return differences.as_json(), other


def parse_headers(world: World) -> dict[str, tuple[str, str | None]]:
    """Verdict and original of each position as a service delivered it."""
    told = {position: dict(headers) for position, (_, headers) in world.outputs().items()}
    return {
        position: (
            (headers["neardup.verdict"] or b"").decode(),
            original.decode() if (original := headers["neardup.original.position"]) else None,
        )
        for position, headers in told.items()
    }


SIMHASH = {"fingerprint": {"scheme": "simhash", "second_look": "none"}}
WAYS: dict[str, dict[str, Any]] = {
    "minhash": {},
    "root": {"index": {"insert": "root"}},
    "unique": {"index": {"insert": "unique"}},
    "guard": {"index": {"insert": "root"}, "guard": {"policy": "pass", "documents_min": 5, "share_max": 0.3}},
    "simhash": SIMHASH,
    "cosine": {"fingerprint": {"scheme": "simhash"}},
    "metadata": {"fingerprint": {"scheme": "simhash", "second_look": "metadata"}, "decode": FIELDS},
    "the newest 20": {"index": {"entries_max": 20, "insert": "unique"}},
}


@pytest.mark.parametrize("sections", WAYS.values(), ids=WAYS)
def test_the_same_settings_change_nothing(tmp_path: Path, sections: dict[str, Any]) -> None:
    world = worked(tmp_path, sections)
    found, other = found_of(world, sections)
    assert (found["changes"], found["other_originals"], found["left_out"], found["of_unknown_order"]) == ([], 0, {}, 0)
    assert found["documents"] == len(values())
    assert other == parse_headers(world)


def test_the_sentences_that_no_kept_document_has_are_counted_by_both_settings(tmp_path: Path) -> None:
    world = worked(tmp_path, {})
    found, _ = found_of(world, {"minhash": {"similarity_min": 0.95}})
    held: dict[str, set[int]] = {"documents-unique": set(), "documents-duplicate": set()}
    for topic, sentences in held.items():
        texts = [orjson.loads(record.value or b"")["text"] for record in world.broker.records(topic)]
        sentences.update(sentences_of(texts, Normaliser(world.settings.fingerprint))[0].tolist())
    unique, dropped = held.values()
    delivered, other = found["sentences"]["delivered"], found["sentences"]["other"]
    assert delivered["distinct"] == other["distinct"] == len(unique | dropped)
    assert delivered["lost"] == len(dropped - unique) > other["lost"]


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stricter": ({"minhash": {"similarity_min": 0.4}}, {"minhash": {"similarity_min": 0.9}}),
    "looser": ({"minhash": {"similarity_min": 0.9}}, {"minhash": {"similarity_min": 0.4}}),
    "another policy": ({}, WAYS["unique"]),
    "a guard": (WAYS["root"], WAYS["guard"]),
    "another scheme": ({}, SIMHASH),
    "no versions": ({}, {"index": {"recrawl": "duplicate"}}),
    "a second look": (SIMHASH, WAYS["metadata"]),
    "another field": ({}, {"decode": {"text": "/body"}}),
    "out of shadow": ({"route": {"shadow": True}}, {"minhash": {"similarity_min": 0.9}}),
}


@pytest.mark.parametrize(("delivered", "other"), OTHERS.values(), ids=OTHERS)
def test_other_settings_are_told_to_decide_as_a_service_with_them_does(
    tmp_path: Path, delivered: dict[str, Any], other: dict[str, Any]
) -> None:
    world, expected = worked(tmp_path / "delivered", delivered), worked(tmp_path / "other", other)
    found, decided = found_of(world, other)
    assert decided == parse_headers(expected)
    for side, service in (("delivered", world), ("other", expected)):
        counts = Counter(verdict for verdict, _ in parse_headers(service).values())
        assert {verdict: count for verdict, count in found[side].items() if count} == counts
    assert found["changed"] > 0
    dropped, kept = (found[group]["documents"] for group in ("newly_dropped", "newly_kept"))
    assert found["other"]["duplicate"] - found["delivered"]["duplicate"] == dropped - kept


def test_without_the_index_or_with_one_that_was_restored_the_same_settings_change_no_verdict(tmp_path: Path) -> None:
    sections = {"index": {"insert": "unique", "recrawl": "duplicate"}}
    world = worked(tmp_path / "lost", sections)
    world.directory = tmp_path / "restored"
    found, _ = found_of(world, sections)
    assert (found["changed"], found["of_unknown_order"]) == (0, len(values()))
    world.run()
    found, _ = found_of(world, sections)
    assert found["changed"] == 0
    assert 0 < found["of_unknown_order"] < len(values())


def test_what_an_output_has_lost_is_read_from_the_input_and_its_verdict_from_the_index(tmp_path: Path) -> None:
    world = worked(tmp_path, {})
    whole, _ = found_of(world, {"minhash": {"similarity_min": 0.9}})
    for topic in ("documents-duplicate", "documents-dead-letter"):
        for partition in range(3):
            log = world.broker.topics[topic].partitions[partition]
            world.broker.delete_before(topic, partition, log.end - 1)
    found, _ = found_of(world, {"minhash": {"similarity_min": 0.9}})
    parts = ("documents", "delivered", "other", "changes", "left_out")
    assert [found[part] for part in parts] == [whole[part] for part in parts]


def test_a_verdict_that_only_the_index_knows_has_no_distance(tmp_path: Path) -> None:
    world = worked(tmp_path, {})
    for partition in range(3):
        end = world.broker.topics["documents-duplicate"].partitions[partition].end
        world.broker.delete_before("documents-duplicate", partition, end)
    with compared(world.settings, MemoryOutputLog(world.broker, world.settings), no_bar) as differences:
        told = [line["delivered"] for line in differences.lines() if line["delivered"]["verdict"] == "duplicate"]
    assert told
    assert all(each == {"verdict": "duplicate", "original": None, "original_position": None} for each in told)


def test_duplicates_whose_originals_are_gone_everywhere_are_left_out(tmp_path: Path) -> None:
    # Documents that are gone teach no frame, and later pages of their hosts may be decided otherwise.
    without_versions = {"index": {"recrawl": "duplicate", "templates": False}}
    world = worked(tmp_path, without_versions)
    for partition in range(3):
        for topic in ("documents", "documents-unique"):
            world.broker.delete_before(topic, partition, 6)
    found, _ = found_of(world, without_versions)
    assert found["changed"] == 0
    assert found["left_out"]["whose original can no longer be read"] > 0


def test_what_came_out_twice_is_decided_once_and_told(tmp_path: Path) -> None:
    world = worked(tmp_path, {})
    log = world.broker.topics["documents-unique"].partitions[0]
    log.append(log.records[min(log.records)])
    found, _ = found_of(world, {})
    assert (found["changed"], found["documents"]) == (0, len(values()))
    assert found["left_out"] == {"came out more than once": 1}


def test_what_is_delivered_meanwhile_does_not_count(tmp_path: Path) -> None:
    world = worked(tmp_path, {})
    group = world.broker.group(world.settings.kafka.group)
    source = min(group.committed)
    group.committed[source] -= 2
    found, _ = found_of(world, {})
    assert (found["changed"], found["documents"]) == (0, len(values()) - 2)


def test_where_nothing_was_delivered_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    world = World(tmp_path, Settings(route=Route(shadow=True)))
    world.broker.create_for(world.settings, 1)
    with pytest.raises(NoDocuments, match="nothing to compare with"):
        found_of(world, {})


def test_hosts_and_examples_say_what_would_be_dropped_and_kept(tmp_path: Path) -> None:
    world = worked(tmp_path, {"minhash": {"similarity_min": 0.4}})
    found, _ = found_of(world, {"minhash": {"similarity_min": 0.95}})
    kept = found["newly_kept"]
    assert kept["hosts"] == [{"host": "site.example", "documents": kept["documents"]}]
    assert len(kept["examples"]) == 10
    for example in kept["examples"]:
        assert example["other"]["verdict"] in ("unique", "update")
        assert 0.4 <= example["delivered"]["similarity"] < 0.95
        assert example["delivered"]["original_position"].startswith("documents/")
