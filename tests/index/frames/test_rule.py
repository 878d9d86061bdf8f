from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Position, RecrawlPolicy, Verdict, given_back_source
from index.frames import samples
from index.index import internals_of
from index.matching.frame import (
    NEW_BINS_MIN,
    SAME_SHARE_MIN,
    SPLIT_SHARE_MAX,
    TEMPLATE_PAGES_MIN,
    VERSION_SHARE_MIN,
    WAITING_MAX,
    FrameRule,
)
from index.matching.minhash import pack_bins
from index.session import Guard, Recrawl
from index.tools.verify import verify_tables
from tests.support.brute_force_frames import BruteForceFrames
from tests.support.entries import ONE
from tests.support.examples import examples
from tests.support.framed_sites import BINS, PARAMETERS, batch_of, hosts_of, site, told
from tests.support.indexes import SMALL, opened


def expected(
    oracle: BruteForceFrames, signatures: np.ndarray, hosts: list[str | None], first: int = 0
) -> Iterator[tuple[str, str | None, int]]:
    for row in range(first, len(signatures)):
        yield oracle.decide(signatures[row], hosts[row], str(row))


@examples(25)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 3), st.floats(0.4, 1), st.data())
def test_verdicts_are_those_of_one_document_after_the_other(
    seed: int, count: int, sites: int, filled: float, data: st.DataObject
) -> None:
    """However the documents are cut into batches, and wherever entries stand."""
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, sites, filled), 8)
    hosts = hosts_of(generator, count, sites)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=6)))
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, sizes=SMALL) as index:
        found = list(told(index, signatures, hosts, cuts))
        assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
    assert found == list(expected(BruteForceFrames(PARAMETERS), signatures, hosts))


@pytest.mark.parametrize("cuts", [[], [60], [20, 40, 100]])
def test_pages_of_many_hosts_meet_every_verdict(cuts: list[int], tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    signatures = pack_bins(np.concatenate([site(generator, 90, 2, 1.0), site(generator, 90, 1, 1.0)]), 8)
    hosts = hosts_of(generator, len(signatures), 2)
    with opened(tmp_path, PARAMETERS, sizes=SMALL) as index:
        found = list(told(index, signatures, hosts, cuts))
    assert {verdict for verdict, _, _ in found} == {"unique", "duplicate", "template"}
    assert found == list(expected(BruteForceFrames(PARAMETERS), signatures, hosts))


@examples(15)
@given(st.integers(0, 2**32), st.integers(2, 40), st.data())
def test_pages_that_are_crawled_again_are_decided_alike_in_all_batches(
    seed: int, count: int, data: st.DataObject
) -> None:
    """Whatever comes in one batch: versions, pages of a template, copies of either."""
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=4)))
    assert_decided_alike("update", seed, count, cuts)


