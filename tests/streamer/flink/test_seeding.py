"""A flow that begins with the entries of an index goes on as the index would have."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Longer, Parameters, Source, Verdict
from index.dataflow import Dataflow, Retained
from index.matching.root import RootRule
from index.tools import snapshot
from streamer.flink.seeding import Seed, seeds_of
from tests.support.brute_force_index import RETURNED
from tests.support.crawls import SCHEMES
from tests.support.dataflow import STREAM, Batch, Cluster, Snapshot, answers_by_position, in_order
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.flow_agreement import EVERYTHING, drawn_crawl, new_index
from tests.support.flow_logs import (
    BANDING,
    INSERTS,
    crawl_of_hosts,
    logs_of,
    minhash_rows,
    parse_headers,
    simhash_rows,
    with_forgets,
    with_given_back,
    with_lengths,
)
from tests.support.flow_retention import retained_by
from tests.support.looks import LOOKS, looked_at_rows
from tests.support.roots import root_rules, with_insert

PARTITIONS = 3
EPOCH_MS = 10**6


def later_from(logs: dict[int, list[Batch]], rest: list[Batch]) -> dict[int, list[Batch]]:
    """Logs whose batches of the rest came after a seed was written."""
    are_rest = {id(batch) for batch in rest}
    return {
        partition: [
            batch._replace(time_ms=batch.time_ms + 2 * EPOCH_MS) if id(batch) in are_rest else batch for batch in log
        ]
        for partition, log in logs.items()
    }


def taken_in(
    flow: Dataflow, seeds: list[Seed], partitions: list[int], generator: np.random.Generator, tasks: int
) -> Snapshot:
    """What a job keeps that has read all seeds."""
    logs: dict[int, list[Batch]] = {partition: [] for partition in partitions}
    nothing = entries_of([Row(0, 0)], flow.parameters.bits).take(np.arange(0))
    for seed in seeds:
        logs[seed.partition].append(Batch(seed.time_ms, seed.partition, 0, 0, nothing, seed.content))
    seeding = Cluster(flow, logs, generator, tasks)
    # Stopped as soon as all was read: what is under way goes on later.
    while any(seeding.snapshot.read[partition] < len(log) for partition, log in logs.items()):
        seeding.run(1)
    assert not seeding.decided
    state = seeding.taken()
    state.read.clear()
    return state


def assert_goes_on(
    parameters: Parameters,
    rows: list[Row],
    data: st.DataObject,
    *,
    updates: bool = False,
    retained: Retained | None = None,
    forgets: int = 0,
    given_back: float = 0,
) -> None:
    """The index decides some, loses some, and its entries seed a flow: what that says next is what the index says next."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of events"))
    longer = data.draw(st.sampled_from([None, Longer(1_000)]), label="longer")
    if not any(row.length for row in rows):
        rows = with_lengths(rows, data.draw(st.integers(0, 2**32), label="seed of lengths"))
    retention = EVERYTHING if retained is None else retained.retention
    # Times of a log are later than places in the order of an index.
    logs = {
        partition: [batch._replace(time_ms=batch.time_ms + EPOCH_MS) for batch in log]
        for partition, log in logs_of(rows, parameters.bits, PARTITIONS, generator).items()
    }
    logs = with_forgets(logs, generator, forgets)
    if given_back:
        with new_index(parameters, longer, updates=updates, retention=retention) as index:
            logs = with_given_back(index, logs, generator, given_back)
    ordered = in_order(logs)
    cut = data.draw(st.integers(0, len(ordered)), label="batches before")
    logs = later_from(logs, ordered[cut:])
    ordered, until_ms = in_order(logs), dict.fromkeys(logs, 2 * EPOCH_MS)
    shards, slot_ms = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 50]))
    flow = Dataflow(parameters, shards=shards, slot_ms=slot_ms, longer=longer, updates=updates, retained=retained)
    with new_index(parameters, longer, updates=updates, retention=retention) as index:
        parse_headers(index, ordered[:cut])
        known = [id_ for batch in ordered[:cut] for id_ in batch.entries.ids]
        index.forget([id_ for id_ in known if generator.random() < 0.1], lambda _: None)
        seeds = snapshot(index, lambda taken: list(seeds_of(taken, PARTITIONS, flow, until_ms)))
        expected = parse_headers(index, ordered[cut:])
    tasks = data.draw(st.integers(1, 3), label="parallelism")
    state = taken_in(flow, seeds, list(logs), generator, tasks)
    cluster = Cluster(flow, logs, generator, data.draw(st.integers(1, 3), label="new parallelism"), state)
    cluster.run()
    assert answers_by_position(cluster.decided, logs) == expected


