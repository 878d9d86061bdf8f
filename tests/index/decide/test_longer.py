"""Documents that are longer than what they resemble, against brute force, and what the rule promises."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import RATIO_MAX, Entries, Kind, Position, Verdict
from index.index import Index
from index.matching.minhash import Banding, pack_bins
from index.matching.root import RootRule
from index.session import Guard, Longer, Recrawl, Retention
from index.storage.parameters import Parameters
from index.tools import Importer, snapshot
from tests.support.answers import answers_of
from tests.support.brute_force_frames import BruteForceFrames
from tests.support.brute_force_index import OTHER_TEXT, SHARED_ID, BruteForceIndex
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.framed_sites import BINS, PARAMETERS, batch_of, hosts_of, site, told
from tests.support.indexes import SMALL, opened, wrong

TENTH = Longer(1_000)
MEMBERS = Parameters(64, 3, "root", root=RootRule(6, 0))


def rows_of(generator: np.random.Generator, count: int, ids: int | None = None) -> list[Row]:
    """Near documents, many of them equal, of lengths that differ by up to a half; a few lengths are unknown."""
    fingerprints = [
        (2**64 - 1) * centre
        ^ sum(1 << bit for bit in generator.choice(64, int(generator.integers(0, 4)), replace=False).tolist())
        for centre in generator.integers(0, 2, count).tolist()
    ]
    rows = []
    for offset in range(count):
        if generator.random() < 0.3:
            fingerprints[offset] = fingerprints[int(generator.integers(offset + 1))]
        length = 0 if generator.random() < 0.05 else int(generator.integers(100, 150))
        kind = Kind.EXACT if generator.random() < 0.1 else Kind.NEAR
        fingerprint = fingerprints[offset] if kind is Kind.NEAR else int(generator.integers(3))
        id_ = str(offset if ids is None else generator.integers(ids))
        rows.append(Row(offset, fingerprint, kind=kind, id=id_, length=length))
    return rows


def parts_of(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    return [rows[begin:end] for begin, end in pairwise([0, *cuts, len(rows)])]


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize("policy", ["duplicate", "update"])
@examples(8)
@given(st.data())
def test_documents_are_decided_as_brute_force_does_however_they_are_batched(
    insert: Any, policy: Any, data: st.DataObject
) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count = data.draw(st.integers(1, 90))
    rows = rows_of(generator, count, None if policy == "duplicate" else count // 2 + 1)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    cuts = data.draw(st.sampled_from([cuts, list(range(1, count))]))
    root = RootRule(6, data.draw(st.integers(0, 2))) if insert == "root" else None
    oracle = BruteForceIndex(3, recrawl=policy, root=root, longer=1_000)
    recrawl = Recrawl(policy, other_reasons={0: OTHER_TEXT}, shared_reasons={0: SHARED_ID})
    parameters = Parameters(64, 3, insert, root=root)
    with TemporaryDirectory() as folder:
        with opened(Path(folder), parameters, sizes=SMALL, recrawl=recrawl, longer=TENTH) as index:
            for part in parts_of(rows, cuts):
                entries = entries_of(part)
                checked = answers_of(index.check(entries)) if len(part) == 1 else None
                answers = answers_of(index.admit(entries, ends_of(part)))
                assert answers == oracle.admit(entries, ends_of(part))
                # A check assigns no numbers.
                assert checked is None or [each._replace(original=None) for each in checked] == [
                    each._replace(original=None) for each in answers
                ]
                if generator.random() < 0.3:
                    gone = {str(number) for number in generator.integers(0, count, 2).tolist()}
                    index.forget(gone)
                    oracle.forget(gone)
        assert wrong(Path(folder)) == {}


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(8)
@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(1, 50))
def test_what_is_dropped_is_less_than_a_tenth_longer_than_what_was_kept(
    insert: Any, seed: int, count: int, batch_rows: int
) -> None:
    """Without the rule it is not: the control below."""
    rows = rows_of(np.random.default_rng(seed), count)
    assert dropped_too_long(rows, insert, batch_rows, TENTH) == 0


def test_without_the_rule_much_longer_documents_are_dropped() -> None:
    rows = rows_of(np.random.default_rng(1), 120)
    assert dropped_too_long(rows, "root", 40, None) > 10


def dropped_too_long(rows: list[Row], insert: Any, batch_rows: int, longer: Longer | None) -> int:
    """Drops that are a tenth longer than their original, and unequal to it; all are as near as the rule says."""
    root, beyond = RootRule(6, 0) if insert == "root" else None, 0
    parameters = Parameters(64, 3, insert, root=root)
    with TemporaryDirectory() as folder, opened(Path(folder), parameters, sizes=SMALL, longer=longer) as index:
        for part in parts_of(rows, list(range(batch_rows, len(rows), batch_rows))):
            decided = index.admit(entries_of(part), ends_of(part))
            columns = part, decided.verdicts.tolist(), decided.original_positions, decided.ratios.tolist()
            for row, verdict, position, ratio in zip(*columns, strict=True):
                if position is None:
                    assert ratio == 0
                    continue
                kept = rows[position.offset]
                assert ratio == (round_half_up(row.length, kept.length) if row.length and kept.length else 0)
                if verdict != Verdict.DUPLICATE or row.fingerprint == kept.fingerprint:
                    continue
                assert insert != "root" or (row.fingerprint ^ kept.fingerprint).bit_count() <= 6
                beyond += bool(kept.length and row.length * 10 >= kept.length * 11)
    return beyond


def round_half_up(length: int, of_original: int) -> int:
    return min(RATIO_MAX, (2_000 * length + of_original) // (2 * of_original))


@examples(12)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 3), st.floats(0.4, 1), st.data())
def test_pages_in_frames_are_decided_as_brute_force_does(
    seed: int, count: int, sites: int, filled: float, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    signatures = pack_bins(site(generator, count, sites, filled), 8)
    hosts, lengths = hosts_of(generator, count, sites), generator.integers(100, 140, count).astype(np.uint32)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=6)))
    cuts = data.draw(st.sampled_from([cuts, list(range(1, count))]))
    longer = data.draw(st.sampled_from([TENTH, Longer(1_000, 1_500), Longer(0, 1_000), Longer(1_000, 0)]))
    oracle = BruteForceFrames(PARAMETERS, longer.ten_thousandths, longer.new_max)
    expected = [oracle.decide(signatures[row], hosts[row], str(row), int(lengths[row])) for row in range(count)]
    with TemporaryDirectory() as folder:
        with opened(Path(folder), PARAMETERS, sizes=SMALL, longer=longer) as index:
            assert list(told(index, signatures, hosts, cuts, lengths=lengths)) == expected
        assert wrong(Path(folder)) == {}


def test_pages_meet_every_verdict() -> None:
    """The control of the test above: no verdict is missing from it."""
    generator = np.random.default_rng(3)
    signatures = pack_bins(np.concatenate([site(generator, 90, 2, 1.0), site(generator, 90, 1, 1.0)]), 8)
    hosts, lengths = hosts_of(generator, 180, 2), generator.integers(100, 140, 180).astype(np.uint32)
    oracle = BruteForceFrames(PARAMETERS, 1_000, 1_500)
    verdicts = {oracle.decide(signatures[row], hosts[row], str(row), int(lengths[row]))[0] for row in range(180)}
    assert verdicts == {"unique", "duplicate", "template", "extends", "adds"}


@pytest.mark.parametrize(("length", "verdict"), [(1_000, Verdict.DUPLICATE), (1_060, Verdict.EXTENDS)])
def test_of_pages_in_one_frame_the_whole_lengths_say_how_much_longer_the_own_texts_are(
    length: int, verdict: Verdict, tmp_path: Path
) -> None:
    """Half of each page is the frame. An edited copy has more own bins, and no more text."""
    generator = np.random.default_rng(4)
    pages = np.tile(generator.integers(1, 256, BINS).astype(np.uint8), (41, 1))
    pages[:, ::2] = generator.integers(1, 256, (41, BINS // 2))
    pages[40] = pages[39]
    pages[40, :16] ^= 0x55
    lengths = np.append(np.full(40, 1_000), length).astype(np.uint32)
    with opened(tmp_path, PARAMETERS, longer=TENTH) as index:
        decided = index.admit(batch_of(pack_bins(pages, 8), 0, 41, ["host"] * 41, lengths=lengths), {ONE: 41})
    assert decided.original_ids[40] == "39"
    assert decided.verdicts[40] == verdict


@pytest.mark.parametrize("longer", [Longer(1_000), None])
def test_new_text_that_other_pages_of_the_host_have_too_makes_a_page_longer(
    longer: Longer | None, tmp_path: Path
) -> None:
    """Half of each page is its own text. Two of four sections, a sixteenth of the bins each, are on every page."""
    generator = np.random.default_rng(4)
    menu = generator.integers(1, 256, BINS).astype(np.uint8)
    sections = [np.arange(at, at + BINS // 16) for at in range(0, BINS // 4, BINS // 16)]
    pages = np.tile(menu, (41, 1))
    pages[:, BINS // 2 :] = generator.integers(1, 256, (41, BINS // 2))
    for row in range(40):
        for section in generator.choice(4, 2, replace=False).tolist():
            pages[row, sections[section]] = generator.integers(1, 256, BINS // 16)
    pages[40] = pages[39]
    pages[40, : BINS // 4] = menu[: BINS // 4]
    assert (pages[40] != pages[39]).any()
    lengths = np.append(np.full(40, 1_000), 1_140).astype(np.uint32)
    with opened(tmp_path, PARAMETERS, longer=longer) as index:
        decided = index.admit(batch_of(pack_bins(pages, 8), 0, 41, ["host"] * 41, lengths=lengths), {ONE: 41})
    assert decided.original_ids[40] == "39"
    assert decided.verdicts[40] == (Verdict.DUPLICATE if longer is None else Verdict.EXTENDS)


@pytest.mark.parametrize(("changed", "verdict"), [(8, Verdict.DUPLICATE), (12, Verdict.ADDS)])
@pytest.mark.parametrize("growth", [0, 1_000])
def test_a_document_with_more_new_text_than_a_drop_may_lose_is_kept_whatever_its_length(
    changed: int, verdict: Verdict, growth: int, tmp_path: Path
) -> None:
    """Of 64 bins 8 differ: a similarity of .875 and .067 new. With 12 it is .81 and .103."""
    pages = np.tile(np.random.default_rng(6).integers(1, 256, BINS).astype(np.uint8), (3, 1))
    pages[1, :changed] ^= 0x55
    pages[2] = pages[1]
    lengths = np.array([1_000, 1_000, 1_030], np.uint32)
    batch = batch_of(pack_bins(pages, 8), 0, 3, lengths=lengths)
    with opened(tmp_path, PARAMETERS, longer=Longer(growth, 1_000)) as index:
        checked = index.check(batch.take(np.array([0])))
        decided = index.admit(batch, {ONE: 3})
    assert checked.verdicts.tolist() == [Verdict.UNIQUE]
    assert decided.verdicts[1] == verdict
    assert decided.original_ids[1] == "0"
    # Equal fingerprints are duplicates at any length.
    assert decided.verdicts[2] == Verdict.DUPLICATE
    assert decided.original_ids[2] == ("1" if verdict == Verdict.ADDS else "0")
    assert wrong(tmp_path) == {}


def test_without_known_lengths_no_new_text_is_estimated(tmp_path: Path) -> None:
    pages = np.tile(np.random.default_rng(6).integers(1, 256, BINS).astype(np.uint8), (2, 1))
    pages[1, :16] ^= 0x55
    with opened(tmp_path, PARAMETERS, longer=Longer(1_000, 0)) as index:
        decided = index.admit(batch_of(pack_bins(pages, 8), 0, 2), {ONE: 2})
    assert decided.verdicts.tolist() == [Verdict.UNIQUE, Verdict.DUPLICATE]


def minima(shingles: np.ndarray) -> np.ndarray:
    """A signature of 128 bins of 8 bits: the least hash by bin."""
    values = np.zeros(128, np.uint8)
    for shingle in sorted(shingles.tolist(), reverse=True):
        values[shingle % 128] = 1 + (shingle >> 7) % 255
    return values


@pytest.mark.parametrize("frames", [PARAMETERS.frames, None])
def test_a_whole_text_after_its_teaser_is_kept_and_a_teaser_after_the_whole_is_not(frames: Any, tmp_path: Path) -> None:
    """Teasers are 75 to 90 % of the text."""
    generator = np.random.default_rng(5)
    banding = Banding(128, 8, 17, 5)
    parameters = Parameters(1_024, 3_000, "root", {}, banding, root=RootRule(5_000, 500), frames=frames)
    texts = [generator.integers(0, 2**40, 1_000) for _ in range(60)]
    shares = generator.uniform(0.75, 0.9, 60)
    whole = pack_bins(np.array([minima(text) for text in texts]), 8)
    lengths = np.full(60, 1_004, np.uint32)
    cut = [text[: int(share * 1_000)] for text, share in zip(texts, shares, strict=True)]
    teasers = pack_bins(np.array([minima(text) for text in cut]), 8)
    of_teasers = np.array([len(text) + 4 for text in cut], np.uint32)
    drops = []
    for first, second, longer in (
        ((teasers, of_teasers), (whole, lengths), TENTH),
        ((teasers, of_teasers), (whole, lengths), None),
        ((whole, lengths), (teasers, of_teasers), TENTH),
    ):
        signatures, letters = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
        with opened(tmp_path / str(len(drops)), parameters, longer=longer) as index:
            decided = index.admit(batch_of(signatures, 0, 120, lengths=letters), {ONE: 120})
        assert set(decided.verdicts[:60].tolist()) == {Verdict.UNIQUE}
        drops.append(int(np.count_nonzero(decided.verdicts[60:] == Verdict.DUPLICATE)))
        extends = decided.verdicts == Verdict.EXTENDS
        assert (decided.ratios[extends] >= 1_100).all()
        assert [decided.original_ids[row] for row in np.flatnonzero(extends)] == [
            str(row - 60) for row in np.flatnonzero(extends).tolist()
        ]
    kept, without, reversed_ = drops
    assert kept == 0
    assert without > 50
    assert reversed_ == without


def filled(index: Index, rows: list[Row]) -> tuple[Entries, Any]:
    entries = entries_of(rows)
    return entries, index.admit(entries, ends_of(rows))


def test_a_replay_a_restoration_and_an_import_give_verdicts_and_ratios_again(tmp_path: Path) -> None:
    rows = rows_of(np.random.default_rng(2), 120)
    with opened(tmp_path / "first", MEMBERS, longer=TENTH) as index:
        entries, decided = filled(index, rows)
        again = index.admit(entries, {})
        positions = decided.original_positions
        with opened(tmp_path / "imported", MEMBERS) as other:
            records = snapshot(index, lambda taken: list(taken.records()))
            Importer(other).begin([(ONE.stream, "")])
            Importer(other).add(records)
            Importer(other).finish(index.applied())
            imported = other.admit(entries, {})
            assert snapshot(other, lambda taken: list(taken.records())) == records
    with opened(tmp_path / "restored", MEMBERS) as index:
        standing = [Verdict.UNIQUE, Verdict.EXTENDS, Verdict.DUPLICATE]
        assert sorted(set(decided.verdicts.tolist())) == sorted(standing)
        index.restore(entries, decided.verdicts, positions, {ONE: 120})
        restored = index.admit(entries, {})
    for other_decisions in (again, imported, restored):
        assert other_decisions.replayed.all()
        for name in ("verdicts", "distances", "ratios"):
            assert getattr(other_decisions, name).tolist() == getattr(decided, name).tolist(), name
        assert other_decisions.original_positions == positions
    assert (decided.ratios[decided.verdicts == Verdict.EXTENDS] >= 1_100).all()
    assert wrong(tmp_path / "restored") == wrong(tmp_path / "imported") == {}


def test_a_document_whose_original_was_lost_is_restored_as_unique(tmp_path: Path) -> None:
    with opened(tmp_path, MEMBERS) as index:
        entries, lost = entries_of([Row(7, 5, length=130)]), [Position(ONE, 3)]
        assert index.restore(entries, np.array([Verdict.EXTENDS], np.uint8), lost).restored == 1
        replayed = index.admit(entries, {})
    assert (replayed.verdicts.tolist(), replayed.ratios.tolist()) == ([Verdict.UNIQUE], [0])


def test_the_ratio_is_replayed_after_the_original_has_expired(tmp_path: Path) -> None:
    with opened(tmp_path, MEMBERS, longer=TENTH, retention=Retention(entries_max=5)) as index:
        filled(index, [Row(0, 0, length=100)])
        longer, (_, decided) = [Row(1, 1, length=150)], filled(index, [Row(1, 1, length=150)])
        assert (decided.verdicts.tolist(), decided.ratios.tolist()) == ([Verdict.EXTENDS], [1_500])
        for offset in range(2, 6):
            filled(index, [Row(offset, 0x3FF << 10 * offset, length=100)])
        filled(index, [Row(6, 0, kind=Kind.UNDECIDABLE)])
        assert index.documents([0]) == [None]
        replayed = index.admit(entries_of(longer), {})
    assert replayed.replayed.all()
    assert (replayed.verdicts.tolist(), replayed.ratios.tolist()) == ([Verdict.EXTENDS], [1_500])


@pytest.mark.parametrize(
    ("length", "verdict"), [(1_099, Verdict.DUPLICATE), (1_100, Verdict.EXTENDS), (0, Verdict.DUPLICATE)]
)
def test_the_limit_is_met_in_integers_and_an_unknown_length_is_never_beyond_it(
    length: int, verdict: Verdict, tmp_path: Path
) -> None:
    with opened(tmp_path, MEMBERS, longer=TENTH) as index:
        _, decided = filled(index, [Row(0, 0, length=1_000), Row(1, 1, length=length), Row(2, 0, length=9_000)])
    # The last one equals the original.
    assert decided.verdicts.tolist() == [Verdict.UNIQUE, verdict, Verdict.DUPLICATE]


def test_a_documents_length_and_ratio_saturate(tmp_path: Path) -> None:
    rows = [Row(0, 0, length=1), Row(1, 1, length=2**32 - 1), Row(2, 1, length=2**24)]
    with opened(tmp_path, MEMBERS, longer=TENTH) as index:
        _, decided = filled(index, rows)
        replayed = index.admit(entries_of(rows), {})
    assert decided.ratios.tolist() == replayed.ratios.tolist() == [0, RATIO_MAX, 4]


def test_padded_pages_of_a_host_are_watched_and_none_is_a_suspect(tmp_path: Path) -> None:
    rows = [replace_host(Row(offset, 1 << offset, length=int(100 * 1.3**offset))) for offset in range(20)]
    guard = Guard(share_max=0.5, documents_min=4, suspects=True)
    with opened(tmp_path, MEMBERS, longer=TENTH, guard=guard) as index:
        verdicts = [int(filled(index, [row])[1].verdicts[0]) for row in rows]
        (worst,) = index.watched_hosts().worst
    assert Verdict.SUSPECT not in verdicts
    assert worst.beyond
    assert worst.unequal >= verdicts.count(Verdict.EXTENDS) - 4 > 0


def replace_host(row: Row) -> Row:
    return row._replace(host="padded.example")


def test_lengths_of_another_shape_are_refused(tmp_path: Path) -> None:
    entries = replace(entries_of([Row(0, 0)]), lengths=np.zeros(2, np.uint32))
    with opened(tmp_path) as index, pytest.raises(ValueError, match="lengths must be uint32"):
        index.admit(entries, {})