@pytest.mark.parametrize("policy", ["duplicate", "update"])
@examples(8)
@given(st.integers(0, 2**32), st.integers(16, 80), st.data())
def test_pages_that_were_given_back_are_decided_alike_in_all_batches(
    policy: RecrawlPolicy, seed: int, count: int, data: st.DataObject
) -> None:
    """A batch of one row separates a page's versions from all other documents by itself."""
    cuts = data.draw(st.sets(st.integers(1, count - 1), max_size=2)) | {count // 2}
    assert_decided_alike(policy, seed, count, sorted(cuts), give_back_at=count // 2)


def assert_decided_alike(
    policy: RecrawlPolicy, seed: int, count: int, cuts: list[int], give_back_at: int | None = None
) -> None:
    """Crawled pages get the same verdicts in these batches as one by one; at one cut all duplicates are given back."""
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, 2, 1.0), 8)
    hosts = hosts_of(generator, count, 2)
    ids = [str(number) for number in generator.integers(0, max(1, count // 2), count).tolist()]
    answers = []
    for each in (cuts, list(range(1, count))):
        with TemporaryDirectory() as folder:
            recrawl = Recrawl(policy)
            with opened(Path(folder), PARAMETERS, sizes=SMALL, recrawl=recrawl) as index:
                found = []
                for begin, end in zip([0, *each], [*each, count], strict=True):
                    decided = index.admit(batch_of(signatures, begin, end, hosts, ids), {ONE: end})
                    positions = [None if at is None else at.offset for at in decided.original_positions]
                    found += list(zip(decided.verdicts.tolist(), positions, decided.distances.tolist(), strict=True))
                    if end == give_back_at:
                        dropped = np.flatnonzero([verdict == Verdict.DUPLICATE for verdict, _, _ in found])
                        index.give_back(batch_of(signatures, 0, end, hosts, ids).take(dropped))
                assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
        answers.append(found)
    assert answers[0] == answers[1]


@examples(15)
@given(st.integers(0, 2**32), st.integers(4, 40), st.data())
def test_what_was_forgotten_counts_no_more_and_the_frame_stays(seed: int, count: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, 2, 1.0), 8)
    hosts = hosts_of(generator, count, 2)
    half = count // 2
    oracle = BruteForceFrames(PARAMETERS)
    before = list(expected(oracle, signatures[:half], hosts))
    entered = [page.number for page in oracle.pages]
    gone = sorted(data.draw(st.sets(st.sampled_from(entered), max_size=len(entered))))
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, sizes=SMALL) as index:
        assert list(told(index, signatures[:half], hosts, [])) == before
        index.forget([document.id for document in index.documents(gone) if document is not None])
        oracle.forget(gone)
        after = list(told(index, signatures, hosts, list(range(half + 1, count)), half))
    assert after == list(expected(oracle, signatures, hosts, half))


def template_pages(generator: np.random.Generator, count: int, own: int) -> np.ndarray:
    """Pages of one template, each with so many bins of its own: uint8 [count, BINS]."""
    pages = np.repeat(generator.integers(1, 256, (1, BINS)).astype(np.uint8), count, axis=0)
    for page in pages:
        page[generator.choice(BINS, own, replace=False)] = generator.integers(1, 256, own)
    return pages


def test_pages_of_a_template_are_kept_and_copies_of_them_found(tmp_path: Path) -> None:
    pages = template_pages(np.random.default_rng(5), 60, 10)
    copies = pages.copy()
    copies[:, 3] = 7
    signatures = pack_bins(np.concatenate([pages, copies]), 8)
    on_one, on_none = ["host"] * 120, [None] * 120
    with opened(tmp_path, PARAMETERS) as index:
        verdicts = [verdict for verdict, _, _ in told(index, signatures, on_one, [])]
    assert verdicts[:60].count("duplicate") <= 5
    kept = [verdict != "duplicate" for verdict in verdicts]
    assert sum(page and copy for page, copy in zip(kept[:60], kept[60:], strict=True)) <= 1
    with opened(tmp_path / "without", PARAMETERS) as index:
        assert [verdict for verdict, _, _ in told(index, signatures, on_none, [])][:60].count("duplicate") > 50


def test_one_article_in_the_frames_of_many_hosts_is_kept_once(tmp_path: Path) -> None:
    """The bands of both have nothing of the frames; plainly they are too far apart."""
    generator = np.random.default_rng(7)
    articles = generator.integers(1, 256, (20, BINS)).astype(np.uint8)
    pages, hosts = [], []
    for number in range(12):
        frame = generator.integers(1, 256, BINS).astype(np.uint8)
        framed = generator.random(BINS) < 0.4
        own = generator.integers(1, 256, (12, BINS)).astype(np.uint8)
        for page in [*own, articles[0]]:
            pages.append(np.where(framed, frame, page))
            hosts.append(f"host-{number}")
    signatures = pack_bins(np.array(pages, np.uint8), 8)
    rows = np.argsort(np.tile(np.arange(13), 12), kind="stable")
    signatures, hosts = signatures[rows], [hosts[row] for row in rows.tolist()]
    kept = {}
    for name, of_rows in (("hosts", hosts), ("none", [None] * len(hosts))):
        with opened(tmp_path / name, PARAMETERS) as index:
            verdicts = [verdict for verdict, _, _ in told(index, signatures, of_rows, [])]
        assert verdicts[:-12].count("duplicate") == 0
        kept[name] = 12 - verdicts[-12:].count("duplicate")
    assert kept["hosts"] <= 3
    assert kept["none"] == 12


def test_an_article_among_boxes_that_are_known_is_kept_no_more() -> None:
    """A crawl trap: one article under hundreds of addresses of one host, each with three of fifty boxes."""
    generator = np.random.default_rng(8)
    boxes = generator.integers(1, 256, (50, 4)).astype(np.uint8)
    pages = np.repeat(generator.integers(1, 256, (1, BINS)).astype(np.uint8), 300, axis=0)
    for page in pages:
        for place, box in enumerate(generator.choice(50, 3, replace=False).tolist()):
            page[20 * place : 20 * place + 4] = boxes[box]
    signatures, kept = pack_bins(pages, 8), {}
    for least in (0, NEW_BINS_MIN):
        with (
            TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            opened(Path(folder), replace(PARAMETERS, frames=FrameRule())) as index,
        ):
            patch.setattr(samples, "NEW_BINS_MIN", least)
            verdicts = [verdict for verdict, _, _ in told(index, signatures, ["host"] * 300, [])]
            kept[least] = [row for row, verdict in enumerate(verdicts) if verdict != "duplicate"]
    assert len(kept[NEW_BINS_MIN]) <= 45
    assert len(kept[0]) > 60


def test_versions_of_a_few_articles_one_host_are_duplicates() -> None:
    """They are sampled once, or the articles become the frame."""
    generator = np.random.default_rng(10)
    articles, rows = generator.integers(1, 256, (4, BINS)).astype(np.uint8), generator.integers(0, 4, 60)
    pages = articles[rows]
    for page in pages:
        page[generator.choice(BINS, 2, replace=False)] = generator.integers(1, 256, 2)
    signatures, kept = pack_bins(pages, 8), {}
    for share in (VERSION_SHARE_MIN, 2.0):
        with (
            TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            opened(Path(folder), replace(PARAMETERS, frames=FrameRule())) as index,
        ):
            patch.setattr(samples, "VERSION_SHARE_MIN", share)
            patch.setattr(samples, "SAME_SHARE_MIN", max(share, SAME_SHARE_MIN))
            verdicts = [verdict for verdict, _, _ in told(index, signatures, ["host"] * 60, [])]
            kept[share] = 60 - verdicts.count("duplicate")
    assert kept[VERSION_SHARE_MIN] <= 15
    assert kept[2.0] > 30


def host_with_designs(seed: int, designs: int, own: int, count: int) -> np.ndarray:
    """Pages of a host with a frame, then pages of new designs in turn: uint8 [40 + count, BINS]."""
    generator = np.random.default_rng(seed)
    ordinary = template_pages(generator, 40, BINS * 3 // 4)
    new = [template_pages(generator, -(-count // designs), own) for _ in range(designs)]
    return np.concatenate([ordinary, np.stack(new, axis=1).reshape(-1, BINS)[:count]])


@pytest.mark.parametrize("cuts", [[], [45, 47, 60, 61]])
@pytest.mark.parametrize(("designs", "own"), [(1, 5), (1, 8), (3, 6)])
def test_a_new_design_on_a_known_host_is_learnt(designs: int, own: int, cuts: list[int], tmp_path: Path) -> None:
    """All bins of its first pages are their own, so each looks like a version of the first."""
    signatures = pack_bins(host_with_designs(12, designs, own, 150), 8)
    hosts: list[str | None] = ["host"] * len(signatures)
    with opened(tmp_path, replace(PARAMETERS, frames=FrameRule())) as index:
        found = list(told(index, signatures, hosts, cuts))
        assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
    dropped = [verdict == "duplicate" for verdict, _, _ in found]
    assert sum(dropped[40:]) <= designs * (TEMPLATE_PAGES_MIN + 3)
    assert sum(dropped[-50:]) <= 2
    assert found == list(expected(BruteForceFrames(replace(PARAMETERS, frames=FrameRule())), signatures, hosts))


def test_versions_whose_edits_pile_up_are_no_new_design(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(13)
    ordinary = template_pages(generator, 40, BINS * 3 // 4)
    versions = [generator.integers(1, 256, BINS).astype(np.uint8)]
    for _ in range(90):
        later = versions[-1].copy()
        later[generator.choice(BINS, 2, replace=False)] = generator.integers(1, 256, 2)
        versions.append(later)
    signatures, kept = pack_bins(np.concatenate([ordinary, np.array(versions, np.uint8)]), 8), {}
    hosts: list[str | None] = ["host"] * len(signatures)
    for share in (SPLIT_SHARE_MAX, 1e9):
        monkeypatch.setattr(samples, "SPLIT_SHARE_MAX", share)
        with (
            TemporaryDirectory() as folder,
            opened(Path(folder), replace(PARAMETERS, frames=FrameRule())) as index,
        ):
            verdicts = [verdict for verdict, _, _ in told(index, signatures, hosts, [])]
            kept[share] = 91 - verdicts[40:].count("duplicate")
    assert kept[SPLIT_SHARE_MAX] < kept[1e9]


def test_the_oldest_version_gives_way_if_too_many_wait(tmp_path: Path) -> None:
    signatures = pack_bins(host_with_designs(14, WAITING_MAX + 1, 8, 150), 8)
    hosts: list[str | None] = ["host"] * len(signatures)
    with opened(tmp_path, replace(PARAMETERS, frames=FrameRule())) as index:
        found = list(told(index, signatures, hosts, [50, 100]))
    assert found == list(expected(BruteForceFrames(replace(PARAMETERS, frames=FrameRule())), signatures, hosts))


def test_the_guard_names_a_host_whose_new_designs_are_too_many_to_wait(tmp_path: Path) -> None:
    """A waiting page gives way to one of another design, so two in three are dropped: an alert needs a lower share."""
    signatures = pack_bins(host_with_designs(14, WAITING_MAX + 8, 8, 600), 8)
    hosts: list[str | None] = ["host"] * len(signatures)
    parameters = replace(PARAMETERS, frames=FrameRule())
    with opened(tmp_path, parameters, guard=Guard(share_max=0.6)) as index:
        verdicts = [verdict for verdict, _, _ in told(index, signatures, hosts, [])]
        watched = index.watched_hosts()
    assert verdicts[40:].count("duplicate") > 400
    assert [each.host for each in watched.worst if each.beyond] == ["host"]


def test_a_page_that_is_asked_for_alone_gets_the_verdict_that_it_would_get(tmp_path: Path) -> None:
    signatures = pack_bins(template_pages(np.random.default_rng(9), 40, 10), 8)
    hosts: list[str | None] = ["host"] * 40
    with opened(tmp_path, PARAMETERS) as index:
        list(told(index, signatures[:20], hosts[:20], []))
        for row in range(20, 40):
            batch = batch_of(signatures, row, row + 1, hosts)
            asked, decided = index.check(batch), index.admit(batch, {ONE: row + 1})
            assert asked.verdicts.tolist() == decided.verdicts.tolist()
            assert asked.original_ids == decided.original_ids


def test_a_page_that_was_given_back_is_found_in_its_frame(tmp_path: Path) -> None:
    pages = template_pages(np.random.default_rng(11), 30, 10)
    signatures, hosts = pack_bins(np.concatenate([pages, pages[-1:]]), 8), ["host"] * 31
    with opened(tmp_path, PARAMETERS) as index:
        verdicts = [verdict for verdict, _, _ in told(index, signatures[:30], hosts, [])]
        first = verdicts.index("duplicate")
        index.give_back(batch_of(signatures, first, first + 1, hosts))
        (given,) = index.decided_at([Position(given_back_source(ONE), first)])
        assert given is not None
        assert not [each for each in internals_of(index).read(verify_tables) if each.wrong]
        (verdict,) = [verdict for verdict, _, _ in told(index, signatures, hosts, [], 30)]
    assert verdict == "duplicate"
