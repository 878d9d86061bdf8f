"""Intervals of shares against published ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.audit.interval import wilson


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_intervals_of_shares_are_the_published_ones(hits: int, count: int, low: float, high: float) -> None:
    """R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (score, without continuity correction)."""
    found = wilson(hits, count)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))
    mirrored = wilson(count - hits, count)
    assert (mirrored.low, mirrored.high) == (pytest.approx(1 - found.high), pytest.approx(1 - found.low))


@given(st.integers(0, 500), st.integers(0, 500))
def test_a_share_lies_in_its_interval(hits: int, more: int) -> None:
    found = wilson(hits, hits + more)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.high - found.low < 4.0 / max(hits + more, 1) ** 0.5


def test_the_interval_of_no_counts_is_everything() -> None:
    assert [getattr(wilson(0, 0), name) for name in ("value", "low", "high")] == [1.0, 0.0, 1.0]
