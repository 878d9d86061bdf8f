"""The reasons that the index gives for entries near a document, against brute force."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Index, Reason
from index.entry import Entries, Insert, Position, Verdict
from index.matching.minhash import pack_bins
from index.session import Longer, Retention
from tests.support.brute_force_frames import BruteForceFrames
from tests.support.brute_force_index import BruteForceIndex, Judged
from tests.support.crawls import SCHEMES, UPDATES, crawled, oracle_of
from tests.support.entries import Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.flow_logs import with_lengths
from tests.support.framed_sites import PARAMETERS, batch_of, hosts_of, site, told
from tests.support.indexes import SMALL, opened
from tests.support.roots import with_insert

TENTH, LIMITED = Longer(1_000), Longer(1_000, 1_500)


def judged(index: Index, entries: Entries, radius: int) -> list[list[Judged]]:
    found = index.judged(entries, radius, limit=1_000)
    return [
        [Judged(each.document.number, each.distance, each.reason, each.root_distance) for each in of_row]
        for of_row in found
    ]


def reasons_of_a_crawl(scheme: str, insert: Insert, seed: int, count: int) -> set[Reason]:
    """The reasons of a crawl's rows, asked of the index after every batch; they are those of brute force."""
    generator, parameters = np.random.default_rng(seed), with_insert(SCHEMES[scheme], insert)
    oracle = oracle_of(parameters, Retention(), TENTH)
    rows = with_lengths(crawled(generator, count, parameters, digests=bool(seed % 2)), seed)
    asked, met = entries_of(rows, parameters.bits), set[Reason]()
    farther = min(2 * parameters.distance_max, parameters.distance_limit)
    options: dict[str, Any] = {"sizes": SMALL, "recrawl": UPDATES, "longer": TENTH}
    with TemporaryDirectory() as folder, opened(Path(folder), parameters, **options) as index:
        begin = 0
        while begin < count:
            part = rows[begin : begin + int(generator.integers(1, 40))]
            begin += len(part)
            batch = entries_of(part, parameters.bits)
            index.admit(batch, ends_of(part))
            oracle.admit(batch, ends_of(part))
            if chosen := [row for row in rows[:begin] if is_dropped(oracle, row) and generator.random() < 0.1]:
                given_back = entries_of(chosen, parameters.bits)
                assert index.give_back(given_back, delivered=True).tolist() == oracle.give_back(given_back)
            radius = (parameters.distance_max, farther)[int(generator.integers(2))]
            expected = [oracle.judged(asked, row, radius) for row in range(count)]
            assert judged(index, asked, radius) == expected
            met |= {each.reason for of_row in expected for each in of_row}
    return met


def is_dropped(oracle: BruteForceIndex, row: Row) -> bool:
    return oracle.journal[Position(row.source, row.offset)].verdict is Verdict.DUPLICATE


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(5)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 100))
def test_the_reasons_are_those_of_brute_force(scheme: str, insert: Insert, seed: int, count: int) -> None:
    """Of entries that updates replaced, whose roots are gone, that were given back, of unequal lengths."""
    reasons_of_a_crawl(scheme, insert, seed, count)


def reasons_of_sites(seed: int, count: int, sites: int, radius: int) -> set[Reason]:
    """The reasons of pages with frames, which are those of brute force."""
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, sites, 1.0), 8)
    hosts, lengths = hosts_of(generator, len(signatures), sites), generator.integers(100, 140, len(signatures))
    lengths = lengths.astype(np.uint32)
    oracle = BruteForceFrames(PARAMETERS, 1_000, 1_500)
    for row, signature in enumerate(signatures):
        oracle.decide(signature, hosts[row], str(row), int(lengths[row]))
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, sizes=SMALL, longer=LIMITED) as index:
        list(told(index, signatures, hosts, [], lengths=lengths))
        found = judged(index, batch_of(signatures, 0, len(signatures), hosts, lengths=lengths), radius)
    expected = [
        oracle.judged(signature, hosts[row], int(lengths[row]), radius) for row, signature in enumerate(signatures)
    ]
    assert found == expected
    return {each.reason for of_row in expected for each in of_row}


@examples(10)
@given(st.integers(0, 2**32), st.integers(2, 90), st.integers(1, 3), st.sampled_from([3_000, 6_000]))
def test_the_reasons_of_pages_with_frames_are_those_of_brute_force(
    seed: int, count: int, sites: int, radius: int
) -> None:
    reasons_of_sites(seed, count, sites, radius)


def test_these_crawls_meet_every_reason() -> None:
    """The control of the tests above. Nothing is lost before a batch, and kinds never meet in a look-up."""
    met = reasons_of_sites(3, 90, 1, 6_000)
    for scheme, seed in (("simhash", 2), ("simhash", 3), ("simhash with a look", 4), ("minhash", 5)):
        met |= reasons_of_a_crawl(scheme, "root", seed, 100)
    assert met == set(Reason) - {Reason.LOST, Reason.OTHER_KIND}