@pytest.mark.parametrize("insert", INSERTS)
@examples(12)
@given(st.data())
def test_by_simhash(insert: Any, data: st.DataObject) -> None:
    distance_max = data.draw(st.integers(0, 7))
    rows = simhash_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 120)), 64)
    assert_goes_on(Parameters(64, distance_max, insert, root=root_rules(insert, distance_max, data)), rows, data)


@pytest.mark.parametrize("insert", INSERTS)
@examples(12)
@given(st.data())
def test_by_minhash(insert: Any, data: st.DataObject) -> None:
    distance_max = data.draw(st.integers(1500, 4500))
    rows = minhash_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 100)))
    root = RootRule(distance_max + data.draw(st.integers(0, 1500)), distance_max // 3) if insert == "root" else None
    assert_goes_on(Parameters(BANDING.bits, distance_max, insert, banding=BANDING, root=root), rows, data)


@pytest.mark.parametrize("kind", sorted(LOOKS))
@examples(8)
@given(st.data())
def test_with_a_second_look(kind: str, data: st.DataObject) -> None:
    look, insert = LOOKS[kind], data.draw(st.sampled_from(INSERTS))
    distance_max = look.reach if hasattr(look, "reach") else data.draw(st.integers(0, 7))
    rows = looked_at_rows(data.draw(st.integers(0, 2**32)), data.draw(st.integers(1, 100)), look)
    parameters = Parameters(64, distance_max, insert, look=look, root=root_rules(insert, distance_max, data))
    assert_goes_on(parameters, rows, data)


@examples(20)
@given(st.data())
def test_pages_of_hosts_keep_their_frames_and_hosts_their_samples(data: st.DataObject) -> None:
    with crawl_of_hosts(data) as (parameters, rows):
        assert_goes_on(parameters, rows, data)


@pytest.mark.parametrize("insert", INSERTS)
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(15)
@given(st.data())
def test_pages_keep_their_versions(scheme: str, insert: Any, data: st.DataObject) -> None:
    parameters = with_insert(SCHEMES[scheme], insert)
    assert_goes_on(parameters, drawn_crawl(parameters, data, 120), data, updates=True)


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(15)
@given(st.data())
def test_entries_keep_their_ages(scheme: str, updates: bool, data: st.DataObject) -> None:
    parameters = with_insert(SCHEMES[scheme], data.draw(st.sampled_from(INSERTS)))
    assert_goes_on(parameters, drawn_crawl(parameters, data, 120), data, updates=updates, retained=retained_by(data))


@pytest.mark.parametrize("scheme", SCHEMES)
@examples(15)
@given(st.data())
def test_what_was_forgotten_or_given_back_stays_so(scheme: str, data: st.DataObject) -> None:
    parameters = with_insert(SCHEMES[scheme], data.draw(st.sampled_from(INSERTS)))
    retained = retained_by(data) if data.draw(st.booleans(), label="retention") else None
    assert_goes_on(
        parameters, drawn_crawl(parameters, data, 120), data, updates=True, retained=retained, forgets=3, given_back=0.1
    )


def test_a_page_that_returns_to_earlier_texts_too_often_has_its_count_from_the_index() -> None:
    rows = [Row(turn, (2**64 - 1) * (turn % 2), Source(STREAM, 0), id="a") for turn in range(7)]
    batches = [Batch(EPOCH_MS + row.offset, 0, row.offset, row.offset + 1, entries_of([row])) for row in rows]
    flow, generator = Dataflow(Parameters(64, 3), shards=2, slot_ms=1, updates=True), np.random.default_rng(1)
    with new_index(flow.parameters, updates=True) as index:
        parse_headers(index, batches[:6])
        seeds = snapshot(index, lambda taken: list(seeds_of(taken, 1, flow, {})))
        expected = parse_headers(index, batches[6:])
    cluster = Cluster(flow, {0: batches}, generator, since=taken_in(flow, seeds, [0], generator, tasks=1))
    cluster.run()
    found = answers_by_position(cluster.decided, {0: batches})
    assert found == expected
    assert (found[0, 6].verdict, found[0, 6].reason) == (Verdict.DUPLICATE, RETURNED)
