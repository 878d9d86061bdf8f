import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.decide import prepare
from index.entry import Entries, Kind
from index.lsm.compaction import TreeSizes
from index.matching.minhash import Banding
from index.matching.root import RootRule
from index.matching.second_look import CosineLook
from index.session import Recrawl, Retention
from index.storage.parameters import Parameters
from tests.support.answers import answers_of
from tests.support.brute_force_index import RECRAWLED, BruteForceIndex
from tests.support.brute_force_signatures import BruteForceSignatures, as_number, clustered_bins
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.indexes import opened, wrong
from tests.support.looks import brute_force_look

SIZES = TreeSizes(8, 64)
UPDATES, BESIDE = Recrawl("update"), Recrawl("as-new", {reason: reason + RECRAWLED for reason in range(5)})
COSINE = CosineLook(2, 0.9)
EAST, NORTH = b"\x40\x00", b"\x00\x40"
SCHEMES: dict[str, Parameters] = {
    "simhash": Parameters(64, 3),
    "simhash with a look": Parameters(64, 3, look=COSINE),
    "minhash": Parameters(512, 4_000, banding=Banding(64, 8, 12, 5)),
}


def with_insert(parameters: Parameters, insert: str) -> Parameters:
    root = RootRule(2 * parameters.distance_max, parameters.distance_max // 3) if insert == "root" else None
    fields = {name: getattr(parameters, name) for name in parameters.__slots__}
    return Parameters(**{**fields, "insert": insert, "root": root})


def oracle_of(parameters: Parameters, retention: Retention, recrawl: Recrawl) -> BruteForceIndex:
    look = None if parameters.look is None else brute_force_look(parameters.look)
    options: dict[str, Any] = {"second_look": look, "root": parameters.root, "recrawl": recrawl.policy}
    limits = parameters.distance_max, parameters.insert, retention.entries_max, retention.age_max_ms
    if parameters.banding is None:
        return BruteForceIndex(*limits, **options)
    return BruteForceSignatures(*limits, **options, banding=parameters.banding)


def crawled(generator: np.random.Generator, count: int, parameters: Parameters) -> list[Row]:
    """Few pages, crawled again and again: unchanged, changed a little or wholly, back as they were, or as a copy of another."""
    if parameters.banding is None:
        texts = clustered_fingerprints(generator, count, parameters.bits, centres=max(2, count // 8))
    else:
        bins = clustered_bins(generator, count, parameters.banding, centres=max(2, count // 8))
        texts = [as_number(row, parameters.banding.bin_bits) for row in bins]
    rows = []
    for offset, text in enumerate(texts):
        if offset and generator.random() < 0.5:
            text = texts[offset] = texts[int(generator.integers(offset))]
        kind = Kind(int(generator.choice(4, p=[0.8, 0.14, 0.03, 0.03])))
        number = int(generator.integers(max(2, count // 6)))
        look = b"" if parameters.look is None else (EAST, NORTH)[int(generator.random() < 0.3)]
        if parameters.look is not None and kind is not Kind.NEAR:
            look = bytes(2)
        rows.append(
            Row(
                offset,
                offset % 5 if kind is Kind.EXACT else text,
                (ONE, TWO)[int(generator.integers(2))],
                kind,
                offset % 5,
                1_000 + 10 * offset,
                f"page {number}" if generator.random() < 0.95 else f"at {offset}",
                look,
            )
        )
    return rows


def entries(rows: list[Row], parameters: Parameters) -> Entries:
    """Rows whose ids are their positions did not bring them along."""
    columns = entries_of(rows, parameters.bits)
    fields = {name: getattr(columns, name) for name in columns.__slots__}
    return Entries(**{**fields, "named": np.array([not row.id.startswith("at") for row in rows])})


@pytest.mark.parametrize("recrawl", [UPDATES, BESIDE], ids=["update", "as-new"])
@pytest.mark.parametrize("insert", ["unique", "root", "all"])
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_pages_crawled_again_are_decided_as_brute_force_does_however_the_rows_are_batched(
    scheme: str, insert: str, recrawl: Recrawl, data: st.DataObject
) -> None:
    """Whatever expires, is forgotten, compacted, or replaced within the batch."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parameters = with_insert(SCHEMES[scheme], insert)
    retention = Retention(data.draw(st.sampled_from([None, 8, 40])), data.draw(st.sampled_from([None, 500])))
    oracle = oracle_of(parameters, retention, recrawl)
    rows = crawled(generator, data.draw(st.integers(1, 150)), parameters)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "ROWS_AT_ONCE", data.draw(st.sampled_from([7, 2_048])))
        begin, options = 0, {"sizes": SIZES, "retention": retention, "recrawl": recrawl}
        while begin < len(rows):
            with opened(Path(name), parameters, **options) as index:
                for _ in range(int(generator.integers(1, 5))):
                    part = rows[begin : begin + int(generator.integers(1, 50))]
                    if not part:
                        break
                    expected = oracle.admit(entries(part, parameters), ends_of(part))
                    assert answers_of(index.admit(entries(part, parameters), ends_of(part))) == expected
                    if retention == Retention():
                        again = index.admit(entries(part, parameters), ends_of(part))
                        assert (answers_of(again), again.replayed.all()) == (expected, True)
                    begin += len(part)
                    if generator.random() < 0.2:
                        ids = {rows[int(generator.integers(begin))].id for _ in range(2)}
                        assert [document.id for document in index.forget(ids)] == oracle.forget(ids)
        assert wrong(Path(name)) == {}
