from typing import NamedTuple

import numpy as np
import pytest

from index.decide.rule import Rows, Walk
from index.entry import NO_DISTANCE, NO_NUMBER, Insert, Kind, Verdict
from index.matching.candidates import CandidateSet
from index.matching.distance import Matches, no_matches
from index.matching.outcome import Outcome
from index.matching.root import RootRule, limits_of

U, D = Verdict.UNIQUE, Verdict.DUPLICATE


def pairs(*rows: tuple[int, int, int]) -> Matches:
    """(row, distance, earlier row), sorted."""
    columns = np.array(sorted(rows), np.int64)
    return Matches(columns[:, 0], columns[:, 1].astype(np.int16), columns[:, 2].astype(np.uint64))


class Columns(NamedTuple):
    """Rows of a batch: their kinds, their matches in the index, and those among them."""

    kinds: list[Kind]
    given: Matches
    pairs: Matches


def found(store: list[tuple[int, int] | None], matches: Matches, kinds: list[Kind] | None = None) -> Columns:
    """`store` holds (distance, original) of the store's nearest for every row."""
    given = [(row, *match) for row, match in enumerate(store) if match is not None]
    return Columns(kinds or [Kind.NEAR] * len(store), pairs(*given) if given else no_matches(), matches)


def decide(columns: Columns, insert: Insert, next_number: int, texts: list[int] | None = None) -> Outcome:
    """`texts` holds a number for each row; with insert = "root" they count up to 4 from their root, and enter beyond 1."""
    kinds = np.array(columns.kinds, np.uint8)
    fingerprints = np.array(texts or [0] * len(kinds), np.uint64)[:, None]
    candidates = CandidateSet(fingerprints, np.empty((len(kinds), 0), np.uint8))
    candidates.add(np.unique(columns.given.numbers))
    compared = np.zeros(len(kinds), np.int64)
    apart = np.zeros(len(kinds), np.bool_)
    rows = Rows(kinds, candidates, columns.given, columns.pairs, no_matches(), None, apart, compared)
    root = RootRule(4, 1) if insert == "root" else None

    def to_roots(left: np.ndarray, right: np.ndarray, *_: np.ndarray) -> np.ndarray:
        distances = np.abs(left.astype(np.int64) - right.astype(np.int64))[:, 0]
        return np.where(distances <= 4, distances, NO_DISTANCE).astype(np.int16)

    return Walk(rows, limits_of(insert, root, 3, 0), to_roots if root else None).decide(next_number)


def test_a_chain_within_a_batch_goes_as_far_as_its_root_with_insert_root() -> None:
    """Row 1 is a member, and row 2 matches it; row 3 does too, but is too far from row 0. Row 4 is too near to enter."""
    chain = pairs((1, 2, 0), (2, 2, 1), (3, 3, 1), (4, 1, 2), (5, 1, 4))
    outcome = decide(found([None] * 6, chain), "root", 10, [0, 2, 4, 5, 3, 2])
    assert outcome.verdicts.tolist() == [U, D, D, U, D, U]
    assert outcome.distances.tolist() == [-1, 2, 4, -1, 3, -1]
    assert outcome.originals.tolist() == [10, 10, 10, 13, 10, 14]
    assert outcome.numbers.tolist() == [10, 11, 12, 13, NO_NUMBER, 14]


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
    columns = found([None, (0, 3), None, None, None, (0, 3)], pairs((3, 0, 0), (5, 0, 1)), kinds)
    outcome = decide(columns, "unique", 10)
    assert outcome.verdicts.tolist() == [U, D, Verdict.DEAD_LETTER, D, Verdict.UNDECIDABLE, D]
    assert outcome.originals.tolist() == [10, 3, NO_NUMBER, 10, NO_NUMBER, 3]
    assert outcome.distances.tolist() == [-1, 0, -1, 0, -1, 0]
    assert outcome.entering.tolist() == [True, False, False, False, False, False]
    assert decide(columns, "all", 10).numbers.tolist() == [10, 11, NO_NUMBER, 12, NO_NUMBER, 13]
