"""The second count of the run under faults, on its own: every kind of error is found, and sound topics have none."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.chaos.recount import Recount, Seen
from tests.support.paths import ROOT

Topics = dict[str, list[Seen]]


def output(place: str, position: str, verdict: str, original: str | None = None, value: bytes = b"text") -> Seen:
    own = [("neardup.verdict", verdict), ("neardup.position", position)]
    own += [] if original is None else [("neardup.original.position", original)]
    headers = (("source", b"crawler"), *((name, text.encode()) for name, text in own))
    return Seen(place, b"key", value, 5, headers)


def inputs() -> dict[str, Seen]:
    values = [b"one", b"one!", b"two", b"one?"]
    return {
        f"in/0/{offset}": Seen(f"in/0/{offset}", b"key", value, 5, (("source", b"crawler"),))
        for offset, value in enumerate(values)
    }


def sound() -> Topics:
    return {
        "unique": [
            output("u/0/0", "in/0/0", "unique", value=b"one"),
            output("u/0/1", "in/0/2", "unique", value=b"two"),
        ],
        "duplicate": [
            output("d/0/0", "in/0/1", "duplicate", "in/0/0", b"one!"),
            output("d/0/1", "in/0/3", "duplicate", "in/0/0", b"one?"),
        ],
        "dead-letter": [],
    }


def test_sound_topics_have_no_problems() -> None:
    assert Recount(inputs(), sound()).run() == []


def changed(destination: str, place: int, change: Callable[[Seen], Seen]) -> Topics:
    topics = sound()
    topics[destination][place] = change(topics[destination][place])
    return topics


def naming(original: str) -> Callable[[Seen], Seen]:
    return lambda seen: output(seen.place, seen.own["neardup.position"], "duplicate", original, seen.value or b"")


ERRORS: dict[str, tuple[Topics, str]] = {
    "missing": ({**sound(), "duplicate": sound()["duplicate"][:1]}, "in/0/3: came out 0 times: nowhere"),
    "doubled": (
        {**sound(), "unique": [*sound()["unique"], sound()["unique"][0]]},
        "in/0/0: came out 2 times: u/0/0, u/0/0",
    ),
    "foreign": (
        {**sound(), "dead-letter": [output("l/0/0", "in/0/9", "unique")]},
        "in/0/9: in l/0/0, and never went in",
    ),
    "value": (changed("unique", 0, lambda seen: replace(seen, value=b"x")), "in/0/0: u/0/0 has another value"),
    "key": (changed("unique", 0, lambda seen: replace(seen, key=None)), "in/0/0: u/0/0 has another key"),
    "timestamp": (
        changed("unique", 0, lambda seen: replace(seen, timestamp_ms=6)),
        "in/0/0: u/0/0 has another timestamp",
    ),
    "headers": (
        changed("unique", 0, lambda seen: replace(seen, headers=seen.headers[1:])),
        "in/0/0: u/0/0 has another headers",
    ),
    "topic": (
        {**sound(), "unique": sound()["unique"][:1], "dead-letter": sound()["unique"][1:]},
        "u/0/1 has another verdict",
    ),
    "itself": (changed("duplicate", 0, naming("in/0/1")), "in/0/1: names itself"),
    "not unique": (changed("duplicate", 1, naming("in/0/1")), "in/0/3: names in/0/1, which came out as duplicate"),
    "absent": (changed("duplicate", 1, naming("in/0/7")), "in/0/3: names in/0/7, which came out as nothing"),
}


@pytest.mark.parametrize(("topics", "line"), ERRORS.values(), ids=ERRORS)
def test_every_error_is_found(topics: Topics, line: str) -> None:
    assert any(line in problem for problem in Recount(inputs(), topics).run())


def test_a_duplicate_may_be_named_where_an_update_replaced_its_original() -> None:
    topics = changed("duplicate", 1, naming("in/0/1"))
    topics["unique"][1] = output("u/0/1", "in/0/2", "update", "in/0/0", b"two")
    assert Recount(inputs(), topics).run() == []


def test_the_second_count_uses_no_code_of_the_product() -> None:
    code = "import sys, bench.chaos.recount; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "bench" in done.stdout.split()
    assert not {"streamer", "index"} & set(done.stdout.split())
