from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.entry import RecrawlPolicy
from index.index import internals_of
from index.matching.minhash import pack_bins, unpack_bins
from index.matching.template import TemplateRule
from index.session import Recrawl
from index.storage.layout import Table
from index.tools.verify import verify_tables
from tests.support.brute_force_families import BruteForceFamilies
from tests.support.entries import ONE
from tests.support.indexes import SMALL, opened
from tests.support.template_sites import BINS, PARAMETERS, batch_of, site, told


def expected(
    oracle: BruteForceFamilies, signatures: np.ndarray, first: int = 0
) -> Iterator[tuple[str, str | None, int]]:
    for row in range(first, len(signatures)):
        before = len(oracle.pages)
        verdict, named, distance = oracle.decide(signatures[row : row + 1])
        if len(oracle.pages) > before:
            oracle.pages[-1].id = str(row)
        yield verdict, None if named is None else oracle.pages[named].id, distance


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 3), st.floats(0.4, 1), st.data())
def test_verdicts_are_those_of_one_document_after_the_other(
    seed: int, count: int, sites: int, filled: float, data: st.DataObject
) -> None:
    """However the documents are cut into batches, and wherever entries stand."""
    signatures = pack_bins(site(np.random.default_rng(seed), count, sites, filled), 8)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=6)))
    rule = TemplateRule(data.draw(st.integers(1, 6)), 5_000, data.draw(st.sampled_from([0, 3_500])))
    parameters = replace(PARAMETERS, template=rule)
    with TemporaryDirectory() as folder, opened(Path(folder), parameters, sizes=SMALL) as index:
        found = list(told(index, signatures, cuts))
    assert found == list(expected(BruteForceFamilies(parameters), signatures))


@pytest.mark.parametrize("cuts", [[], [60], [20, 40, 100]])
def test_a_batch_may_found_many_families_and_learn_their_templates(cuts: list[int], tmp_path: Path) -> None:
    """More families than there is room for at first; some templates are known in the middle of a batch."""
    generator = np.random.default_rng(3)
    signatures = pack_bins(np.concatenate([site(generator, 90, 40, 1.0), site(generator, 60, 2, 1.0)]), 8)
    signatures = signatures[generator.permutation(len(signatures))]
    with opened(tmp_path, PARAMETERS, sizes=SMALL) as index:
        found = list(told(index, signatures, cuts))
        begun = internals_of(index).read(lambda session: session.transaction.count(Table.FAMILIES))
    assert begun > 10
    assert {"unique", "duplicate", "template"} == {verdict for verdict, _, _ in found}
    assert found == list(expected(BruteForceFamilies(PARAMETERS), signatures))


@pytest.mark.parametrize("policy", ["update", "as-new"])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40), st.data())
def test_pages_that_are_crawled_again_are_decided_alike_in_all_batches(
    policy: RecrawlPolicy, seed: int, count: int, data: st.DataObject
) -> None:
    """Whatever comes in one batch: versions, pages of a template, copies of either."""
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, 2, 1.0), 8)
    ids = [str(number) for number in generator.integers(0, max(1, count // 2), count).tolist()]
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=4)))
    answers = []
    for each in (cuts, list(range(1, count))):
        with TemporaryDirectory() as folder:
            recrawl = Recrawl(policy)
            with opened(Path(folder), PARAMETERS, sizes=SMALL, recrawl=recrawl) as index:
                found = []
                for begin, end in zip([0, *each], [*each, count], strict=True):
                    decided = index.admit(batch_of(signatures, begin, end, ids), {ONE: end})
                    positions = [None if at is None else at.offset for at in decided.original_positions]
                    found += list(zip(decided.verdicts.tolist(), positions, decided.distances.tolist(), strict=True))
                assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
        answers.append(found)
    assert answers[0] == answers[1]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 40), st.data())
def test_what_was_forgotten_counts_no_more_and_a_template_stays_as_long_as_pages_do(
    seed: int, count: int, data: st.DataObject
) -> None:
    signatures = pack_bins(site(np.random.default_rng(seed), count, 2, 1.0), 8)
    half = count // 2
    oracle = BruteForceFamilies(PARAMETERS)
    before = list(expected(oracle, signatures[:half]))
    entered = [page.number for page in oracle.pages]
    gone = sorted(data.draw(st.sets(st.sampled_from(entered), max_size=len(entered))))
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, sizes=SMALL) as index:
        assert list(told(index, signatures[:half], [])) == before
        ids = [document.id for document in index.documents(gone) if document is not None]
        index.forget(ids)
        oracle.forget(gone)
        after = list(told(index, signatures, list(range(half + 1, count)), half))
    assert after == list(expected(oracle, signatures, half))


@pytest.mark.parametrize("voters", [4, 16])
def test_pages_of_a_site_are_kept_and_copies_of_them_found(voters: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    template = generator.integers(1, 256, BINS).astype(np.uint8)
    pages = np.repeat(template[None], 60, axis=0)
    for page in pages:
        page[generator.choice(BINS, 10, replace=False)] = generator.integers(1, 256, 10)
    copies = pages.copy()
    copies[:, 3] = 7
    signatures = pack_bins(np.concatenate([pages, copies]), 8)
    parameters = replace(PARAMETERS, template=TemplateRule(voters))
    with opened(tmp_path, parameters) as index:
        verdicts = [verdict for verdict, _, _ in told(index, signatures, [])]
    assert verdicts[:60].count("duplicate") <= voters
    assert verdicts[60:].count("duplicate") == 60
    with opened(tmp_path / "without", replace(parameters, template=None)) as index:
        assert [verdict for verdict, _, _ in told(index, signatures, [])][:60].count("duplicate") > 50


def test_a_query_finds_what_is_filed_by_what_it_has_of_its_own(tmp_path: Path) -> None:
    signatures = pack_bins(site(np.random.default_rng(11), 120, 1, 1.0), 8)
    with opened(tmp_path, PARAMETERS) as index:
        list(told(index, signatures, []))
        entered = [document for document in index.documents(range(120)) if document is not None]
        answers = index.query(np.array([document.fingerprint for document in entered], np.uint64), limit=120)
    distances = {
        (one.number, other.number): BruteForceFamilies(PARAMETERS).apart(
            *(tuple(unpack_bins(np.array([each.fingerprint], np.uint64), 8)[0].tolist()) for each in (one, other))
        )
        for one in entered
        for other in entered[:40]
    }
    found = {
        (one.number, match.document.number) for one, answer in zip(entered, answers, strict=True) for match in answer
    }
    near = {pair for pair, distance in distances.items() if distance <= PARAMETERS.distance_max}
    assert {(document.number, document.number) for document in entered} <= found
    assert len(near & found) > 0.5 * len(near)
