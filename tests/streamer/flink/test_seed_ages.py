"""Places in an index's records become keys of a flow."""

import numpy as np
import pytest

from index import Source
from index.entry import given_back_source
from index.tools import RecordedAge
from streamer.errors import SettingsError
from streamer.flink.seed_ages import SourceAges

OLD, NEW, OTHER = Source("old", 1), Source("new", 1), Source("old", 2)
NO_TIMES = np.empty(0, np.int64)


def told(recorded: dict[Source, RecordedAge], *records: Source) -> SourceAges:
    """Ages after these records, each with a batch and so a time of its own."""
    ages = SourceAges(recorded)
    for place, source in enumerate(records):
        ages.reach(place, source, (place + 1, 0))
    ages.end((len(records) + 1, 0))
    return ages


def test_a_source_begins_with_its_first_record_and_has_expired_before_a_place() -> None:
    age = RecordedAge(1_600, np.arange(20), expired=2, notes=[(1_500, 3), (1_600, 4)])
    (found,) = told({OTHER: age}, OLD, OTHER, OTHER, OTHER).of_partition(2)
    assert found[:2] == ("old", 1_600)
    assert (found.begin, found.end) == ((2, 0), (3, 0))
    assert found.notes.tolist() == [(1_500, 4, 0), (1_600, 5, 0)]
    assert found.latest_ms.tolist() == list(range(20))


def test_a_source_that_has_expired_before_its_first_record_begins_there() -> None:
    (found,) = told({OTHER: RecordedAge(9, NO_TIMES, expired=1, notes=[])}, OLD, OLD, OTHER).of_partition(2)
    assert found.begin == found.end == (3, 0)


def test_the_last_topic_of_a_partition_goes_on_and_the_others_stay_as_they_are() -> None:
    recorded = {
        OLD: RecordedAge(7, NO_TIMES, expired=1, notes=[(7, 2)]),
        NEW: RecordedAge(9, NO_TIMES, expired=0, notes=[(9, 3)]),
    }
    former, current = told(recorded, OLD, OLD, NEW).of_partition(1)
    assert (former.stream, former.begin, former.end, len(former.notes)) == ("old", (1, 0), (2, 0), 0)
    assert (current.stream, current.begin, current.notes.tolist()) == ("new", (3, 0), [(9, 4, 0)])


def test_a_topic_without_times_or_without_records_is_known_too() -> None:
    without_records = RecordedAge(9, NO_TIMES, expired=0, notes=[])
    former, current = told({NEW: without_records, given_back_source(NEW): without_records}, OLD).of_partition(1)
    assert (former.stream, former.watermark_ms, former.begin) == ("old", -1, (1, 0))
    assert (current.stream, current.watermark_ms, current.begin) == ("new", 9, (2, 0))
    assert told({}, OLD).of_partition(2) == []


def test_topics_that_alternate_in_one_partition_are_refused_by_name() -> None:
    ages = told({}, OLD, NEW, OLD, OTHER)
    with pytest.raises(SettingsError, match=r"index\.age_max_hours: in partition 1 .* stream new between those of old"):
        ages.of_partition(1)
    assert len(ages.of_partition(2)) == 1
