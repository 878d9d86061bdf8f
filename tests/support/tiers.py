"""Which target of the Makefile runs a test: what it asks for decides, and no list of tests.

`make check` runs the house's rules, `make test` all that needs no broker of its own and one life over a real broker,
`make test-all` everything. The rest is what `make test` leaves out, and the tests by example again: their number of
examples comes from the profile.
"""

from pathlib import Path
from typing import Literal

import pytest

from tests.support.paths import ROOT

Tier = Literal["check", "test", "rest"]
TIERS: tuple[Tier, ...] = ("check", "test", "rest")

BROKERS = {"kafka", "secure_kafka", "struck_brokers", "slow_kafka"}
"""Fixtures that start a broker; those that stand on them are seen through."""

LONE_BROKERS = ("secure_kafka", "fragile_kafka", "forgetful_kafka", "struck_brokers", "slow_kafka")
"""Brokers that one process starts for its own tests. All tests that share one run in that process."""

REST_MARKS = {"kafka", "rest"}
"""Marks of tests that `make test` leaves out: they start a broker themselves, or are one more case of what another proves."""

SHORT_STORIES = {"kafka_of_one_life", "newcomer"}
"""Fixtures of the few tests over a broker that `make test` runs."""

HOUSE_RULES = {"test_tidy.py", "test_voice.py", "docs/test_site.py", "deploy/test_clusters.py"}
"""Files of `make check`, below tests/."""

REST_FOLDERS = {"bench", "deploy", "flink"}
"""Folders below tests/ of what is not the product."""


def place(path: Path) -> Path:
    """A file's path below tests/, or only its name if it is elsewhere."""
    tests = ROOT / "tests"
    return path.relative_to(tests) if path.is_relative_to(tests) else Path(path.name)


def tier_of(item: pytest.Item) -> Tier:
    """The first target that runs a test."""
    file = place(item.path)
    if str(file) in HOUSE_RULES:
        return "check"
    fixtures = set(getattr(item, "fixturenames", ()))
    is_long = bool(fixtures & BROKERS) or any(mark.name in REST_MARKS for mark in item.own_markers)
    return "rest" if file.parts[0] in REST_FOLDERS or (is_long and not fixtures & SHORT_STORIES) else "test"


def first_of(*cases: object) -> list[object]:
    """Cases of a parametrisation: `make test` runs the first one, `make test-all` all of them."""
    first, *others = cases
    rows = [case if isinstance(case, tuple) else (case,) for case in others]
    return [first, *(pytest.param(*row, marks=pytest.mark.rest) for row in rows)]


def group_of(item: pytest.Item) -> str | None:
    """Tests of a group run in one process although they are in several files: they share a broker of that process."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return next((name for name in LONE_BROKERS if name in fixtures), None)


def takes_examples(item: pytest.Item) -> bool:
    """Whether hypothesis makes up the test's input."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def belongs(item: pytest.Item, tier: Tier) -> bool:
    """Whether a tier runs a test."""
    own = tier_of(item)
    return own == tier or (tier == "rest" and own == "test" and takes_examples(item))
