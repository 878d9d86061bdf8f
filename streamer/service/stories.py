"""Stories: roots with their duplicates, written to a topic as the index changes them."""

from collections.abc import Mapping, Sequence

from index import Index, Named, Position, Source
from streamer.explain.story import story_record
from streamer.records.record import Outgoing, Record
from streamer.service.recovery import Plan
from streamer.service.stream_names import StreamNames

STORIES_MAX = 1_000
"""Stories in a delivery, about."""


class Stories:
    """Due stories, with any delivery of the worker that has the turn to write them.

    A story counts what is decided, perhaps a batch before its outputs appear. It stays due until it is written, so a crash
    repeats it. Its topic keeps the order, for one worker at a time writes.

    >>> from index import Parameters
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     Stories(index).due([])
    []
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._names = StreamNames(index)
        self._mark = 0
        self._sizes: list[int] = []
        self.at: Position | None = None
        """Position of a record in the last delivery, or before the first one."""

    def begin(self, plans: Mapping[Source, Plan]) -> None:
        """Set `at` for stories that are due before the first delivery."""
        for source, plan in plans.items():
            self.at = Position(source, max(0, plan.begin - 1))

    def due(self, records: Sequence[Record]) -> list[Outgoing]:
        """Stories to deliver with these records."""
        if records:
            self.at = Position(records[0].source, records[0].offset)
        if self.at is None or not self._index.take_stories_turn():
            return []
        stories, self._mark = self._index.due_stories(STORIES_MAX)
        self._sizes = [story.documents for story in stories]
        named = [each for story in stories for each in story if isinstance(each, Named)]
        names = self._names.of([self.at, *(each.position for each in named)])
        return [story_record(story, names, self.at) for story in stories]

    def written(self) -> list[int]:
        """Note that the last due stories were delivered. Returns how many documents each has."""
        # Roots that have left the log are due and have no story.
        if self._mark:
            self._index.clear_stories(self._mark)
        sizes, self._sizes, self._mark = self._sizes, [], 0
        return sizes
