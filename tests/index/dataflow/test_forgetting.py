"""Forgotten documents: the flow says what one index says that forgets between two batches. `test_giving_back` draws crawls."""

from dataclasses import replace

import numpy as np
import pytest

from index.dataflow import Dataflow
from index.entry import Source, Verdict
from tests.support.crawls import SCHEMES, crawled
from tests.support.dataflow import STREAM, Batch, Cluster, answers_by_position
from tests.support.entries import Row, entries_of
from tests.support.flow_agreement import ROOTED, in_turn, sequential
from tests.support.flow_logs import logs_of, with_forgets
from tests.support.roots import with_insert


@pytest.mark.parametrize("time_ms", [0, 10])
def test_a_copy_of_a_forgotten_document_is_unique_and_a_document_with_its_id_after_that_counts(time_ms: int) -> None:
    """Also if the log took all at the same time: the place in the log decides."""
    answers = in_turn(
        Row(0, 0, id="a"),
        "a",
        Row(0, 0, id="copy"),
        Row(0, 2**64 - 1, id="a"),
        Row(0, 2**64 - 1, id="other"),
        time_ms=time_ms,
    )
    assert [each.verdict for each in answers] == [0, 0, 0, 1]
    assert answers[3].original_id == "a"


def test_a_document_within_the_distance_of_a_forgotten_root_alone_is_unique() -> None:
    *_, member, near = in_turn(Row(0, 0, id="root"), Row(0, 0b11, id="member"), "root", Row(0, 0b111, id="near"))
    assert (member.verdict, near.verdict) == (Verdict.DUPLICATE, Verdict.UNIQUE)


def test_a_scope_is_forgotten_by_the_beginning_of_its_ids() -> None:
    east, *_, copy, same = in_turn(
        Row(0, 0, id="east/a"),
        Row(0, 2**64 - 1, id="west/a"),
        "east/",
        Row(0, 0, id="copy"),
        Row(0, 2**64 - 1, id="east/b"),
    )
    assert (east.verdict, copy.verdict) == (Verdict.UNIQUE, Verdict.UNIQUE)
    assert (same.verdict, same.original_id) == (Verdict.DUPLICATE, "west/a")


@pytest.mark.parametrize("is_named", [False, True])
def test_a_document_that_its_position_names_has_no_scope(is_named: bool) -> None:
    source = Source(STREAM, 0)
    first = replace(entries_of([Row(0, 0, source, id="east/0/0")]), named=np.array([is_named]))
    copy = entries_of([Row(1, 0, source, id="copy")])
    log = [
        Batch(0, 0, 0, 1, first),
        Batch(10, 0, 1, 1, first.take(np.arange(0)), forgets=("east/",)),
        Batch(20, 0, 1, 2, copy),
    ]
    cluster = Cluster(Dataflow(ROOTED, slot_ms=10, updates=True), {0: log}, np.random.default_rng(1))
    cluster.run()
    answers = answers_by_position(cluster.decided, {0: log})
    assert answers[0, 1].verdict == (Verdict.UNIQUE if is_named else Verdict.DUPLICATE)


def test_a_dropped_document_passes_once_its_original_is_forgotten_and_it_is_sent_again() -> None:
    """The way out that docs/flink.md names in place of giving back."""
    *_, dropped, again, copy = in_turn(
        Row(0, 0, id="a"), Row(0, 0, id="dropped"), "a", Row(0, 0, id="dropped"), Row(0, 0, id="copy")
    )
    assert (dropped.verdict, again.verdict) == (Verdict.DUPLICATE, Verdict.UNIQUE)
    assert (copy.verdict, copy.original_id) == (Verdict.DUPLICATE, "dropped")


def test_an_id_that_is_a_scope_of_others_is_forgotten_alone() -> None:
    first, second, _, copy = in_turn(
        Row(0, 0, id="east"), Row(0, 2**64 - 1, id="east/a"), "east", Row(0, 0, id="b"), Row(0, 2**64 - 1, id="c")
    )
    assert {first.verdict, second.verdict} == {Verdict.UNIQUE}
    assert (copy.verdict, copy.original_id) == (Verdict.DUPLICATE, "east/a")


def test_who_forgets_nothing_says_something_else() -> None:
    """A negative control: without it the test of drawn crawls could not fail."""
    parameters, generator = with_insert(SCHEMES["minhash"], "root"), np.random.default_rng(3)
    rows = crawled(generator, 300, parameters, digests=True, times=6)
    logs = with_forgets(logs_of(rows, parameters.bits, 2, generator), generator, 5)
    deaf = {partition: [each._replace(forgets=()) for each in log] for partition, log in logs.items()}
    cluster = Cluster(Dataflow(parameters, slot_ms=10, updates=True), deaf, generator)
    cluster.run()
    expected, found = sequential(parameters, logs, updates=True), answers_by_position(cluster.decided, deaf)
    assert sum(found[position] != answer for position, answer in expected.items()) > 20
