"""A flow that begins with the entries of an index goes on as the index would have."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Index, Longer, Parameters
from index.dataflow import Dataflow
from index.matching.root import RootRule
from index.tools import snapshot
from streamer.flink.seeding import seeds_of
from tests.support.dataflow import Batch, Cluster, answers_by_position, in_order
from tests.support.entries import Row, entries_of
from tests.support.examples import examples
from tests.support.flow_logs import (
    BANDING,
    INSERTS,
    crawl_of_hosts,
    logs_of,
    minhash_rows,
    parse_headers,
    simhash_rows,
    with_lengths,
)
from tests.support.looks import LOOKS, looked_at_rows
from tests.support.roots import root_rules

PARTITIONS = 3
EPOCH_MS = 10**6


def assert_goes_on(parameters: Parameters, rows: list[Row], data: st.DataObject) -> None:
    """The index decides some, loses some, and its entries seed a flow: what that says next is what the index says next."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of events"))
    longer = data.draw(st.sampled_from([None, Longer(1_000)]), label="longer")
    rows = with_lengths(rows, data.draw(st.integers(0, 2**32), label="seed of lengths"))
    # Times of a log are later than places in the order of an index.
    logs = {
        partition: [batch._replace(time_ms=batch.time_ms + EPOCH_MS) for batch in log]
        for partition, log in logs_of(rows, parameters.bits, PARTITIONS, generator).items()
    }
    ordered = in_order(logs)
    cut = data.draw(st.integers(0, len(ordered)), label="batches before")
    shards, slot_ms = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 50]))
    flow = Dataflow(parameters, shards=shards, slot_ms=slot_ms, longer=longer)
    with (
        tempfile.TemporaryDirectory() as directory,
        Index.open(Path(directory), parameters, map_bytes_max=2**30, longer=longer) as index,
    ):
        parse_headers(index, ordered[:cut])
        known = [id_ for batch in ordered[:cut] for id_ in batch.entries.ids]
        index.forget([id_ for id_ in known if generator.random() < 0.1], lambda _: None)
        seeds = snapshot(index, lambda taken: list(seeds_of(taken, PARTITIONS)))
        expected = parse_headers(index, ordered[cut:])
    seed_logs: dict[int, list[Batch]] = {partition: [] for partition in logs}
    nothing = entries_of([Row(0, 0)], parameters.bits).take(np.arange(0))
    for seed in seeds:
        seed_logs[seed.partition].append(Batch(seed.time_ms, seed.partition, 0, 0, nothing, seed.content))
    seeding = Cluster(flow, seed_logs, generator, data.draw(st.integers(1, 3), label="parallelism"))
    # Stopped as soon as all was read: what is under way goes on later.
    while any(seeding.snapshot.read[partition] < len(log) for partition, log in seed_logs.items()):
        seeding.run(1)
    assert not seeding.decided
    state = seeding.taken()
    state.read.clear()
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
