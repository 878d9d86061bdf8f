import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow.buckets.page_filter import BITS_PER_PAGE, filter_of, may_have
from index.dataflow.rows import shard_of
from tests.support.examples import examples


@examples(50)
@given(st.lists(st.integers(0, 2**64 - 1)))
def test_a_filter_says_yes_to_every_page_that_is_there(given_pages: list[int]) -> None:
    pages = np.array(given_pages, np.uint64)
    assert may_have(filter_of(pages), pages).all()


def test_a_filter_says_no_to_most_others_of_its_own_shard() -> None:
    generator = np.random.default_rng(1)
    pages = generator.integers(0, 2**45, 2_000_000).astype(np.uint64)
    pages = np.unique(pages[shard_of(pages, 64) == 3])
    there, others = pages[: len(pages) // 2], pages[len(pages) // 2 :]
    words = filter_of(there)
    assert len(words) * 64 < (BITS_PER_PAGE + 1) * len(there)
    assert may_have(words, others).mean() < 0.02


def test_a_filter_over_nothing_says_no() -> None:
    assert not may_have(filter_of(np.empty(0, np.uint64)), np.array([0, 7], np.uint64)).any()
