"""Pages crawled again: the flow says what one index says whose entries leave."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import Dataflow
from index.entry import Source, Verdict
from index.matching.root import RootRule
from index.storage.parameters import Parameters
from tests.support.brute_force_index import MINOR, OTHER_TEXT, RETURNED, SHARED_ID
from tests.support.crawls import SCHEMES, crawled
from tests.support.dataflow import STREAM, Answer, Batch, Cluster, answers_by_position
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.flow_agreement import assert_crawl_same, assert_same, sequential
from tests.support.flow_logs import crawl_of_hosts, logs_of
from tests.support.roots import with_insert


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(25)
@given(data=st.data())
def test_pages_crawled_again_are_decided_as_in_one_index(scheme: str, insert: Any, data: st.DataObject) -> None:
    assert_crawl_same(with_insert(SCHEMES[scheme], insert), data, updates=True)


def again(rows: list[Row], generator: np.random.Generator, *, pages: int) -> list[Row]:
    """Rows as versions of few pages on each host; a page's text is now and then another page's."""
    return [row._replace(id=f"page {int(generator.integers(pages))}") for row in rows]


@examples(25)
@given(st.data())
def test_pages_in_templates_are_decided_as_in_one_index_when_they_are_crawled_again(data: st.DataObject) -> None:
    with crawl_of_hosts(data) as (parameters, rows):
        generator = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of ids"))
        rows = again(rows, generator, pages=data.draw(st.sampled_from([3, 20, 80]), label="pages"))
        assert_same(parameters, rows, data, updates=True, segment_entries=data.draw(st.sampled_from([1, 3, 256])))


def decided(parameters: Parameters, rows: list[Row], seed: int = 1) -> list[Answer]:
    """Answers to rows of two partitions, by the flow and by one index alike."""
    generator = np.random.default_rng(seed)
    logs = logs_of(rows, parameters.bits, 2, generator)
    cluster = Cluster(Dataflow(parameters, shards=3, slot_ms=20, updates=True), logs, generator)
    cluster.run()
    expected = sequential(parameters, logs, updates=True)
    assert answers_by_position(cluster.decided, logs) == expected
    return list(expected.values())


def test_a_crawl_meets_every_verdict_and_reason_of_versions() -> None:
    met: set[tuple[int, int]] = set()
    for seed in range(6):
        parameters = with_insert(SCHEMES["minhash"], "root")
        rows = crawled(np.random.default_rng(seed), 400, parameters, digests=True, lengths=True, times=40)
        met |= {(each.verdict, each.reason // 5 * 5) for each in decided(parameters, rows)}
    assert {(Verdict.UPDATE, 0), (Verdict.DUPLICATE, 0), (Verdict.UNIQUE, 0), (Verdict.DUPLICATE, 30)} <= met
    assert {MINOR, OTHER_TEXT, SHARED_ID} <= {reason for _, reason in met}


def in_turn(*rows: Row) -> list[Answer]:
    """Answers to documents of one partition, each in a slot of its own."""
    own = [row._replace(source=Source(STREAM, 0), offset=offset) for offset, row in enumerate(rows)]
    logs = {0: [Batch(10 * row.offset, 0, row.offset, row.offset + 1, entries_of([row])) for row in own]}
    parameters = Parameters(64, 3, "root", root=RootRule(5, 1))
    cluster = Cluster(Dataflow(parameters, slot_ms=10, updates=True), logs, np.random.default_rng(1))
    cluster.run()
    answers = answers_by_position(cluster.decided, logs)
    assert answers == sequential(parameters, logs, updates=True)
    return [answers[0, offset] for offset in range(len(rows))]


def test_a_copy_of_a_page_that_was_replaced_enters_and_what_comes_then_is_its_duplicate() -> None:
    text, other = 0, 2**64 - 1
    first, copy, update, third, fourth, near = in_turn(
        Row(0, text, id="a"),
        Row(0, text, id="copy"),
        Row(0, other, id="a"),
        Row(0, text, id="third"),
        Row(0, text, id="fourth"),
        Row(0, text + 1, id="near"),
    )
    assert (first.verdict, copy.verdict, copy.original_id) == (Verdict.UNIQUE, Verdict.DUPLICATE, "a")
    assert (update.verdict, update.original_id) == (Verdict.UPDATE, "a")
    assert third.verdict == Verdict.UNIQUE
    assert (fourth.verdict, fourth.original_id, fourth.distance) == (Verdict.DUPLICATE, "third", 0)
    assert (near.verdict, near.original_id, near.distance) == (Verdict.DUPLICATE, "third", 1)


def test_a_page_that_was_a_copy_of_a_replaced_one_names_its_own_last_record() -> None:
    first, copy, gone, update = in_turn(
        Row(0, 0, id="a"), Row(0, 0, id="copy"), Row(0, 2**64 - 1, id="a"), Row(0, 0xFFFF, id="copy")
    )
    assert (first.verdict, copy.verdict, gone.verdict) == (Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE)
    assert (update.verdict, update.original_id, update.ratio) == (Verdict.UPDATE, "copy", 0)


def test_a_page_that_returns_to_earlier_texts_too_often_is_a_duplicate() -> None:
    first, *updates, last, new = in_turn(
        *(Row(0, (2**64 - 1) * (turn % 2), id="a") for turn in range(7)), Row(0, 2**32, id="a")
    )
    assert first.verdict == Verdict.UNIQUE
    assert {each.verdict for each in (*updates, new)} == {Verdict.UPDATE}
    assert (last.verdict, last.reason, last.original_id) == (Verdict.DUPLICATE, RETURNED, "a")


def test_a_member_counts_no_more_once_its_root_was_replaced() -> None:
    *_, member, update, near = in_turn(
        Row(0, 0, id="root"), Row(0, 0b11, id="member"), Row(0, 2**64 - 1, id="root"), Row(0, 0b111, id="near")
    )
    assert (member.verdict, update.verdict, near.verdict) == (Verdict.DUPLICATE, Verdict.UPDATE, Verdict.UNIQUE)
