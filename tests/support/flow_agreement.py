"""Whether a flow says of every document what one index says that is fed in the order of the log."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from index.dataflow import Dataflow, Retained
from index.entry import Source
from index.index import Index
from index.matching.root import RootRule
from index.session import Longer, Retention
from index.storage.parameters import Parameters
from tests.support.crawls import UPDATES, crawled
from tests.support.dataflow import EQUAL_REASONS, STREAM, Answer, Batch, Cluster, answers_by_position, in_order
from tests.support.entries import Row, entries_of
from tests.support.flow_logs import logs_of, parse_headers, with_forgets, with_given_back, with_lengths

EVERYTHING = Retention()
ROOTED = Parameters(64, 3, "root", root=RootRule(5, 1))


def sequential(
    parameters: Parameters,
    logs: dict[int, list[Batch]],
    longer: Longer | None = None,
    *,
    updates: bool = False,
    retention: Retention = EVERYTHING,
) -> dict[tuple[int, int], Answer]:
    """What one index says that is fed batch after batch, in order."""
    with new_index(parameters, longer, updates=updates, retention=retention) as index:
        return parse_headers(index, in_order(logs))


@contextmanager
def new_index(
    parameters: Parameters, longer: Longer | None = None, *, updates: bool = False, retention: Retention = EVERYTHING
) -> Iterator[Index]:
    """An empty index that a flow equals."""
    options: dict[str, Any] = {"recrawl": UPDATES, "equal_reasons": EQUAL_REASONS} if updates else {}
    options |= {"retention": retention}
    with (
        tempfile.TemporaryDirectory() as directory,
        Index.open(Path(directory), parameters, map_bytes_max=2**30, longer=longer, **options) as index,
    ):
        yield index


def with_repeats(logs: dict[int, list[Batch]], generator: np.random.Generator) -> dict[int, list[Batch]]:
    """Now and then a batch comes once more, also together with the ones behind it, as one batch and part of another."""
    again: dict[int, list[Batch]] = {}
    for partition, log in logs.items():
        again[partition] = []
        for place, batch in enumerate(log):
            earlier = log[int(generator.integers(place))] if place else batch
            # A command that comes again forgets what came in between, and gives back anew.
            if generator.random() < 0.2 and place and not (earlier.forgets or earlier.given_back):
                again[partition].append(earlier._replace(time_ms=batch.time_ms))
            again[partition].append(batch)
    return again


def assert_same(
    parameters: Parameters,
    rows: list[Row],
    data: st.DataObject,
    *,
    updates: bool = False,
    forgets: int = 0,
    given_back: float = 0,
    **flow: Any,
) -> None:
    """Cluster and index agree, whatever is drawn: lengths, partitions, times, all events' order, repeats, crashes, a rescale."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of events"))
    longer = data.draw(
        st.sampled_from([None, Longer(1_000), Longer(3_000), Longer(1_000, 1_500), Longer(0, 1_000)]), label="longer"
    )
    if not any(row.length for row in rows):
        rows = with_lengths(rows, data.draw(st.integers(0, 2**32), label="seed of lengths"))
    logs = logs_of(rows, parameters.bits, data.draw(st.integers(1, 4), label="partitions"), generator)
    logs = with_forgets(logs, generator, forgets)
    retained: Retained | None = flow.get("retained")
    retention = EVERYTHING if retained is None else retained.retention
    if given_back:
        with new_index(parameters, longer, updates=updates, retention=retention) as index:
            logs = with_given_back(index, logs, generator, given_back)
    dataflow = Dataflow(
        parameters,
        shards=data.draw(st.integers(1, 5)),
        slot_ms=data.draw(st.sampled_from([1, 10, 100])),
        longer=longer,
        updates=updates,
        **flow,
    )
    logs = with_repeats(logs, generator)
    expected = sequential(parameters, logs, longer, updates=updates, retention=retention)
    told = []
    reads = data.draw(st.sampled_from([0.2, 0.01]), label="reads")
    cluster = Cluster(dataflow, logs, generator, data.draw(st.integers(1, 3), label="parallelism"), reads=reads)
    for _ in range(data.draw(st.integers(0, 3), label="crashes")):
        if cluster.run(int(generator.integers(1, 300))):
            break
        snapshot = cluster.taken()
        # What is done after the snapshot is lost, but not what was told.
        cluster.run(int(generator.integers(0, 100)))
        told += cluster.decided
        tasks = data.draw(st.integers(1, 4), label="new parallelism")
        cluster = Cluster(dataflow, logs, generator, tasks, snapshot, reads=reads)
    cluster.run()
    told += cluster.decided
    assert answers_by_position(told, logs) == expected


def drawn_crawl(parameters: Parameters, data: st.DataObject, count_max: int) -> list[Row]:
    """A crawl of any kind."""
    return crawled(
        np.random.default_rng(data.draw(st.integers(0, 2**32))),
        data.draw(st.integers(1, count_max)),
        parameters,
        digests=data.draw(st.booleans()),
        times=data.draw(st.sampled_from([3, 6, 30])),
        lengths=data.draw(st.booleans()),
    )


def assert_crawl_same(parameters: Parameters, data: st.DataObject, *, scoped: bool = False, **sizes: Any) -> None:
    """`assert_same` of a drawn crawl, whatever the sizes of chunks."""
    rows = drawn_crawl(parameters, data, 150)
    if scoped:
        rows = [row._replace(id=row.id.replace(" ", f" in {row.offset % 3}/", 1)) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("index.dataflow.resolve.ROWS_AT_ONCE", data.draw(st.sampled_from([1, 7, 4_096])))
        few = data.draw(st.sampled_from([1, 3, 256]), label="entries of a chunk or segment")
        assert_same(parameters, rows, data, chunk_entries=few, segment_entries=few, **sizes)


def in_turn(*given: Row | tuple[Row, ...] | str, time_ms: int = 10) -> list[Answer]:
    """Answers to documents of one partition, each in a batch of its own: a tuple is given back, a text forgotten."""
    log = list[Batch]()
    for place, each in enumerate(given):
        own = {Row: (each,), tuple: each}.get(type(each), (Row(0, 0),))
        rows = [row._replace(source=Source(STREAM, 0), offset=row.offset or place) for row in own]  # type: ignore[union-attr]
        batch, end = entries_of(rows), log[-1].end if log else 0
        if isinstance(each, Row):
            log.append(Batch(time_ms * place, 0, place, place + 1, batch))
        elif isinstance(each, tuple):
            log.append(Batch(time_ms * place, 0, end, end, batch, given_back=True))
        else:
            log.append(Batch(time_ms * place, 0, end, end, batch.take(np.arange(0)), forgets=(each,)))
    cluster = Cluster(Dataflow(ROOTED, slot_ms=10, updates=True), {0: log}, np.random.default_rng(1))
    cluster.run()
    answers = answers_by_position(cluster.decided, {0: log})
    assert answers == sequential(ROOTED, {0: log}, updates=True)
    return [answers[0, place] for place, each in enumerate(given) if isinstance(each, Row)]
