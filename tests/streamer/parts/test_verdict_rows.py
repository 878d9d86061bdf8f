"""Verdicts come from whichever batch has them first, in the order of the records."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Kind, Position, Source, Verdict
from streamer.errors import RecordsUnreadable, VerdictsMissing
from streamer.parts.envelope import Heading
from streamer.parts.verdict_batch import VerdictBatch
from streamer.parts.verdict_rows import verdicts_on
from streamer.records.decode import DeadLetter
from streamer.records.record import Record

SOURCES = (Source("one", 0), Source("one", 1), Source("two", 0))


def batch_of(source: Source, offsets: list[int], number: int = 0) -> VerdictBatch:
    count = len(offsets)
    names = [f"{source.stream}-{source.partition}-{offset}" for offset in offsets]
    return VerdictBatch(
        heading=Heading("{}", source.stream, "pages", source.partition, 0, 1_000),
        decider="index",
        offsets=np.array(offsets, np.uint64),
        verdicts=np.full(count, Verdict.DUPLICATE, np.uint8),
        reasons=np.zeros(count, np.uint8),
        distances=np.array(offsets, np.int16),
        ratios=np.array(offsets, np.uint16) + np.uint16(number),
        replayed=np.zeros(count, np.bool_),
        kinds=np.full(count, Kind.NEAR, np.uint8),
        fingerprints=np.array(offsets, np.uint64)[:, None],
        ids=names,
        details=[None] * count,
        original_ids=[f"original of {name}" for name in names],
        original_positions=[Position(source, offset + 1) for offset in offsets],
        names={source.stream: f"topic {source.stream}"},
    )


def record_at(source: Source, offset: int) -> Record:
    return Record(source, "pages", offset, None, b"{}", 0)


@given(st.data())
def test_each_record_has_the_first_verdict_on_its_position(data: st.DataObject) -> None:
    batches: dict[Source, list[VerdictBatch]] = {}
    first: dict[tuple[Source, int], int] = {}
    for source in SOURCES:
        for number in range(data.draw(st.integers(0, 3))):
            offsets = sorted(data.draw(st.sets(st.integers(0, 9), max_size=6)))
            batches.setdefault(source, []).append(batch_of(source, offsets, number))
            for offset in offsets:
                first.setdefault((source, offset), number)
    wanted = data.draw(st.lists(st.sampled_from(sorted(first)), min_size=1, unique=True)) if first else []
    if not wanted:
        return
    rows = verdicts_on([record_at(*at) for at in wanted], batches)
    for row, (source, offset) in enumerate(wanted):
        assert rows.decisions.distances[row] == offset
        assert rows.decisions.ratios[row] == offset + first[source, offset]
        assert rows.fingerprints[row].tolist() == [offset]
        assert rows.documents[row].id == f"{source.stream}-{source.partition}-{offset}"
        assert rows.decisions.original_ids[row] == f"original of {rows.documents[row].id}"
        assert rows.decisions.original_positions[row] == Position(source, offset + 1)
        assert rows.names[source.stream] == f"topic {source.stream}"


def test_a_record_without_a_verdict_is_named() -> None:
    batches = {SOURCES[0]: [batch_of(SOURCES[0], [3, 5])]}
    with pytest.raises(VerdictsMissing, match="pages/0/4"):
        verdicts_on([record_at(SOURCES[0], offset) for offset in (3, 4, 5)], batches)
    with pytest.raises(VerdictsMissing, match="pages/0/4"):
        verdicts_on([record_at(SOURCES[0], 4)], {})


def test_a_dead_letter_keeps_its_detail_and_a_verdict_of_another_version_is_refused() -> None:
    batch = batch_of(SOURCES[0], [3])
    dead = replace(
        batch,
        verdicts=np.array([Verdict.DEAD_LETTER], np.uint8),
        reasons=np.array([19], np.uint8),
        kinds=np.array([Kind.DEAD_LETTER], np.uint8),
        details=["no JSON"],
    )
    (document,) = verdicts_on([record_at(SOURCES[0], 3)], {SOURCES[0]: [dead]}).documents
    assert isinstance(document, DeadLetter)
    assert document.detail == "no JSON"
    unknown = replace(batch, reasons=np.array([250], np.uint8))
    with pytest.raises(RecordsUnreadable, match=r"pages/0/3: its verdict has the number 1 and the reason 250"):
        verdicts_on([record_at(SOURCES[0], 3)], {SOURCES[0]: [unknown]})
