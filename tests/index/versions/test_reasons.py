"""A duplicate whose very text its original has is kept apart from one whose signature alone is equal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.entry import Decisions, Entries, Insert
from index.index import Index
from index.session import Recrawl
from index.storage.parameters import Parameters
from tests.support.entries import Row, ends_of, entries_of
from tests.support.indexes import opened
from tests.support.roots import with_insert

SAME = {0: 7}
UPDATES = Recrawl("update", minor_reasons={0: 5})


def row(offset: int, text: int, *, fingerprint: int = 0, id_: str = "", reason: int = 0) -> Row:
    """A row with this text's digest; another substance for each text."""
    return Row(offset, fingerprint, reason=reason, id=id_ or f"page {offset}", digests=(text, text))


def batch_of(rows: Sequence[Row]) -> Entries:
    return replace(entries_of(rows), hosts=["site.example"] * len(rows))


def admitted(index: Index, rows: Sequence[Row]) -> Decisions:
    return index.admit(batch_of(rows), ends_of(rows))


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("cut", [1, 2, 6])
def test_equal_texts_and_equal_signatures_have_two_reasons_however_the_rows_are_batched(
    insert: Insert, cut: int, tmp_path: Path
) -> None:
    far = 2**63 - 1
    rows = [
        row(0, 1),
        row(1, 1),
        row(2, 2),
        row(3, 1, fingerprint=1),
        row(4, 3, fingerprint=far),
        row(5, 3, fingerprint=far),
    ]
    with opened(tmp_path, with_insert(Parameters(), insert), equal_reasons=SAME) as index:
        parts = [admitted(index, rows[begin : begin + cut]) for begin in range(0, 6, cut)]
        again = admitted(index, rows)
    reasons = np.concatenate([part.reasons for part in parts])
    assert reasons.tolist() == [0, 7, 0, 0, 0, 7]
    assert again.replayed.all()
    assert again.reasons.tolist() == reasons.tolist()


def test_what_is_asked_for_alone_gets_the_reason_that_it_would_get(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=3), equal_reasons=SAME) as index:
        admitted(index, [row(0, 1)])
        asked = index.check(batch_of([row(1, 1), row(2, 2)]))
    assert asked.reasons.tolist() == [7, 0]


def test_reasons_stay_without_a_replacement(tmp_path: Path) -> None:
    """Crafted texts keep theirs, and so do all rows of an index that was opened without replacements."""
    with opened(tmp_path / "crafted", Parameters(distance_max=3), equal_reasons=SAME) as index:
        assert admitted(index, [row(0, 1), row(1, 1, reason=8)]).reasons.tolist() == [0, 8]
    with opened(tmp_path / "none", Parameters(distance_max=3)) as index:
        assert admitted(index, [row(0, 1), row(1, 1)]).reasons.tolist() == [0, 0]


def test_a_page_crawled_again_unchanged_has_the_same_text_and_a_minor_one_its_own_reason(tmp_path: Path) -> None:
    first, same = row(0, 1, id_="page"), row(1, 1, id_="page")
    minor = row(2, 2, id_="page")._replace(digests=(2, 1))
    with opened(tmp_path, Parameters(distance_max=3), recrawl=UPDATES, equal_reasons=SAME) as index:
        assert admitted(index, [first, same, minor]).reasons.tolist() == [0, 7, 5]


def test_an_original_that_was_replaced_within_the_batch_lends_its_text_to_nothing(tmp_path: Path) -> None:
    rows = [row(0, 1, id_="page"), row(1, 2, id_="page"), row(2, 1), row(3, 2), row(4, 1, fingerprint=2**40 - 1)]
    with opened(tmp_path, Parameters(distance_max=3), recrawl=UPDATES, equal_reasons=SAME) as index:
        reasons = admitted(index, rows).reasons.tolist()
    assert reasons == [0, 0, 0, 7, 0]
