"""Verification holds every report of a protected set against the set: what is planted is named with its record and set."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from streamer.errors import SettingsError
from streamer.records.record import Headers
from streamer.records.route import given_back
from streamer.settings.settings import load
from tests.support.command_line import run
from tests.support.memory_broker import Stored
from tests.support.memory_service import SENTENCES, World, document
from tests.support.verified import outputs, position_of, verified, with_header, wrong

REPORT = "neardup.protected"
NOT_NAMED = "reports of the protected set {}, which index.protected does not name: name its folder (--protected)"
DOCUMENTS = [
    *(document(f"page-{number}", text) for number, text in enumerate(SENTENCES)),
    document("short", "two words"),
    b"no json",
    document("empty", "..."),
    *(document(f"copy-{number}", f"{text}!") for number, text in enumerate(SENTENCES)),
]
IN_SETS = {"evaluation": (2, 4), "own": (4, 5)}


def worked(folder: Path, scheme: str = "minhash", names: tuple[str, ...] = tuple(IN_SETS)) -> World:
    """A service that has filtered DOCUMENTS with sets, which have some of its texts and the short one."""
    for name in names:
        texts = [SENTENCES[number] for number in IN_SETS[name]] + ["two words"]
        lines = [document(f"{name}-{number}", text) + b"\n" for number, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
        made = run(
            *("protect", folder / f"{name}.jsonl", "--out", folder / name, "--processes", 1),
            *("--set", f"fingerprint.scheme={scheme}", "--index", folder / "none"),
        )
        assert made.code == 0, made.err
    sets = orjson.dumps([str(folder / name) for name in names]).decode()
    overrides = ["batch.records_max=4", f"fingerprint.scheme={scheme}", f"index.protected={sets}"]
    world = World(folder / "index", load(None, overrides, {}))
    world.fill(DOCUMENTS)
    world.run()
    return world


def change(world: World, id_: str, changed: Callable[[Headers], Headers]) -> str:
    """Change one output's headers behind the service's back; returns its position."""
    topics = world.settings.topics
    for topic in (topics.unique, topics.duplicate, topics.dead_letter):
        for log, offset, record in outputs(world, topic):
            if id_of(record) == id_:
                log.records[offset] = replace(record, headers=changed(record.headers))
                return position_of(record)
    raise AssertionError(id_)


def id_of(record: Stored) -> str:
    return "no json" if record.value == b"no json" else str(orjson.loads(record.value or b"")["id"])


def told(*matches: dict[str, object]) -> Callable[[Headers], Headers]:
    """Report these matches alone."""
    report = (REPORT, orjson.dumps(matches)) if matches else None
    return lambda headers: (*(each for each in headers if each[0] != REPORT), *([report] if report else []))


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
@pytest.mark.parametrize("sample", [1, None])
def test_a_service_with_two_sets_is_sound(tmp_path: Path, scheme: str, sample: int | None) -> None:
    world = worked(tmp_path, scheme)
    findings = verified(world, sample=sample)
    assert wrong(findings) == {}
    assert findings["protected"].examined == len(DOCUMENTS)
    reported = sum(REPORT in dict(record.headers) for record in world.broker.records(world.settings.topics.unique))
    assert reported == len({2, 4, 5, "short"})


A_MATCH = {"set": "own", "id": "own-9", "similarity": 0.9}


@pytest.mark.parametrize(
    ("id_", "matches", "problem"),
    [
        ("page-2", [], "does not report 'evaluation-0' (similarity 1.0) of the protected set evaluation"),
        (
            "short",
            [],
            "does not report 'evaluation-2' (similarity 1.0) of the protected set evaluation, and does not report",
        ),
        (
            "page-4",
            [{"set": "own", "id": "own-0", "similarity": 1.0}],
            "does not report 'evaluation-1' (similarity 1.0) of the protected set evaluation",
        ),
        ("page-0", [A_MATCH], "reports 'own-9' (similarity 0.9) of the protected set own, and resembles nothing there"),
        (
            "no json",
            [A_MATCH],
            "reports 'own-9' (similarity 0.9) of the protected set own, and resembles nothing there",
        ),
        ("empty", [A_MATCH], "reports 'own-9' (similarity 0.9) of the protected set own, and resembles nothing there"),
        (
            "copy-5",
            [A_MATCH],
            "reports 'own-9' (similarity 0.9) of the protected set own, and resembles 'own-1' (similarity",
        ),
        (
            "page-5",
            [{"set": "own", "id": "own-1", "similarity": 0.9991}],
            "reports 'own-1' (similarity 0.9991) of the protected set own, and resembles 'own-1' (similarity 1.0)",
        ),
    ],
)
def test_a_planted_report_is_named_with_its_record_and_set(
    tmp_path: Path, id_: str, matches: list[dict[str, object]], problem: str
) -> None:
    world = worked(tmp_path)
    position = change(world, id_, told(*matches))
    (found,) = wrong(verified(world, sample=1)).pop("protected")
    assert found.startswith(f"{position}: {problem}")
    # The negative control: without the sets nothing is compared.
    world.settings = world.settings.replaced(index={"protected": []})
    assert wrong(verified(world)) == {}


def test_a_set_that_is_named_no_longer_is_counted_by_name_and_the_others_are_checked(tmp_path: Path) -> None:
    world = worked(tmp_path)
    world.settings = world.settings.replaced(index={"protected": [tmp_path / "own"]})
    change(world, "page-2", told())
    findings = verified(world)
    assert wrong(findings) == {}
    reports_left = len({("page", 4), ("copy", 2), ("copy", 4), "short"})
    assert {name: count for name, count in findings.unchecked.items() if "reports of the" in name} == {
        NOT_NAMED.format("evaluation"): reports_left
    }
    position = change(world, "page-5", told())
    (found,) = wrong(verified(world))["protected"]
    assert found == f"{position}: does not report 'own-1' (similarity 1.0) of the protected set own"


def test_a_set_whose_folder_is_gone_is_refused_with_the_way_out(tmp_path: Path) -> None:
    world = worked(tmp_path)
    shutil.rmtree(tmp_path / "own")
    with pytest.raises(SettingsError, match=r"own: there is no protected set\. Make one \(.*\), or leave it out"):
        verified(world)


def test_a_set_that_has_grown_since_tells_what_is_not_reported(tmp_path: Path) -> None:
    world = worked(tmp_path, names=("evaluation",))
    (tmp_path / "more.jsonl").write_bytes(document("new", SENTENCES[0]) + b"\n")
    done = run("protect", tmp_path / "more.jsonl", "--out", tmp_path / "evaluation", "--index", tmp_path / "none")
    assert done.code == 0, done.err
    found = wrong(verified(world))["protected"]
    assert len(found) == 2
    assert all("does not report 'new'" in each for each in found)


@pytest.mark.parametrize("report", ["no json", "{}", "[1]", '[{"set": "own"}]', "7"])
def test_what_is_no_report_contradicts(tmp_path: Path, report: str) -> None:
    world = worked(tmp_path, names=("own",))
    change(world, "page-5", lambda headers: with_header(headers, REPORT, report))
    found = wrong(verified(world))
    assert ("names none" if report == "{}" else f"{report!r} is no report of protected sets") in found["contradiction"][
        0
    ]
    assert "does not report 'own-1'" in found["protected"][0]


def test_a_set_that_is_reported_twice_contradicts(tmp_path: Path) -> None:
    world = worked(tmp_path, names=("own",))
    match: dict[str, object] = {"set": "own", "id": "own-1", "similarity": 1.0}
    change(world, "page-5", told(match, match))
    assert list(wrong(verified(world))) == ["contradiction"]


def test_the_report_of_a_record_that_was_given_back_is_counted_and_not_checked(tmp_path: Path) -> None:
    world = worked(tmp_path, names=("own",))
    ((_, _, dropped),) = (
        each for each in outputs(world, world.settings.topics.duplicate) if id_of(each[2]) == "copy-5"
    )
    world.broker.topics[world.settings.topics.unique].partitions[0].append(
        replace(dropped, headers=given_back(dropped.headers))
    )
    findings = verified(world)
    assert "protected" not in wrong(findings)
    assert findings.unchecked["reports of protected sets on records that were given back"] == 1
