import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from index.entry import Entries, Kind
from index.index import Index
from index.matching.second_look import CosineLook
from index.session import Retention
from index.storage.parameters import Parameters
from tests.support.entries import Row, ends_of, entries_of
from tests.support.indexes import SMALL, opened
from tests.support.roots import with_insert

ENTERED_MAX = 3
"""The rows are prepared, prepared anew where the journal knows some, and get their reasons."""


class Entered:
    """How often each module of `index.decide` is entered.

    A module is entered when one of its functions is called, or resumed, by code of another module. Modules outside of
    `index`, of numpy or of the standard library, stand for whoever called them. Making an object of a module is a call. A
    call within a module is no entering, nor is a return into it.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("index.decide."):
            caller = frame.f_back
            while caller is not None and not caller.f_globals.get("__name__", "").startswith("index."):
                caller = caller.f_back
            if caller is None or caller.f_globals["__name__"] != name:
                self.counts[name] += 1


def entered(index: Index, batch: Entries, rows: list[Row]) -> Counter[str]:
    counting = Entered()
    sys.setprofile(counting)
    try:
        index.admit(batch, ends_of(rows))
    finally:
        sys.setprofile(None)
    return counting.counts


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("look", [None, CosineLook(2, 0.9)])
def test_the_walk_of_a_batch_enters_no_module_again_and_again(insert: Any, look: Any, tmp_path: Path) -> None:
    """Whatever is in the batch: known positions, exact ones, equals of retired entries, entries that expire behind it."""
    generator = np.random.default_rng(1)
    looks = [b"", b""] if look is None else [b"\x40\x00", b"\x00\x40"]
    parameters, seen = with_insert(Parameters(look=look), insert), set()
    with opened(tmp_path, parameters, sizes=SMALL, retention=Retention(40)) as index:
        for begin in range(0, 300, 10):
            if begin % 50 == 0:
                index.forget([f"id {offset}" for offset in range(0, begin, 7)])
            rows = [
                Row(
                    begin - 3 + place if begin else place,
                    int(generator.integers(60)) << 40,
                    kind=Kind.EXACT if place % 4 == 0 else Kind.NEAR,
                    id=f"id {begin + place}",
                    look=looks[place % 2],
                )
                for place in range(10)
            ]
            counts = entered(index, replace(entries_of(rows), hosts=["site.example"] * len(rows)), rows)
            assert max(counts.values()) <= ENTERED_MAX, counts
            seen |= set(counts)
    rooms = {"admit", "prepare", "batch", "decide", "gather", "load", "recrawl", "rule", "guard", "retention", "retire"}
    assert seen == {f"index.decide.{room}" for room in rooms}


def test_entering_is_counted_by_what_calls(tmp_path: Path) -> None:
    """The test of the test above: each part of a batch that is decided by itself asks for the rule."""
    with opened(tmp_path) as index, pytest.MonkeyPatch.context() as patch:
        patch.setattr("index.decide.prepare.ROWS_AT_ONCE", 2)
        rows = [Row(offset, offset << 20) for offset in range(10)]
        counts = entered(index, entries_of(rows), rows)
    assert counts["index.decide.rule"] == 5
    assert counts["index.decide.admit"] == 2
