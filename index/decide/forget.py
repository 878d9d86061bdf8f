"""Forgetting: removal of documents, which then match nothing any more.

A forgotten document leaves the tables of entries. All decisions stay: its own verdict and the verdicts that name it as
their original. Its number stays, too, and is never reused.
"""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from index.decide.retire import Leaving, retire
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import documents, log, scan
from index.storage.documents import Document
from index.storage.layout import Change


def ignored(_: int) -> None:
    """A `progress` that does nothing."""


class IdScan:
    """Scan of all documents for ids, portion by portion, as no table is keyed by id.

    with_duplicates  an original takes along the duplicates that entered after it; their numbers are higher, so one pass
                     finds them
    """

    def __init__(self, ids: Collection[str], *, with_duplicates: bool) -> None:
        self._ids = ids
        self._with_duplicates = with_duplicates
        self._originals: set[int] = set()
        self.numbers: list[int] = []
        """Numbers of the documents found so far, ascending."""
        self.roots: list[int] = []
        """Number of each document's original."""
        self.asked: list[bool] = []
        """Whether each document itself has one of the ids."""
        self.next_number = 0
        """End of the documents examined so far."""

    def step(self, session: ReadSession) -> bool:
        """Examine the next portion; returns False at the end."""
        stored = scan.portion(session.transaction, session.words, self.next_number)
        if stored is None:
            return False
        asked = np.fromiter((id_ in self._ids for id_ in stored.ids), np.bool_, len(stored.ids))
        roots, chosen = stored.columns["root"], asked
        if self._with_duplicates:
            self._originals.update(stored.numbers[asked & (roots == stored.numbers)].tolist())
            chosen = asked | np.isin(roots, np.fromiter(self._originals, np.uint64, len(self._originals)))
        self.numbers += stored.numbers[chosen].tolist()
        self.roots += roots[chosen].tolist()
        self.asked += asked[chosen].tolist()
        self.next_number = int(stored.numbers[-1]) + 1
        return True


def find(opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
    """Implementation of `Index.find`.

    Every portion has a read session of its own, because a long one keeps writers from reusing free pages.
    """
    of_ids = IdScan(ids, with_duplicates=False)
    while opened.read(of_ids.step):
        progress(of_ids.next_number)
    numbers = np.array(of_ids.numbers, np.uint64)
    found = opened.read(lambda session: documents.read(session.transaction, numbers, session.words))
    return sorted(found.values())


def forget(opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
    """Implementation of `Index.forget`: scans without the writer lock; takes it for the last steps and the removal."""
    of_ids = IdScan(ids, with_duplicates=True)
    while opened.read(of_ids.step):
        progress(of_ids.next_number)

    def operation(session: WriteSession) -> list[Document]:
        # A running service does not wait: documents may have entered since the last step.
        while of_ids.step(session):
            pass
        numbers, roots = np.array(of_ids.numbers, np.uint64), np.array(of_ids.roots, np.uint64)
        visible, asked = session.visibility.are(session.transaction, numbers), np.array(of_ids.asked, np.bool_)
        numbers = numbers[visible & (asked | np.isin(roots, numbers[visible & asked & (roots == numbers)]))]
        found = documents.read(session.transaction, numbers, session.words)
        remove(session, numbers)
        return sorted(found.values())

    return opened.write(operation)


def remove(session: WriteSession, numbers: npt.NDArray[np.uint64]) -> None:
    """Remove documents from the tables of entries; numbers uint64 [n], ascending, none of them retired."""
    parts = []
    for batch, places, _ in log.holding(session.transaction, numbers, session.words):
        rows = batch.rows[batch.entered()[places]]
        columns = batch.numbers()[places], batch.fingerprints[places], rows["kind"].copy(), rows["filing"].copy()
        parts.append(Leaving(*columns))
    if parts:
        leaving = Leaving(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        retire(session, leaving, Change.FORGOTTEN)
