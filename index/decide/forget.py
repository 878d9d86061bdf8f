"""Forgetting: removed documents match nothing any more.

A forgotten document leaves the entry tables. Its decision stays, as do those that name it as original. Its number is
never reused.
"""

from collections.abc import Callable, Collection
from itertools import islice

import numpy as np
import numpy.typing as npt

from index.decide.retire import remove
from index.entry import Source, given_back_source
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, log
from index.storage.bases import are_own
from index.storage.documents import Document
from index.storage.sources import begin_with, known_number
from index.stories import fold as stories
from index.versions.by_id import numbers_of_ids

PORTION_BATCHES = 16
"""Log batches examined in one read session."""

ROWS_AT_ONCE = 1 << 16
"""Documents of a stream removed in one transaction."""

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]
Chooser = Callable[[ReadSession, log.Batch], Flags]
"""Which of a batch's documents are asked for: bool [entered]."""


def ignored(_: int) -> None:
    """Ignore progress."""


def with_ids(ids: Collection[str]) -> Chooser:
    """Choose documents by id."""

    def chosen(_session: ReadSession, batch: log.Batch) -> Flags:
        return np.array([id_ in ids for id_ in batch.ids(batch.entered())], np.bool_)

    return chosen


def from_streams(streams: Collection[str]) -> Chooser:
    """Choose all documents of streams, also those given back."""
    both = [*streams, *(given_back_source(Source(stream, 0)).stream for stream in streams)]

    def chosen(session: ReadSession, batch: log.Batch) -> Flags:
        asked = {known_number(session.transaction, stream) for stream in both}
        are_asked = np.array([stream in asked for stream in batch.sources["stream"].tolist()], np.bool_)
        rows: Flags = are_asked[batch.rows["source"][batch.entered()]]
        return rows

    return chosen


def with_names(prefix: str) -> Chooser:
    """Choose documents whose id begins so (`begin_with`). Raises ValueError for an empty prefix."""
    if not prefix:
        raise ValueError("an empty prefix would be that of all documents")

    def chosen(session: ReadSession, batch: log.Batch) -> Flags:
        rows = batch.rows[batch.entered()]
        sources, ids = batch.sources[rows["source"]], batch.ids(batch.entered())
        return begin_with(session.transaction, prefix, ids, sources, rows["offset"])

    return chosen


class Scan:
    """Scans the documents from a number on, portion by portion, for chosen ones and the duplicates of chosen originals.

    No table lists the duplicates that an original takes along. They have higher numbers, so one pass suffices.

    >>> opened.read(Scan(with_ids({"https://example.com/a"})).step)
    False
    """

    def __init__(self, chooser: Chooser, first: int = 0) -> None:
        self._chooser = chooser
        self._is_original = np.zeros(0, np.bool_)
        self._columns: list[tuple[Numbers, Numbers, Flags]] = []
        self.next_number = first
        """End of the documents examined so far."""

    def step(self, session: ReadSession) -> bool:
        """Examine the next portion; False at the end."""
        begin, batches = self.next_number, log.since(session.transaction, self.next_number, session.words)
        left = (batch for batch in batches if batch.end_number > max(begin, batch.first_number))
        for batch in islice(left, PORTION_BATCHES):
            numbers, roots = batch.numbers(), batch.rows["number"][batch.entered()]
            asked = self._chooser(session, batch)
            if batch.end_number > len(self._is_original):
                grown = np.zeros(2 * batch.end_number, np.bool_)
                grown[: len(self._is_original)] = self._is_original
                self._is_original = grown
            # Documents 5, 6, 7 with roots 5, 5, 7, and 5 asked for: 6 goes too.
            self._is_original[numbers[asked & (roots == numbers)]] = True
            own = are_own(roots)
            chosen = asked.copy()
            chosen[own] |= self._is_original[roots[own]]
            self._columns.append((numbers[chosen], roots[chosen], asked[chosen]))
            self.next_number = batch.end_number
        return self.next_number > begin

    def leaving(self, session: ReadSession) -> Numbers:
        """Examine the rest. Returns the numbers of all that leave, uint64 [n], ascending, whether they still count or not.

        A duplicate leaves only with an original that still counts.
        """
        while self.step(session):
            pass
        columns = [*self._columns, (np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.bool_))]
        numbers, roots, asked = (np.concatenate(column) for column in zip(*columns, strict=True))
        visible = session.visibility.visible(numbers)
        leaving: Numbers = numbers[asked | np.isin(roots, numbers[visible & asked & (roots == numbers)])]
        return leaving


def forget(
    opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None] = ignored, *, dry_run: bool = False
) -> list[Document]:
    """Implementation of `Index.forget`."""

    def first(session: ReadSession) -> int:
        numbers = numbers_of_ids(session, ids)
        return int(numbers[0]) if len(numbers) else session.counters.next_number

    def found(session: ReadSession) -> Numbers:
        # Only originals are entries.
        if opened.parameters.insert == "unique":
            return numbers_of_ids(session, ids)
        return scan.leaving(session)

    scan = Scan(with_ids(ids), opened.read(first))
    if opened.parameters.insert != "unique":
        _scan_ahead(opened, scan, progress)
    if dry_run:
        return opened.read(lambda session: _visible(session, found(session))[1])
    return opened.write(lambda session: _removed(session, found(session)))


def forget_all(
    opened: OpenIndex, chooser: Chooser, progress: Callable[[int], None] = ignored, *, dry_run: bool = False
) -> int:
    """Implementation of `Index.forget_streams` and `Index.forget_names`."""
    scan = Scan(chooser)
    _scan_ahead(opened, scan, progress)
    if dry_run:
        return opened.read(lambda session: int(session.visibility.visible(scan.leaving(session)).sum()))
    removed, end = 0, np.uint64(2**64 - 1)

    def operation(session: WriteSession) -> tuple[Numbers, int]:
        numbers = scan.leaving(session)
        # The newest first: whatever is left after a kill still has its original, and goes by the next command.
        newest = numbers[numbers < end][-ROWS_AT_ONCE:]
        return newest, len(_removed(session, newest))

    while True:
        newest, count = opened.write(operation)
        if not len(newest):
            return removed
        removed, end = removed + count, newest[0]


def _scan_ahead(opened: OpenIndex, scan: Scan, progress: Callable[[int], None]) -> None:
    """Scan without the writer lock, which waits for the last steps and the removal.

    Every portion has its own read session, because a long one keeps writers from reusing free pages. A running service
    does not wait: documents may have entered since the last step.
    """
    while opened.read(scan.step):
        progress(scan.next_number)


def _removed(session: WriteSession, numbers: Numbers) -> list[Document]:
    """Remove and return the visible documents among `numbers`, uint64 [n], ascending."""
    visible, removed = _visible(session, numbers)
    remove(session, visible)
    stories.forget(session, numbers)
    return removed


def _visible(session: ReadSession, numbers: Numbers) -> tuple[Numbers, list[Document]]:
    visible = numbers[session.visibility.visible(numbers)]
    return visible, sorted(documents.read(session.transaction, visible, session.words).values())
