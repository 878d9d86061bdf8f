from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from index.entry import Position, Verdict
from index.index import Index, internals_of
from index.matching.minhash import pack_bins
from index.storage.layout import Table, unpack_family
from index.tools.verify import verify_tables
from tests.support.entries import ONE
from tests.support.indexes import SMALL, opened
from tests.support.template_sites import PARAMETERS, batch_of, site, told

SIGNATURES = pack_bins(site(np.random.default_rng(7), 200, 2, 1.0), 8)
SEEN = 120


def test_a_restored_index_keeps_the_pages_of_a_template_as_the_lost_one_did(tmp_path: Path) -> None:
    """What comes back in the order of the outputs: what stands for itself, then what was dropped."""
    batch = batch_of(SIGNATURES, 0, SEEN)
    with opened(tmp_path / "lost", PARAMETERS) as index:
        decided = index.admit(batch, {ONE: SEEN})
        after = [verdict for verdict, _, _ in told(index, SIGNATURES, [], SEEN)]
    standing = np.isin(decided.verdicts, (Verdict.UNIQUE, Verdict.TEMPLATE))
    assert (decided.verdicts == Verdict.TEMPLATE).any()
    with opened(tmp_path / "restored", PARAMETERS) as index:
        for rows in (np.flatnonzero(standing), np.flatnonzero(~standing)):
            originals = [decided.original_positions[row] for row in rows.tolist()]
            counts = index.restore(batch.take(rows), decided.verdicts[rows], originals, {ONE: SEEN})
            assert counts.without_original == 0
        assert [each.examples for each in internals_of(index).read(verify_tables) if each.wrong] == []
        known = internals_of(index).read(
            lambda session: [
                unpack_family(bytes(value)).is_known for _, value in session.transaction.walk(Table.FAMILIES)
            ]
        )
        assert any(known)
        again = [verdict for verdict, _, _ in told(index, SIGNATURES, [], SEEN)]
    assert again.count("duplicate") <= after.count("duplicate") + 2
    assert "template" in again


def test_a_page_whose_lookalike_is_gone_stands_for_itself(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        verdicts = np.array([Verdict.TEMPLATE], np.uint8)
        counts = index.restore(batch_of(SIGNATURES, 5, 6), verdicts, [Position(ONE, 3)], {ONE: 6})
        assert counts.restored == 1
        replayed = index.admit(batch_of(SIGNATURES, 5, 6), {ONE: 6})
    assert replayed.verdicts.tolist() == [Verdict.UNIQUE]


def learnt(index: Index) -> list[tuple[bytes, bytes]]:
    """What an index holds of families."""
    return internals_of(index).read(
        lambda session: [
            (key, bytes(value))
            for table in (Table.FAMILIES, Table.RELATIVES)
            for key, value in session.transaction.walk(table)
        ]
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 60), st.integers(1, 4), st.data())
def test_what_is_learnt_anew_is_the_same_however_the_documents_are_cut(
    seed: int, count: int, sites: int, data: st.DataObject
) -> None:
    """What stands for itself first, then what was dropped for it."""
    signatures = pack_bins(site(np.random.default_rng(seed), count, sites, 1.0), 8)
    batch, cuts = batch_of(signatures, 0, count), sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=6)))
    with TemporaryDirectory() as folder:
        with opened(Path(folder) / "lost", PARAMETERS, sizes=SMALL) as index:
            decided = index.admit(batch, {ONE: count})
        standing = np.isin(decided.verdicts, (Verdict.UNIQUE, Verdict.TEMPLATE))
        answers = []
        for name, each in (("cut", cuts), ("one by one", list(range(1, count)))):
            with opened(Path(folder) / name, PARAMETERS, sizes=SMALL) as index:
                halves = (np.split(np.flatnonzero(half), each) for half in (standing, ~standing))
                for rows in chain.from_iterable(halves):
                    originals = [decided.original_positions[row] for row in rows.tolist()]
                    index.restore(batch.take(rows), decided.verdicts[rows], originals, {ONE: count})
                answers.append(learnt(index))
                assert [found.examples for found in internals_of(index).read(verify_tables) if found.wrong] == []
    assert answers[0] == answers[1]
