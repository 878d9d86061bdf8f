"""Ages of an index's sources for a seed: places in the index's records become keys in the flow. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from index import Source, is_given_back
from index.dataflow import NOTE, SourceAge
from index.tools import RecordedAge
from streamer.errors import SettingsError

Key = tuple[int, int]

_NEVER = 2**63
"""In place of a place: above all."""


class SourceAges:
    """Ages of an index's sources. Each record passes, in order. Then it has those of each partition.

    >>> ages = SourceAges({})
    >>> ages.reach(0, Source("topic", 0), (65_536, 0))
    >>> ages.end((65_536, 1))
    >>> [(age.stream, age.begin) for age in ages.of_partition(0)]
    [('topic', (65536, 0))]
    """

    def __init__(self, recorded: Mapping[Source, RecordedAge]):
        self._recorded = {source: age for source, age in recorded.items() if not is_given_back(source.stream)}
        places = {place for age in self._recorded.values() for place in (age.expired, *(at for _, at in age.notes))}
        self._due = sorted(places, reverse=True)
        self._keys: dict[int, Key] = {}
        # By source: the places of its first and last record, and the first one's key or a lower one.
        self._met: dict[Source, tuple[int, int, Key]] = {}

    def reach(self, place: int, source: Source, key: Key) -> None:
        """A source's record at this place comes next, and no key from this one on is taken."""
        self._pass_to(place, key)
        first, _, first_key = self._met.get(source, (place, place, key))
        self._met[source] = first, place, first_key

    def end(self, key: Key) -> None:
        """All records have come, and no key from this one on is taken."""
        self._pass_to(max(self._due, default=0), key)
        for source in self._recorded:
            self._met.setdefault(source, (_NEVER, _NEVER, key))

    def _pass_to(self, place: int, key: Key) -> None:
        while self._due and self._due[-1] <= place:
            self._keys[self._due.pop()] = key

    def of_partition(self, partition: int) -> Sequence[SourceAge]:
        """Ages of a partition's sources, the current one last.

        Raises SettingsError if records of one are between those of another: keys could not tell them apart.
        """
        sources = sorted((*met, source) for source, met in self._met.items() if source.partition == partition)
        for (_, last, _, source), (first, _, _, later) in pairwise(sources):
            if first < last:
                raise SettingsError(
                    f"index.age_max_hours: in partition {partition} the index has documents of the stream {later.stream} "
                    f"between those of {source.stream}, whose ages a job could not tell apart. Leave it out, or let the job "
                    "replay the fingerprints."
                )
        return [self._age(source, key, is_current=source == sources[-1][-1]) for _, _, key, source in sources]

    def _age(self, source: Source, first: Key, *, is_current: bool) -> SourceAge:
        age = self._recorded.get(source) or RecordedAge(-1, np.empty(0, np.int64), 0, ())
        end = max(first, self._keys.get(age.expired, first))
        notes = [(time_ms, *self._keys[place]) for time_ms, place in age.notes] if is_current else []
        return SourceAge(source.stream, age.watermark_ms, age.latest_ms, first, end, np.array(notes, NOTE))
