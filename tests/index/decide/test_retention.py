import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decide.retention import LATEST_RECORDS, LATEST_RECORDS_MIN, watermark_ms
from index.entry import Kind, Verdict
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.matching.minhash import banding_for
from index.session import Retention
from index.storage.layout import Times
from index.storage.parameters import Parameters
from index.tools import BulkLoader, Importer, survey
from tests.support.answers import answers_of
from tests.support.brute_force_index import BruteForceIndex
from tests.support.entries import ONE, TWO, Row, clustered_fingerprints, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import all_records, wrong
from tests.support.roots import root_rules, with_insert
from tests.support.tiers import first_of

SMALL = TreeSizes(8, 64)
DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000
IN_2099_MS = 4_070_908_800_000


def opened(directory: Path, parameters: Parameters, retention: Retention, **options: Any) -> Index:
    return Index.open(directory, parameters, retention=retention, **{"map_bytes_max": 2**30, "sizes": SMALL, **options})


def admitted(index: Index, rows: list[Row]) -> list[Verdict]:
    bits = index.parameters.bits
    return [Verdict(verdict) for verdict in index.admit(entries_of(rows, bits), ends_of(rows)).verdicts.tolist()]


def rows_in_time(generator: np.random.Generator, count: int, bits: int) -> list[Row]:
    """Near-duplicates, equal ones and exact ones of two sources whose time moves on, with some times far off or missing."""
    fingerprints = clustered_fingerprints(generator, count, bits, centres=5)
    now_ms = {ONE: BEGIN_MS, TWO: BEGIN_MS - 40 * DAY_MS}
    rows = []
    for offset, fingerprint in enumerate(fingerprints):
        source = (ONE, TWO)[int(generator.random() < 0.3)]
        now_ms[source] += int(generator.integers(0, DAY_MS))
        time_ms = int(generator.choice([now_ms[source], IN_2099_MS, 0, -1], p=[0.9, 0.04, 0.03, 0.03]))
        kind = Kind(int(generator.choice(4, p=[0.8, 0.12, 0.04, 0.04])))
        if kind is Kind.EXACT:
            fingerprint %= 5
        elif rows and generator.random() < 0.2:
            fingerprint = rows[int(generator.integers(len(rows)))].fingerprint
        rows.append(Row(offset, fingerprint, source, kind, offset % 5, time_ms, f"id {offset}"))
    return rows


@pytest.mark.parametrize("insert", ["unique", "root"])
@examples(25)
@given(st.data())
def test_what_has_expired_or_was_forgotten_matches_nothing_and_all_else_does(insert: Any, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([64, 128]))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = rows_in_time(generator, data.draw(st.integers(1, 240)), bits)
    entries_max = data.draw(st.sampled_from([None, 5, 40]))
    age_max_ms = data.draw(st.sampled_from([None, 4 * DAY_MS, 20 * DAY_MS]))
    root = root_rules(insert, 3, data)
    oracle = BruteForceIndex(3, entries_max, age_max_ms, root=root)
    retention, parameters = Retention(entries_max, age_max_ms), Parameters(bits, 3, insert, root=root)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        begin = 0
        while begin < len(rows):
            with opened(directory, parameters, retention) as index:
                for _ in range(int(generator.integers(1, 6))):
                    part = rows[begin : begin + int(generator.integers(1, 30))]
                    if not part:
                        break
                    found = answers_of(index.admit(entries_of(part, bits), ends_of(part)))
                    assert found == oracle.admit(entries_of(part, bits), ends_of(part))
                    begin += len(part)
                    if generator.random() < 0.2:
                        ids = {rows[int(generator.integers(begin))].id for _ in range(2)}
                        assert [document.id for document in index.forget(ids)] == oracle.forget(ids)
        assert wrong(directory) == {}


def test_the_newest_entries_count_and_no_others(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=0), Retention(entries_max=3)) as index:
        assert admitted(index, [Row(at, at) for at in range(5)]) == [Verdict.UNIQUE] * 5
        # 0 and 1 have expired; the others still count, and the new 0 is one more.
        assert admitted(index, [Row(5, 4), Row(6, 2), Row(7, 0)]) == [Verdict.DUPLICATE] * 2 + [Verdict.UNIQUE]
        assert admitted(index, [Row(8, 2), Row(9, 0)]) == [Verdict.UNIQUE, Verdict.DUPLICATE]


def test_one_record_of_the_year_2099_does_not_empty_the_index(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=0), Retention(age_max_ms=30 * DAY_MS)) as index:
        known = [Row(at, at + 100, time_ms=BEGIN_MS + at) for at in range(100)]
        admitted(index, known)
        admitted(index, [Row(100, 7, time_ms=IN_2099_MS)])
        again = [Row(101 + at, row.fingerprint, time_ms=BEGIN_MS + 200 + at) for at, row in enumerate(known)]
        assert admitted(index, again) == [Verdict.DUPLICATE] * 100


def test_time_that_moves_on_for_most_records_lets_entries_expire_and_no_clock_does(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=0), Retention(age_max_ms=30 * DAY_MS)) as index:
        admitted(index, [Row(at, at + 100, time_ms=BEGIN_MS) for at in range(100)])
        later = BEGIN_MS + 30 * DAY_MS
        assert admitted(index, [Row(100 + at, at + 100, time_ms=later) for at in range(40)]) == [Verdict.DUPLICATE] * 40
        assert (
            admitted(index, [Row(140 + at, at + 140, time_ms=later + 1) for at in range(40)]) == [Verdict.UNIQUE] * 40
        )


