"""Forgetting: removed documents match nothing any more.

A forgotten document leaves the entry tables. Its decision stays, as do those that name it as original. Its number is
never reused.
"""

from collections.abc import Callable, Collection
from itertools import islice

import numpy as np
import numpy.typing as npt

from index.decide.retire import remove
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, log
from index.storage.documents import Document
from index.stories import fold as stories
from index.versions.by_id import numbers_of_ids

PORTION_BATCHES = 16
"""Log batches examined in one read session."""


def ignored(_: int) -> None:
    """Ignore progress."""


class IdScan:
    """Scans the documents from the first with one of the ids on, portion by portion.

    No table lists the duplicates that an original takes along. They have higher numbers, so one pass suffices.

    >>> opened.read(IdScan({"https://example.com/a"}).step)
    False
    """

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self._originals: set[int] = set()
        self.numbers: list[int] = []
        """Numbers of the chosen documents, ascending."""
        self.roots: list[int] = []
        """Number of each document's original."""
        self.asked: list[bool] = []
        """Whether the document itself has one of the ids."""
        self.next_number = 0
        """End of the documents examined so far."""

    def begin(self, session: ReadSession) -> None:
        """Skip the documents before the first with one of the ids."""
        numbers = numbers_of_ids(session, self._ids)
        self.next_number = int(numbers[0]) if len(numbers) else session.counters.next_number

    def step(self, session: ReadSession) -> bool:
        """Examine the next portion; False at the end."""
        begin, batches = self.next_number, log.since(session.transaction, self.next_number, session.words)
        left = (batch for batch in batches if batch.end_number > max(begin, batch.first_number))
        for batch in islice(left, PORTION_BATCHES):
            numbers, roots = batch.numbers(), batch.rows["number"][batch.entered()]
            asked = np.array([id_ in self._ids for id_ in batch.ids(batch.entered())], np.bool_)
            # Documents 5, 6, 7 with roots 5, 5, 7, and 5 asked for: 6 goes too.
            self._originals.update(numbers[asked & (roots == numbers)].tolist())
            chosen = asked | np.isin(roots, np.fromiter(self._originals, np.uint64, len(self._originals)))
            self.numbers += numbers[chosen].tolist()
            self.roots += roots[chosen].tolist()
            self.asked += asked[chosen].tolist()
            self.next_number = batch.end_number
        return self.next_number > begin


def forget(opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
    """Implementation of `Index.forget`."""
    if opened.parameters.insert == "unique":
        return opened.write(lambda session: _removed(session, numbers_of_ids(session, ids)))
    return _with_duplicates(opened, ids, progress)


def _with_duplicates(opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None]) -> list[Document]:
    """Forget documents, and originals together with their duplicates.

    Scans without the writer lock; takes it for the last steps and the removal. Every portion has its own read session,
    because a long one keeps writers from reusing free pages.
    """
    scan = IdScan(ids)
    opened.read(scan.begin)
    while opened.read(scan.step):
        progress(scan.next_number)

    def operation(session: WriteSession) -> list[Document]:
        # A running service does not wait: documents may have entered since the last step.
        while scan.step(session):
            pass
        numbers, roots = np.array(scan.numbers, np.uint64), np.array(scan.roots, np.uint64)
        # A duplicate leaves only with an original that still counts.
        visible, asked = session.visibility.visible(numbers), np.array(scan.asked, np.bool_)
        return _removed(session, numbers[asked | np.isin(roots, numbers[visible & asked & (roots == numbers)])])

    return opened.write(operation)


def _removed(session: WriteSession, numbers: npt.NDArray[np.uint64]) -> list[Document]:
    """Remove and return the visible documents among `numbers`, uint64 [n], ascending."""
    visible = numbers[session.visibility.visible(numbers)]
    removed = documents.read(session.transaction, visible, session.words)
    remove(session, visible)
    stories.forget(session, numbers)
    return sorted(removed.values())
