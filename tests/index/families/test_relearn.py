from pathlib import Path

import numpy as np

from index.entry import Position, Verdict
from index.index import internals_of
from index.matching.minhash import pack_bins
from index.storage.layout import Table, unpack_family
from index.tools.verify import verify_tables
from tests.support.entries import ONE
from tests.support.indexes import opened
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
