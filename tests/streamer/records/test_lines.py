"""Lines made of columns are those that outgoing records give one by one."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import NO_DISTANCE, NO_NUMBER, Decisions, Position, Source, Verdict
from streamer.records.decode import DeadLetter, Document
from streamer.records.lines import Lines, Written, verdict_lines, written
from streamer.records.reason import Reason, label
from streamer.records.record import Outgoing, Record
from streamer.records.relation import Measure
from streamer.records.route import Router
from tests.support.examples import examples

ORIGINAL = Position(Source("Kz0vPqXsQeOq4wYw2m0C3w", 0), 98_765)
TEXTS = st.text(max_size=6) | st.sampled_from(['a",', '",\n  "', "\u2028", "\x85", '},{"source":', "caf\udce9"])
FILES = st.sampled_from(["documents", "in/pages.jsonl", "caf\udce9.jsonl", 'a"b', "两"])
PAGE = b'{"id":"<urn:1>","url":"https://example.org/","type":"response","text":"a"}'
VALUES = st.sampled_from([None, b"", b"value", PAGE, b'{"text":"","url":"https://example.org/a"}'])


def pairs() -> list[tuple[Verdict, Reason]]:
    possible = []
    for verdict in Verdict:
        for reason in Reason:
            with suppress(KeyError):
                label(verdict, reason)
                possible.append((verdict, reason))
    return possible


OUTCOMES = st.just((Verdict.UNIQUE, Reason.ORDINARY)) | st.sampled_from(pairs())
ORIGINALS = [ORIGINAL, Position(Source("nameless", 0), 3), Position(Source("base:6a7a/last-year:topic", 0), 5), None]
ROWS = st.lists(
    st.tuples(
        OUTCOMES,
        FILES,
        VALUES,
        TEXTS,
        st.none() | TEXTS,
        st.sampled_from([0, 990, 2_000]),
        st.sampled_from(ORIGINALS),
        st.sampled_from([7, NO_DISTANCE]),
    )
)
ROUTERS = st.builds(
    Router,
    st.just("neardup"),
    st.just("0"),
    with_headers=st.just(False),
    shadow=st.booleans(),
    measure=st.sampled_from([Measure(), Measure(by_similarity=True, of_shingles=True)]),
)


def lines_of(router: Router, rows: list[Any]) -> Lines:
    records, documents, columns = [], [], []
    for offset, ((verdict, reason), name, value, id_, detail, ratio, original, distance) in enumerate(rows):
        records.append(Record(Source(f"stream of {name!r}", 0), name, 2 * offset, None, value, 0))
        is_dead = verdict is Verdict.DEAD_LETTER
        documents.append(DeadLetter(reason, id_, detail) if is_dead else Document(id_, "text"))
        is_copy = verdict.names_original
        named = (distance, detail, original) if is_copy else (NO_DISTANCE, None, None)
        columns.append((verdict, reason, ratio, *named))
    verdicts, reasons, ratios, distances, ids, positions = zip(*columns, strict=True) if rows else [()] * 6
    decisions = Decisions(
        verdicts=np.array(verdicts, np.uint8),
        reasons=np.array(reasons, np.uint8),
        distances=np.array(distances, np.int16),
        originals=np.full(len(rows), NO_NUMBER, np.uint64),
        original_ids=list(ids),
        original_positions=list(positions),
        replayed=np.zeros(len(rows), np.bool_),
        candidates=np.zeros(len(rows), np.int64),
        ratios=np.array(ratios, np.uint16),
    )
    return Lines(router, records, documents, decisions, {ORIGINAL.source.stream: "documents"})


@examples(300)
@given(ROUTERS, ROWS)
def test_a_file_takes_of_columns_what_it_takes_of_the_records_one_by_one(router: Router, rows: list[Any]) -> None:
    lines = lines_of(router, rows)
    by_columns, one_by_one = written(lines), written([*lines])
    assert len(lines) == len(rows)
    assert {name: values for name, values in by_columns.values.items() if values} == one_by_one.values
    assert by_columns[1:] == one_by_one[1:]


def test_a_row_is_the_outgoing_record_that_the_router_makes() -> None:
    rows = [((Verdict.UNIQUE, Reason.ORDINARY), "documents", b"value", "a", None, 0, None, 0)]
    lines = lines_of(Router("neardup", "0", with_headers=False), rows)
    (outgoing,) = lines
    assert isinstance(outgoing, Outgoing)
    assert (outgoing.record.value, outgoing.headers) == (b"value", ())
    assert lines[:] == [outgoing]
    assert verdict_lines([outgoing]) == lines.verdict_lines()


@pytest.mark.parametrize(
    "rows", [[], [((Verdict.DUPLICATE, Reason.ORDINARY), "documents", None, "a", "b", 0, ORIGINAL, 7)]]
)
def test_a_batch_without_a_unique_record_has_lines_too(rows: list[Any]) -> None:
    made = written(lines_of(Router("neardup", "0", with_headers=False), rows))
    assert isinstance(made, Written)
    assert made.verdict_lines.count(b"\n") == made.outcomes.total() == len(rows)
