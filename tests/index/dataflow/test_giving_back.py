"""Documents that a person gave back or forgot: the flow says what one index says that hears of it between two batches."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import Dataflow
from index.entry import Verdict
from tests.support.crawls import SCHEMES, crawled
from tests.support.dataflow import Cluster, answers_by_position
from tests.support.entries import Row
from tests.support.examples import examples
from tests.support.flow_agreement import assert_crawl_same, assert_same, in_turn, new_index, sequential
from tests.support.flow_logs import crawl_of_hosts, logs_of, with_given_back
from tests.support.flow_retention import retained_by
from tests.support.roots import with_insert


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(6)
@given(data=st.data())
def test_what_is_given_back_or_forgotten_amid_a_crawl_counts_as_in_one_index(
    scheme: str, insert: Any, data: st.DataObject
) -> None:
    updates = data.draw(st.booleans(), label="updates")
    retained = None if updates and data.draw(st.booleans(), label="all stays") else retained_by(data)
    assert_crawl_same(
        with_insert(SCHEMES[scheme], insert),
        data,
        scoped=data.draw(st.booleans(), label="scoped"),
        updates=updates,
        retained=retained,
        forgets=data.draw(st.integers(0, 4), label="forgets"),
        given_back=data.draw(st.sampled_from([0, 0.4]), label="given back"),
    )


@examples(6)
@given(data=st.data())
def test_a_page_given_back_has_the_frame_of_its_host_which_does_not_sample_it_again(data: st.DataObject) -> None:
    with crawl_of_hosts(data) as (parameters, rows):
        assert_same(parameters, rows, data, updates=True, given_back=0.4)


ORIGINAL, DROPPED = Row(0, 0, id="original"), Row(1, 0b1, id="dropped")


@pytest.mark.parametrize("time_ms", [0, 10])
def test_a_page_given_back_is_an_original_at_the_position_of_its_drop(time_ms: int) -> None:
    """Also if the log took all at the same time: the place in the log decides."""
    first, dropped, near, far = in_turn(
        ORIGINAL,
        DROPPED,
        (DROPPED,),
        Row(0, 0b1111, id="near the dropped one alone"),
        Row(0, 2**64 - 1, id="near to nothing"),
        time_ms=time_ms,
    )
    assert [each.verdict for each in (first, dropped, near, far)] == [0, 1, 1, 0]
    assert near.original_position is not None
    assert (near.original_id, near.original_position.offset) == ("dropped", 1)


def test_a_page_given_back_matches_nothing_but_its_own_versions_until_it_is_forgotten() -> None:
    *_, edited, turned, back = in_turn(
        Row(0, 0b111 << 30, id="original"),
        Row(1, 0b011 << 30, id="dropped", host="here"),
        (Row(1, 0b011 << 30, id="dropped", host="here"),),
        Row(0, 0b010 << 30, id="dropped", host="there"),
        Row(0, 0b111 << 30 | 0b111, id="dropped", host="elsewhere"),
        "dropped",
        Row(0, 0b111 << 30, id="dropped", host="elsewhere"),
    )
    assert (edited.verdict, edited.original_id) == (Verdict.DUPLICATE, "dropped")
    assert turned.verdict == Verdict.UNIQUE
    assert (back.verdict, back.original_id) == (Verdict.DUPLICATE, "original")


def test_a_copy_that_is_given_back_follows_its_original() -> None:
    """The bucket has the original alone: once that one has left, the copy answers for both."""
    *_, copy = in_turn(
        ORIGINAL, Row(1, 0, id="copy"), (Row(1, 0, id="copy"),), "original", Row(0, 0, id="another copy")
    )
    assert (copy.verdict, copy.original_id) == (Verdict.DUPLICATE, "copy")


def test_a_flow_that_takes_nothing_back_says_something_else() -> None:
    """A negative control: without it the first test could not fail."""
    parameters, generator = with_insert(SCHEMES["minhash"], "root"), np.random.default_rng(3)
    rows = crawled(generator, 300, parameters, digests=True, times=6)
    with new_index(parameters, updates=True) as index:
        logs = with_given_back(index, logs_of(rows, parameters.bits, 2, generator), generator, 0.5)
    deaf = {partition: [each for each in log if not each.given_back] for partition, log in logs.items()}
    cluster = Cluster(Dataflow(parameters, slot_ms=10, updates=True), deaf, generator)
    cluster.run()
    expected, found = sequential(parameters, logs, updates=True), answers_by_position(cluster.decided, deaf)
    assert sum(found[position] != answer for position, answer in expected.items()) > 20
