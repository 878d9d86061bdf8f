"""The reasons that the index gives for entries near a document, against brute force."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from index import Index, Reason
from index.decide.load import load
from index.decide.prepare import stored_form
from index.decide.rule import rule_of
from index.entry import Entries, Insert, Kind, Position, Verdict
from index.kernels.judge import judge_pairs
from index.matching.minhash import pack_bins
from index.session import Longer, ReadSession, Retention
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
FINGERPRINT_BITS = 64
RETENTIONS = [Retention(), Retention(), Retention(8), Retention(40, 500)]
SEEDS = {
    "simhash": (7, 8),
    "simhash with a look": (2, 7, 8),
    "simhash with metadata": (1, 5),
    "minhash": (2, 4),
}
"""Crawls of the control."""

EVERYWHERE = {
    "COUNTS",
    "COUNTS: member",
    "COUNTS: given back",
    "TOO_FAR",
    "OTHER_ID",
    "TOO_SHORT",
    "ROOT_GONE: expired",
    "ROOT_GONE: replaced",
}
"""What crawls of each scheme meet."""


def judged(index: Index, entries: Entries, radius: int) -> list[list[Judged]]:
    found = index.judged(entries, radius, limit=1_000)
    return [
        [Judged(each.document.number, each.distance, each.reason, each.root_distance) for each in of_row]
        for of_row in found
    ]


def reasons_of_a_crawl(scheme: str, insert: Insert, seed: int, count: int) -> Counter[str]:
    """The reasons of a crawl's rows, asked of the index after every batch; they are those of brute force."""
    generator, parameters = np.random.default_rng(seed), with_insert(SCHEMES[scheme], insert)
    if parameters.root is not None and generator.random() < 0.5:
        parameters = replace(parameters, root=replace(parameters.root, distance_max=parameters.distance_max))
    retention = RETENTIONS[int(generator.integers(len(RETENTIONS)))]
    oracle = oracle_of(parameters, retention, TENTH)
    rows = with_lengths(crawled(generator, count, parameters, digests=bool(seed % 2)), seed)
    asked, met = entries_of(rows, parameters.bits), Counter[str]()
    farther = min(2 * parameters.distance_max, parameters.distance_limit)
    options: dict[str, Any] = {"sizes": SMALL, "recrawl": UPDATES, "longer": TENTH, "retention": retention}
    with TemporaryDirectory() as folder, opened(Path(folder), parameters, **options) as index:
        begin = 0
        while begin < count:
            part = rows[begin : begin + int(generator.integers(1, 40))]
            begin += len(part)
            batch = entries_of(part, parameters.bits)
            index.admit(batch, ends_of(part))
            oracle.admit(batch, ends_of(part))
            if generator.random() < 0.2:
                ids = {rows[int(generator.integers(begin))].id}
                assert [document.id for document in index.forget(ids)] == oracle.forget(ids)
            # With retention, what is given back may go together with its batch, and is given back anew.
            drops = [row for row in rows[:begin] if retention == Retention() and is_dropped(oracle, row)]
            if chosen := [row for row in drops if generator.random() < 0.1]:
                given_back = entries_of(chosen, parameters.bits)
                assert index.give_back(given_back, delivered=True).tolist() == oracle.give_back(given_back)
            radius = (parameters.distance_max, farther)[int(generator.integers(2))]
            expected = [oracle.judged(asked, row, radius) for row in range(count)]
            assert judged(index, asked, radius) == expected
            met.update(circumstance(oracle, each) for of_row in expected for each in of_row)
    return met


def circumstance(oracle: BruteForceIndex, found: Judged) -> str:
    """The reason, and what led to it."""
    known = oracle.known[found.number]
    if found.reason is Reason.ROOT_GONE:
        return "ROOT_GONE: expired" if known.root in oracle.expired else "ROOT_GONE: replaced"
    if found.reason is Reason.COUNTS and found.number in {*oracle.given_back.values(), *oracle.updated}:
        return "COUNTS: given back"
    if found.reason is Reason.COUNTS and known.root != known.number:
        return "COUNTS: member"
    if found.reason is Reason.ROOT_TOO_FAR and oracle.second_look is not None:
        assert oracle.root is not None
        assert found.root_distance is not None
        # Metadata tells distances far beyond the bits of a fingerprint.
        by_bits = oracle.root.distance_max < found.root_distance <= FINGERPRINT_BITS
        return "ROOT_TOO_FAR" if by_bits else "ROOT_TOO_FAR: by its look"
    return found.reason.name


