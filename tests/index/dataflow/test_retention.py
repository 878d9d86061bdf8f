"""Retention: entries that expire leave the flow as they leave one index, and its state with them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import Dataflow, Floor, Retained
from index.dataflow.ages import NOWHERE, Place
from index.dataflow.resolving.retention import RetentionState
from index.dataflow.rows import PARTITION_BITS
from index.entry import Kind, Source
from index.session import Retention
from index.storage.parameters import Parameters
from tests.support.crawls import SCHEMES
from tests.support.dataflow import STREAM, Answer, Batch, Cluster, KeyState, answers_by_position
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.flow_agreement import assert_crawl_same, assert_same, sequential
from tests.support.flow_logs import crawl_of_hosts
from tests.support.flow_retention import retained_by
from tests.support.roots import with_insert
from tests.support.tiers import first_of


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(25)
@given(data=st.data())
def test_what_has_expired_is_followed_by_its_next_copy_as_in_one_index(
    scheme: str, insert: Any, updates: bool, data: st.DataObject
) -> None:
    assert_crawl_same(with_insert(SCHEMES[scheme], insert), data, updates=updates, retained=retained_by(data))


@examples(15)
@given(st.data())
def test_pages_in_templates_expire_as_in_one_index(data: st.DataObject) -> None:
    with crawl_of_hosts(data) as (parameters, rows):
        generator = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of ids"))
        rows = [
            row._replace(id=f"page {int(generator.integers(20))}", time_ms=1_000 + 10 * place)
            for place, row in enumerate(rows)
        ]
        assert_same(parameters, rows, data, updates=True, retained=retained_by(data))


def in_turn(flow: Dataflow, rows: list[Row]) -> tuple[list[Answer], Cluster]:
    """Answers to documents of one partition, each a batch of its own, 10 ms after the one before."""
    own = [row._replace(source=Source(STREAM, 0), offset=offset) for offset, row in enumerate(rows)]
    logs = {0: [Batch(10 * row.offset, 0, row.offset, row.offset + 1, entries_of([row])) for row in own]}
    cluster = Cluster(flow, logs, np.random.default_rng(1), reads=0.0)
    retention = Retention() if flow.retained is None else flow.retained.retention
    expected = sequential(flow.parameters, logs, updates=flow.updates, retention=retention)
    cluster.run()
    answers = answers_by_position(cluster.decided, logs)
    assert answers == expected
    return [answers[0, offset] for offset in range(len(rows))], cluster


def test_a_copy_enters_once_the_newest_entries_are_others_and_what_comes_then_is_its_duplicate() -> None:
    flow = Dataflow(Parameters(64, 0), slot_ms=10, retained=Retained(Retention(2), 1_000))
    found, _ = in_turn(flow, [Row(0, text, id=str(at)) for at, text in enumerate([7, 7, 8, 9, 7, 7])])
    assert [each.verdict for each in found] == [0, 1, 0, 0, 0, 1]
    assert found[-1].original_id == "4"


def test_a_short_text_that_never_comes_again_leaves_the_state() -> None:
    flow = Dataflow(Parameters(64, 0), slot_ms=10, retained=Retained(Retention(5), 100), updates=True)
    sizes = [
        size_of(in_turn(flow, [Row(0, at, kind=Kind.EXACT, id=f"{at}") for at in range(count)])[1])
        for count in (100, 300)
    ]
    assert sizes[1] < 1.1 * sizes[0]


def test_a_floor_of_another_job_is_not_taken() -> None:
    flow = Dataflow(Parameters(64, 0), shards=1, slot_ms=10, retained=Retained(Retention(100), 10))
    rows = [Row(0, at % 3, id=str(at)) for at in range(30)]
    own = [row._replace(source=Source(STREAM, 0), offset=offset) for offset, row in enumerate(rows)]
    logs = {0: [Batch(10 * row.offset, 0, row.offset, row.offset + 1, entries_of([row])) for row in own]}
    expected = sequential(flow.parameters, logs, retention=Retention(100))
    logs[0].insert(
        10, logs[0][9]._replace(begin=10, entries=logs[0][9].entries.take(np.arange(0)), floor=Floor(9, 0, 12345))
    )
    cluster = Cluster(flow, logs, np.random.default_rng(1))
    cluster.run()
    assert answers_by_position(cluster.decided, logs) == expected


def text_of(generator: np.random.Generator, parameters: Parameters) -> int:
    return int.from_bytes(generator.bytes(parameters.bits // 8), "little")


def size_of(cluster: Cluster) -> int:
    """Bytes of all operators' state."""
    states = cluster.snapshot.states.values()
    return sum(len(name) + len(content) for state in states for name, content in state.items())


def flowing(generator: np.random.Generator, parameters: Parameters, begin: int, texts: list[int]) -> Batch:
    """50 documents in half a second: a fifth are copies of recent texts, and an eighth pages that came before."""
    rows = []
    for offset in range(begin, begin + 50):
        is_copy = texts and generator.random() < 0.2
        text = texts[int(generator.integers(len(texts)))] if is_copy else text_of(generator, parameters)
        texts[:] = [*texts[-799:], text]
        page = offset - int(generator.integers(1_000)) if generator.random() < 0.125 else offset
        rows.append(Row(offset, text, Source(STREAM, 0), time_ms=1_000 + 10 * offset, id=f"page {page}"))
    return Batch(10 * (begin + 50), 0, begin, begin + 50, entries_of(rows, parameters.bits))


@pytest.mark.parametrize("retention", first_of(Retention(1_000), Retention(None, 10_000)))
def test_the_state_stays_as_it_is_while_documents_flow(retention: Retention) -> None:
    parameters, generator = with_insert(SCHEMES["minhash"], "root"), np.random.default_rng(5)
    flow = Dataflow(parameters, shards=4, slot_ms=100, retained=Retained(retention, 2_000), updates=True)
    sizes, cluster, texts = list[int](), Cluster(flow, {0: []}, generator, reads=0.0), list[int]()
    for begin in range(0, 20_000, 2_000):
        cluster.logs[0] += [flowing(generator, parameters, at, texts) for at in range(begin, begin + 2_000, 50)]
        cluster = Cluster(flow, cluster.logs, generator, since=cluster.taken(), reads=0.0)
        cluster.run()
        sizes.append(size_of(cluster))
    # From 4,000 documents on, 1,000 of which count. Up to half of a segment has expired.
    assert max(sizes[6:]) < 1.2 * max(sizes[2:6]) < 1.8 * min(sizes[2:6])


def test_what_is_given_back_before_any_document_of_its_partition_holds_back_no_epoch() -> None:
    """As in a job that was told that its log is incomplete."""
    state, task, row = RetentionState(Retained(Retention(None, 100), 10)), KeyState({}), np.ones(1, np.bool_)
    state.before(task, Place(5 << PARTITION_BITS, NOWHERE, NOWHERE, 1, row))
    assert state.floor(task) is None
    state.before(task, Place(100 << PARTITION_BITS, (10 << PARTITION_BITS, 0), (60 << PARTITION_BITS, 0), 1, row))
    assert state.floor(task) == Floor(6, 0, 1)


def test_a_first_batch_of_the_earliest_time_holds_back_its_epoch() -> None:
    state, task, row = RetentionState(Retained(Retention(None, 1), 5)), KeyState({}), np.ones(1, np.bool_)
    state.before(task, Place(0, (0, 0), (0, 0), 1, row))
    state.before(task, Place(72 << PARTITION_BITS | 1, (72 << PARTITION_BITS, 0), (72 << PARTITION_BITS, 0), 1, row))
    assert state.floor(task) is None
