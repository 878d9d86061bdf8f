import numpy as np
import pytest

from index.entry import EXTENDING, Entries, Verdict, naming_originals, standing_for_themselves
from tests.support.entries import ONE, TWO, Row, entries_of

ROWS = [
    Row(at, at * 7, (ONE, TWO)[at % 2], reason=at, time_ms=-at, id=f"id {at}", look=bytes([at, 9])) for at in range(6)
]


@pytest.mark.parametrize("rows", [[0, 1, 4], [], [5, 2], list(range(6))])
@pytest.mark.parametrize("looks", [True, False])
def test_rows_that_are_taken_keep_all_their_columns_and_the_sources_of_the_batch(rows: list[int], looks: bool) -> None:
    all_rows = ROWS if looks else [row._replace(look=b"") for row in ROWS]
    entries = entries_of(all_rows)
    taken = entries.take(np.array(rows, np.int64))
    assert len(taken) == len(rows)
    assert taken.sources == entries.sources
    assert (taken.looks is None) == (not looks)
    assert columns_of(taken) == [columns_of(entries)[row] for row in rows]


def columns_of(entries: Entries) -> list[tuple[object, ...]]:
    """Every row with all it has."""
    return [
        (
            entries.sources[entries.source_numbers[row]],
            entries.offsets[row],
            entries.kinds[row],
            entries.reasons[row],
            entries.fingerprints[row].tolist(),
            entries.times_ms[row],
            entries.ids[row],
            None if entries.looks is None else entries.looks[row].tolist(),
        )
        for row in range(len(entries))
    ]


def test_which_verdicts_name_another_document_and_which_are_entries_of_their_own() -> None:
    verdicts = np.array(Verdict, np.uint8)
    naming = {Verdict.DUPLICATE, Verdict.TEMPLATE, Verdict.UPDATE, Verdict.SUSPECT, *EXTENDING}
    standing = {Verdict.UNIQUE, Verdict.TEMPLATE, Verdict.UPDATE, *EXTENDING, Verdict.GIVEN_BACK}
    assert (
        set(verdicts[naming_originals(verdicts)].tolist())
        == {each for each in Verdict if each.names_original}
        == naming
    )
    assert (
        set(verdicts[standing_for_themselves(verdicts)].tolist())
        == {each for each in Verdict if each.stands_for_itself}
        == standing
    )