def is_dropped(oracle: BruteForceIndex, row: Row) -> bool:
    return oracle.journal[Position(row.source, row.offset)].verdict is Verdict.DUPLICATE


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("scheme", SCHEMES)
@examples(5)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 100))
def test_the_reasons_are_those_of_brute_force(scheme: str, insert: Insert, seed: int, count: int) -> None:
    """Of entries that updates replaced, that expired or were forgotten, whose roots are gone, that were given back, of
    unequal lengths, and with each second look."""
    for name in reasons_of_a_crawl(scheme, insert, seed, count):
        event(name)


def reasons_of_sites(seed: int, count: int, sites: int, radius: int, entries_max: int = 1_000) -> Counter[str]:
    """The reasons of pages with frames, which are those of brute force; the last page lets all but some entries expire."""
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, sites, 1.0), 8)
    hosts, lengths = hosts_of(generator, len(signatures), sites), generator.integers(100, 140, len(signatures))
    lengths = lengths.astype(np.uint32)
    oracle = BruteForceFrames(PARAMETERS, 1_000, 1_500)
    for row, signature in enumerate(signatures):
        if row == count - 1:
            oracle.expire(entries_max)
        oracle.decide(signature, hosts[row], str(row), int(lengths[row]))
    options: dict[str, Any] = {"sizes": SMALL, "longer": LIMITED, "retention": Retention(entries_max)}
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, **options) as index:
        list(told(index, signatures, hosts, [count - 1], lengths=lengths))
        found = judged(index, batch_of(signatures, 0, len(signatures), hosts, lengths=lengths), radius)
    expected = [
        oracle.judged(signature, hosts[row], int(lengths[row]), radius) for row, signature in enumerate(signatures)
    ]
    assert found == expected
    return Counter(each.reason.name for of_row in expected for each in of_row)


@examples(10)
@given(
    st.integers(0, 2**32),
    st.integers(2, 90),
    st.integers(1, 3),
    st.sampled_from([3_000, 6_000]),
    st.sampled_from([20, 60, 1_000]),
)
def test_the_reasons_of_pages_with_frames_are_those_of_brute_force(
    seed: int, count: int, sites: int, radius: int, entries_max: int
) -> None:
    for name in reasons_of_sites(seed, count, sites, radius, entries_max):
        event(name)


def test_these_crawls_meet_every_reason() -> None:
    """The control of the tests above. Nothing is lost before a batch, and kinds never meet in a look-up."""
    met = reasons_of_sites(0, 90, 1, 6_000, 60)
    assert set(met) == {"COUNTS", "TOO_FAR", "TEMPLATE_ONLY", "ROOT_GONE", "ROOT_TOO_FAR", "TOO_SHORT", "NEW_TEXT"}
    by_scheme = {scheme: Counter[str]() for scheme in SCHEMES}
    for scheme, seeds in SEEDS.items():
        for seed in seeds:
            by_scheme[scheme] += reasons_of_a_crawl(scheme, "root", seed, 100)
    for scheme, counted in by_scheme.items():
        assert counted.keys() >= EVERYWHERE, scheme
    assert by_scheme["simhash with a look"].keys() >= {"REFUSED", "ROOT_TOO_FAR"}
    assert by_scheme["simhash with metadata"].keys() >= {"REFUSED", "ROOT_TOO_FAR: by its look"}
    assert by_scheme["minhash"].keys() >= {"ROOT_TOO_FAR"}
    met += sum(by_scheme.values(), Counter[str]())
    assert {name.split(":")[0] for name in met} == {each.name for each in Reason} - {"LOST", "OTHER_KIND"}


def test_what_an_update_of_the_batch_replaced_is_lost_and_another_kind_is_never_compared(tmp_path: Path) -> None:
    rows, numbers = [Row(0, 5), Row(1, 5, kind=Kind.EXACT)], np.array([0, 1], np.uint64)

    def reasons(session: ReadSession) -> list[int]:
        asked = stored_form(entries_of([Row(2, 5)]), session.parameters)
        loaded = load(session, asked, numbers, with_ids=True)
        places = loaded.places(numbers)
        loaded.documents.lost[places[0]] = True
        pairs = np.zeros(2, np.int64), places, np.zeros(1, np.bool_)
        return [
            int(reason)
            for reason in judge_pairs(*pairs, loaded.documents, rule_of(session.parameters, session.longer))[0]
        ]

    with opened(tmp_path) as index:
        index.admit(entries_of(rows), ends_of(rows))
        assert index._opened.read(reasons) == [Reason.LOST, Reason.OTHER_KIND]
