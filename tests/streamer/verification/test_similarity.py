"""Lengths: what services deliver is sound, and every planted error is found and named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deploy.made_up_site import others, reprints
from streamer.records.record import Headers
from streamer.settings.settings import Index, Settings
from tests.support.memory_broker import Partition, Stored
from tests.support.memory_service import World, document
from tests.support.verified import outputs, position_of, verified, with_header, wrong

WHOLES = others("en", 12).texts[:5]


def worked(directory: Path, longer: str = "pass", **sections: object) -> World:
    """A service that has filtered teasers, their whole texts, and copies a little longer or shorter than these."""
    settings = {"index": {"longer": longer}, "fingerprint": {"key": "public"}} | sections
    world = World(directory, Settings.model_validate(settings))
    texts = {
        "teaser": [text[: int(0.85 * len(text))] for text in WHOLES],
        "whole": WHOLES,
        "copy": [text + " Both were found alive." for text in WHOLES],
        "shorter": [text[: int(0.95 * len(text))] for text in WHOLES],
    }
    world.fill([document(f"{kind}-{at}", text) for kind, part in texts.items() for at, text in enumerate(part)])
    world.run()
    return world


def with_headers(headers: Headers, **values: str) -> Headers:
    for name, value in values.items():
        headers = with_header(headers, f"neardup.{name}", value)
    return headers


def output_of(world: World, topic: str, identity: str) -> tuple[Partition, int, Stored]:
    return next(each for each in outputs(world, topic) if dict(each[2].headers)["neardup.id"] == identity.encode())


@pytest.mark.parametrize("sections", [{}, {"fingerprint": {"scheme": "simhash"}}, {"index": {"insert": "unique"}}])
@pytest.mark.parametrize("longer", ["pass", "duplicate"])
def test_lengths_of_a_service_are_sound(tmp_path: Path, longer: str, sections: dict[str, dict[str, object]]) -> None:
    index = {"longer": longer} | sections.get("index", {})
    findings = verified(worked(tmp_path, longer, **sections | {"index": index}))
    assert wrong(findings) == {}
    assert findings["length"].examined == findings["longer"].examined > 0


def test_a_drop_that_is_longer_than_the_settings_allow_is_found(tmp_path: Path) -> None:
    """A service without the rule drops whole texts for their teasers; with the rule in force that breaks the promise."""
    world = worked(tmp_path, "duplicate")
    assert wrong(verified(world)) == {}
    world.settings = world.settings.model_copy(update={"index": Index(longer="pass")})
    findings = wrong(verified(world))
    assert set(findings) == {"longer"}
    for at in range(5):
        whole = position_of(output_of(world, "documents-duplicate", f"whole-{at}")[2])
        teaser = position_of(output_of(world, "documents-unique", f"teaser-{at}")[2])
        assert f"{whole}: is too long to be dropped for {teaser}" in findings["longer"]
    # By its headers alone: no text is read.
    headers_alone = verified(world, sample=0)
    assert headers_alone.counts["texts read"] == 0
    assert wrong(headers_alone) == findings
    world.settings = world.settings.model_copy(update={"index": Index(longer="pass", longer_min=0.9)})
    assert "longer" not in wrong(verified(world))


PLANTED: dict[str, tuple[Callable[[Headers], Headers], str, set[str]]] = {
    "length": (
        lambda headers: with_headers(headers, length="0.999"),
        "has another length beside",
        {"length"},
    ),
    "new": (lambda headers: with_headers(headers, new="0.500"), "has another new share beside", {"length"}),
    "nothing": (
        lambda headers: with_headers(headers, length="0.000"),
        "has another length beside",
        {"length"},
    ),
    "beyond": (lambda headers: with_headers(headers, length="1e300"), "has another length beside", {"length"}),
    "relation": (lambda headers: with_headers(headers, relation="longer"), "has the relation 'longer'", {"length"}),
    "same": (lambda headers: with_headers(headers, relation="same"), "has the relation 'same'", {"length"}),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_length_relation_or_new_share_is_found(tmp_path: Path, planted: str) -> None:
    change, words, checks = PLANTED[planted]
    world = worked(tmp_path)
    log, offset, record = output_of(world, "documents-duplicate", "copy-1")
    log.records[offset] = replace(record, headers=change(record.headers))
    assert log.records[offset] != record
    findings = wrong(verified(world))
    assert set(findings) == checks
    assert words in str(findings)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("sample", [None, 0])
def test_pages_in_known_frames_may_be_longer_by_their_frame(tmp_path: Path, sample: int | None, restored: bool) -> None:
    """Their own text decides; what cannot be checked is counted, whether or not texts are read."""
    settings = Settings.model_validate({"batch": {"records_max": 64}, "fingerprint": {"key": "public"}})
    world = World(tmp_path / "first", settings)
    crawled = reprints("en", 0.25, articles=3, hosts=10, earlier_pages=12)
    bare = reprints("en", 0, articles=3, hosts=1)
    texts = [("bare.example", text) for text in bare.texts] + list(zip(crawled.hosts, crawled.texts, strict=True))
    world.fill([document(f"https://{host}/{at}", text) for at, (host, text) in enumerate(texts)])
    world.run()
    if restored:
        world.directory = tmp_path / "restored"
        world.fill([document("one more", others("en", 1, seed=7).texts[0])])
        world.run()
    findings = verified(world, sample=sample)
    assert wrong(findings) == {}
    lengths = [
        float(value.decode())
        for _, _, record in outputs(world, "documents-duplicate")
        if (value := dict(record.headers).get("neardup.length"))
    ]
    left_out = sum(count for reason, count in findings.unchecked.items() if reason.startswith("lengths of pages"))
    assert left_out == int(np.count_nonzero(np.array(lengths) > 1.1)) > 0


def test_a_restored_page_without_the_frame_that_decided_it_is_counted_and_not_blamed(tmp_path: Path) -> None:
    """Its partition came back before the one whose pages teach the frame; no text is read."""
    settings = Settings.model_validate({"batch": {"records_max": 64}, "fingerprint": {"key": "public"}})
    world = World(tmp_path / "first", settings)
    crawled = reprints("en", 0.25, articles=3, hosts=10, earlier_pages=12)
    bare = reprints("en", 0, articles=3, hosts=1)
    pages = [
        document(f"https://{host}/{at}", text)
        for at, (host, text) in enumerate(zip(crawled.hosts, crawled.texts, strict=True))
    ]
    world.fill(pages[:120], 1, partitions=2)
    world.run()
    world.fill([document(f"https://bare.example/{at}", text) for at, text in enumerate(bare.texts)])
    world.run()
    world.fill(pages[120:])
    world.run()
    for sample in (None, 0):
        assert wrong(verified(world, sample=sample)) == {}
    world.directory = tmp_path / "restored"
    world.fill([document("one more", others("en", 1, seed=7).texts[0])])
    world.run()
    for sample in (None, 0):
        findings = verified(world, sample=sample)
        assert wrong(findings) == {}
        assert findings.unchecked["lengths of pages in the frames of hosts, which do not count"] > 0
