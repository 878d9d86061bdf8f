from pathlib import Path

from index.session import Retention
from index.tools import survey
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.indexes import opened


def test_a_survey_tells_where_entries_stand_and_how_far_each_source_has_come(tmp_path: Path) -> None:
    rows = [Row(offset, 0xFFFF << 2 * offset, time_ms=1_000 + offset) for offset in range(20)]
    with opened(tmp_path, retention=Retention(age_max_ms=500)) as index:
        assert survey(index).ages == {}
        index.admit(entries_of(rows), ends_of(rows))
        found = survey(index)
    assert found.stats.memtable_entries == found.buckets.sizes.sum() / 4 > 0
    assert {source: age.watermark_ms for source, age in found.ages.items()} == {ONE: 1_010}