def test_a_source_whose_time_stands_still_keeps_its_entries(tmp_path: Path) -> None:
    with opened(tmp_path, Parameters(distance_max=0), Retention(age_max_ms=DAY_MS)) as index:
        admitted(index, [Row(at, at + 1, ONE, time_ms=BEGIN_MS) for at in range(20)])
        for day in range(20):
            offsets = range(20 * day, 20 * day + 20)
            admitted(index, [Row(at, 10_000 + at, TWO, time_ms=BEGIN_MS + day * DAY_MS) for at in offsets])
        assert admitted(index, [Row(20, 5, ONE, time_ms=BEGIN_MS), Row(400, 10_003, TWO, time_ms=BEGIN_MS)]) == [
            Verdict.DUPLICATE,
            Verdict.UNIQUE,
        ]


@given(st.lists(st.integers(-5, 10**6), max_size=200), st.integers(1, 40))
def test_a_watermark_is_the_median_of_the_latest_times_and_never_goes_back(times_ms: list[int], step: int) -> None:
    times, seen = Times(-1, np.empty(0, np.int64)), [-1]
    for begin in range(0, len(times_ms), step):
        times = watermark_ms(times, np.array(times_ms[begin : begin + step], np.int64))
        valid = [time for time in times_ms[: begin + step] if time > 0]
        latest = sorted(valid[-LATEST_RECORDS:])
        median = latest[len(latest) // 2] if len(latest) >= LATEST_RECORDS_MIN else -1
        assert times.watermark_ms == max(seen[-1], median)
        seen.append(times.watermark_ms)


@pytest.mark.parametrize("minhash_lookup_of", first_of(True, False))
@pytest.mark.parametrize("insert", ["unique", "root"])
def test_ten_times_the_retention_runs_through_a_small_map_and_the_file_does_not_grow(
    minhash_lookup_of: bool, insert: Any, tmp_path: Path
) -> None:
    banding = banding_for(64, 8, 0.7) if minhash_lookup_of else None
    bits, distance_max = (512, 300) if minhash_lookup_of else (64, 3)
    parameters = with_insert(Parameters(bits, distance_max, banding=banding), insert)
    keep, rows = 4_000, 200
    generator = np.random.default_rng(3)
    used: list[int] = []
    sizes = TreeSizes(1_000, 4096)
    with opened(tmp_path, parameters, Retention(entries_max=keep), map_bytes_max=2**26, sizes=sizes) as index:
        for begin in range(0, 10 * keep, rows):
            some = generator.integers(1, 256, (rows, parameters.bits // 8), dtype=np.uint8)
            # Some equal to each other, some too short for a distance to mean anything.
            some[: rows // 10] = some[rows // 2 : rows // 2 + rows // 10]
            batch = [
                Row(begin + at, int.from_bytes(each.tobytes(), "big"), kind=Kind(at % 7 == 0))
                for at, each in enumerate(some)
            ]
            index.admit(entries_of(batch, parameters.bits), ends_of(batch))
            used.append(index.statistics().used_bytes)
            assert index.statistics().entries + index.statistics().exact_entries <= keep + 10 * rows
    of_each_tenth = [max(used[at : at + keep // rows]) for at in range(0, len(used), keep // rows)]
    # Six tenths lie between: a file that let go of nothing would be several times as large. Free pages come to rest late.
    assert of_each_tenth[-1] <= 1.3 * of_each_tenth[3]
    assert (tmp_path / "data.mdb").stat().st_size <= 2**26
    assert wrong(tmp_path) == {}


@pytest.mark.parametrize("settings_", [{"entries_max": 0}, {"age_max_ms": 0}])
def test_a_retention_that_keeps_nothing_is_refused(settings_: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Retention(**settings_)


@pytest.mark.parametrize("how", ["restored", "loaded", "taken over"])
def test_what_enters_undecided_has_an_age_without_any_batch_behind_it(how: str, tmp_path: Path) -> None:
    fingerprints = [int(each) for each in np.random.default_rng(9).integers(0, 2**62, 120)]
    rows = [Row(offset, each, time_ms=BEGIN_MS + offset * DAY_MS // 10) for offset, each in enumerate(fingerprints)]
    with opened(tmp_path / "other", Parameters(), Retention()) as other:
        admitted(other, rows)
        found = all_records(other)
    with opened(tmp_path / "own", Parameters(), Retention(age_max_ms=DAY_MS)) as index:
        loading = BulkLoader(index)
        taking = Importer(loading)
        restore = index.restore if how == "restored" else loading.restore
        for begin in range(0, 120, 20):
            part = rows[begin : begin + 20]
            if how == "taken over":
                taking.add(found[begin : begin + 20])
            else:
                restore(entries_of(part), np.full(20, Verdict.UNIQUE, np.uint8), [None] * 20, ends_of(part))
        loading.finish()
        # The latest 63 have their median at day 8.8; the fifth batch was decided at day 6.8, the sixth just now.
        assert [age.expired_below for age in survey(index).ages.values()] == [100]
        again = [row._replace(offset=200 + row.offset) for row in rows]
        assert admitted(index, again) == [Verdict.UNIQUE] * 100 + [Verdict.DUPLICATE] * 20
    assert not wrong(tmp_path / "own")
