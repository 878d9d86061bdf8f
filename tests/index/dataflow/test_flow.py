"""The flow says of every document what one index says that is fed in the order of the log."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import Dataflow
from index.entry import Source, Verdict
from index.matching.root import RootRule
from index.session import Longer
from index.storage.parameters import Parameters
from tests.support.dataflow import STREAM, Answer, Batch, Cluster, answers_by_position
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.flow_agreement import assert_same, sequential
from tests.support.flow_logs import (
    BANDING,
    INSERTS,
    crawl_of_hosts,
    hosted_rows,
    logs_of,
    minhash_rows,
    simhash_rows,
)
from tests.support.framed_sites import PARAMETERS as FRAMED
from tests.support.looks import LOOKS, looked_at_rows
from tests.support.roots import root_rules


@pytest.mark.parametrize("insert", INSERTS)
@pytest.mark.parametrize("bits", [64, 128])
@examples(15)
@given(st.data())
def test_the_flow_decides_by_simhash_as_one_index_does(insert: Any, bits: int, data: st.DataObject) -> None:
    distance_max = data.draw(st.integers(0, 7))
    rows = simhash_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 120)), bits)
    parameters = Parameters(bits, distance_max, insert, root=root_rules(insert, distance_max, data))
    assert_same(parameters, rows, data, chunk_entries=data.draw(st.sampled_from([1, 3, 256])))


@pytest.mark.parametrize("insert", INSERTS)
@examples(15)
@given(st.data())
def test_the_flow_decides_by_minhash_as_one_index_does(insert: Any, data: st.DataObject) -> None:
    distance_max = data.draw(st.integers(1500, 4500))
    rows = minhash_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 100)))
    root = RootRule(distance_max + data.draw(st.integers(0, 1500)), distance_max // 3) if insert == "root" else None
    parameters = Parameters(BANDING.bits, distance_max, insert, banding=BANDING, root=root)
    assert_same(parameters, rows, data, segment_entries=data.draw(st.sampled_from([1, 3, 256])))


@pytest.mark.parametrize("insert", INSERTS)
@pytest.mark.parametrize("kind", sorted(LOOKS))
@examples(8)
@given(st.data())
def test_a_second_look_decides_which_matches_count(insert: Any, kind: str, data: st.DataObject) -> None:
    look = LOOKS[kind]
    distance_max = look.reach if hasattr(look, "reach") else data.draw(st.integers(0, 7))
    rows = looked_at_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 100)), look)
    parameters = Parameters(64, distance_max, insert, look=look, root=root_rules(insert, distance_max, data))
    assert_same(parameters, rows, data)


@examples(20)
@given(st.data())
def test_pages_of_hosts_get_their_frames_as_in_one_index(data: st.DataObject) -> None:
    with crawl_of_hosts(data) as (parameters, rows):
        assert_same(parameters, rows, data, segment_entries=data.draw(st.sampled_from([1, 3, 256])))


def verdicts_of(parameters: Parameters, rows: list[Row]) -> list[int]:
    """Verdicts on rows of two partitions, by the flow and by one index alike."""
    generator = np.random.default_rng(1)
    logs = logs_of(rows, parameters.bits, 2, generator)
    cluster = Cluster(Dataflow(parameters, shards=2, slot_ms=200), logs, generator)
    cluster.run()
    expected = sequential(parameters, logs)
    assert answers_by_position(cluster.decided, logs) == expected
    return [answer.verdict for answer in expected.values()]


def test_a_crawl_of_one_site_in_two_partitions_meets_every_verdict_and_without_frames_other_ones() -> None:
    rows = hosted_rows(1, 140, hosts=1)
    framed, without = verdicts_of(FRAMED, rows), verdicts_of(replace(FRAMED, frames=None), rows)
    assert {Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.TEMPLATE} <= set(framed)
    assert sum(one != other for one, other in zip(framed, without, strict=True)) > 20


def test_a_copy_of_a_dropped_page_is_dropped_though_a_nearer_page_came_between() -> None:
    """CLAIM files only the first of alike documents, so a later one must never enter the index alone."""
    verdicts_of(replace(FRAMED, root=RootRule(6_000, 500)), hosted_rows(3, 166, hosts=3))


def in_turn(*rows: Row) -> list[Answer]:
    """Answers to documents of one partition, each in a slot of its own, where a tenth more letters pass."""
    own = [row._replace(source=Source(STREAM, 0), offset=offset, id=f"id-{offset}") for offset, row in enumerate(rows)]
    batches = [Batch(10 * row.offset, 0, row.offset, row.offset + 1, entries_of([row])) for row in own]
    logs = {0: batches}
    cluster = Cluster(Dataflow(Parameters(64, 3), slot_ms=10, longer=Longer(1_000)), logs, np.random.default_rng(1))
    cluster.run()
    answers = answers_by_position(cluster.decided, logs)
    return [answers[0, offset] for offset in range(len(rows))]


def test_a_longer_version_passes_with_its_original_and_what_resembles_it_is_measured_against_it() -> None:
    short, longer, copy, again = in_turn(Row(0, 0, length=100), Row(0, 1, length=110), Row(0, 3, length=120), Row(0, 0))
    assert (short.verdict, short.ratio) == (Verdict.UNIQUE, 0)
    assert (longer.verdict, longer.original_id, longer.distance, longer.ratio) == (Verdict.EXTENDS, "id-0", 1, 1_100)
    # The nearest original is the longer version; 120 letters are too many for the short one alone.
    assert (copy.verdict, copy.original_id, copy.ratio) == (Verdict.DUPLICATE, "id-1", 1_091)
    assert (again.verdict, again.original_id, again.ratio) == (Verdict.DUPLICATE, "id-0", 0)


def test_a_longer_copy_of_a_duplicate_enters_where_its_fingerprint_is_known_already() -> None:
    """Only the first of alike documents enters a bucket: without the letters the last row would miss the one before it."""
    *_, extending, last = in_turn(
        Row(0, 0, length=100), Row(0, 7, length=100), Row(0, 7, length=150), Row(0, 15, length=150)
    )
    assert (extending.verdict, extending.original_id) == (Verdict.EXTENDS, "id-0")
    assert (last.verdict, last.original_id) == (Verdict.DUPLICATE, "id-2")


def test_who_does_not_wait_for_the_watermark_says_something_else() -> None:
    """A negative control: without it the tests above could not fail."""
    generator = np.random.default_rng(5)
    logs = logs_of(simhash_rows(5, 400, 64, centres=30), 64, 4, generator)
    parameters = Parameters(64, 3)
    hasty = Cluster(Dataflow(parameters, shards=3, slot_ms=1000), logs, generator, waits=False)
    hasty.run()
    expected, found = sequential(parameters, logs), answers_by_position(hasty.decided, logs)
    assert sum(found[position] != answer for position, answer in expected.items()) > 20


def test_what_outlives_the_state_is_told_by_the_stamp() -> None:
    flow = Dataflow(Parameters())
    others = (replace(flow, shards=32), replace(flow, parameters=Parameters(128)))
    longer = [replace(flow, longer=each) for each in (Longer(1_000), Longer(2_000), Longer(1_000, 1_500))]
    assert len({tuple(each.stamp.items()) for each in (flow, *others, *longer)}) == 6
    assert replace(flow, slot_ms=7).stamp == replace(flow, chunk_entries=7).stamp == flow.stamp
    assert replace(flow, segment_entries=7).stamp == flow.stamp
