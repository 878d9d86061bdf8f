import numpy as np
import pytest

from index.decide.rule import Matched, decide
from index.entry import NO_DISTANCE, NO_NUMBER, Kind, Verdict
from index.matching.distance import Matches, no_matches

U, D = Verdict.UNIQUE, Verdict.DUPLICATE


def pairs(*rows: tuple[int, int, int]) -> Matches:
    """(row, distance, earlier row), sorted."""
    columns = np.array(sorted(rows), np.int64)
    return Matches(columns[:, 0], columns[:, 1].astype(np.int16), columns[:, 2].astype(np.uint64))


def found(store: list[tuple[int, int] | None], matches: Matches, kinds: list[Kind] | None = None) -> Matched:
    """`store` holds (distance, original) of the store's nearest for every row."""
    count = len(store)
    return Matched(
        kinds=np.array(kinds or [Kind.NEAR] * count, np.uint8),
        distances=np.array([NO_DISTANCE if s is None else s[0] for s in store], np.int16),
        originals=np.array([NO_NUMBER if s is None else s[1] for s in store], np.uint64),
        pairs=matches,
        firsts=np.zeros(count, np.int64),
    )


def test_a_chain_within_a_batch_is_broken_by_insert_unique() -> None:
    outcome = decide(found([None] * 4, pairs((1, 2, 0), (2, 2, 1), (3, 1, 2), (3, 3, 1))), "unique", 10)
    assert outcome.verdicts.tolist() == [U, D, U, D]
    assert outcome.numbers.tolist() == [10, NO_NUMBER, 11, NO_NUMBER]
    assert outcome.originals.tolist() == [10, 10, 11, 11]
    assert outcome.distances.tolist() == [-1, 2, -1, 1]


def test_a_chain_within_a_batch_is_followed_to_its_root_by_insert_all() -> None:
    outcome = decide(found([None] * 4, pairs((1, 2, 0), (2, 2, 1), (3, 1, 2))), "all", 10)
    assert outcome.verdicts.tolist() == [U, D, D, D]
    assert outcome.numbers.tolist() == [10, 11, 12, 13]
    assert outcome.originals.tolist() == [10] * 4


def test_a_chain_that_begins_at_a_stored_entry_leads_to_that_entrys_original() -> None:
    outcome = decide(found([(3, 4), None, None], pairs((1, 1, 0), (2, 1, 1))), "all", 10)
    assert outcome.originals.tolist() == [4, 4, 4]
    alone = decide(found([(3, 4), None, None], pairs((1, 1, 0), (2, 1, 1))), "unique", 10)
    assert alone.verdicts.tolist() == [D, U, D]
    assert alone.originals.tolist() == [4, 10, 10]


@pytest.mark.parametrize(("in_batch", "original"), [(1, 10), (2, 4), (3, 4)])
def test_a_row_of_the_batch_must_be_nearer_than_the_stored_entry(in_batch: int, original: int) -> None:
    for insert in ("unique", "all"):
        outcome = decide(found([None, (2, 4)], pairs((1, in_batch, 0))), insert, 10)  # type: ignore[arg-type]
        assert outcome.originals.tolist() == [10, original]
        assert outcome.distances.tolist() == [-1, min(in_batch, 2)]


def test_a_row_that_matches_only_duplicates_of_the_batch_is_unique() -> None:
    outcome = decide(found([(0, 7), (1, 7), None], pairs((2, 1, 0), (2, 2, 1))), "unique", 10)
    assert outcome.verdicts.tolist() == [D, D, U]


def test_exact_rows_follow_the_first_of_their_equals_or_its_stored_original() -> None:
    kinds = [Kind.EXACT, Kind.EXACT, Kind.DEAD_LETTER, Kind.EXACT, Kind.UNDECIDABLE, Kind.EXACT]
    columns = found([None, (0, 3), None, None, None, (0, 3)], no_matches(), kinds)
    columns.firsts[:] = [0, 1, 0, 0, 0, 1]
    outcome = decide(columns, "unique", 10)
    assert outcome.verdicts.tolist() == [U, D, Verdict.DEAD_LETTER, D, Verdict.UNDECIDABLE, D]
    assert outcome.originals.tolist() == [10, 3, NO_NUMBER, 10, NO_NUMBER, 3]
    assert outcome.distances.tolist() == [-1, 0, -1, 0, -1, 0]
    assert outcome.entering.tolist() == [True, False, False, False, False, False]
    assert decide(columns, "all", 10).numbers.tolist() == [10, 11, NO_NUMBER, 12, NO_NUMBER, 13]
