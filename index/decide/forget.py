"""Forgetting: documents that were entered, and shall match nothing any more.

A forgotten document leaves the tables in which entries are found. What was decided stays: its own verdict, those that name
it as their original, and its number, which is never given again.
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
    """A `progress` that nobody watches."""


class IdScan:
    """One scan of all documents for ids, portion by portion: there is no table by id.

    An original that is found brings the duplicates that entered after it along where `with_duplicates`; they have
    higher numbers, so one pass finds them.
    """

    def __init__(self, ids: Collection[str], *, with_duplicates: bool) -> None:
        self._ids = ids
        self._with_duplicates = with_duplicates
        self._originals: set[int] = set()
        self.numbers: list[int] = []
        """The documents found so far, ascending."""
        self.roots: list[int] = []
        """The original of each."""
        self.asked: list[bool] = []
        """Whether each has one of the ids itself."""
        self.next_number = 0
        """All documents below this number were examined."""

    def step(self, session: ReadSession) -> bool:
        """Examine the next portion; False where there is none."""
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
    """The work of `Index.find`.

    Each portion is read by itself, so that no long read keeps writers from using free pages again.
    """
    of_ids = IdScan(ids, with_duplicates=False)
    while opened.read(of_ids.step):
        progress(of_ids.next_number)
    numbers = np.array(of_ids.numbers, np.uint64)
    found = opened.read(lambda session: documents.read(session.transaction, numbers, session.words))
    return sorted(found.values())


def forget(opened: OpenIndex, ids: Collection[str], progress: Callable[[int], None] = ignored) -> list[Document]:
    """The work of `Index.forget`: the scan without the writer lock, its last steps and the removal with it."""
    of_ids = IdScan(ids, with_duplicates=True)
    while opened.read(of_ids.step):
        progress(of_ids.next_number)

    def operation(session: WriteSession) -> list[Document]:
        # A running service does not wait: documents have entered since the last step.
        while of_ids.step(session):
            pass
        numbers, roots = np.array(of_ids.numbers, np.uint64), np.array(of_ids.roots, np.uint64)
        alive, asked = session.visibility.are(session.transaction, numbers), np.array(of_ids.asked, np.bool_)
        numbers = numbers[alive & (asked | np.isin(roots, numbers[alive & asked & (roots == numbers)]))]
        found = documents.read(session.transaction, numbers, session.words)
        remove(session, numbers)
        return sorted(found.values())

    return opened.write(operation)


def remove(session: WriteSession, numbers: npt.NDArray[np.uint64]) -> None:
    """Take documents, uint64 [n] ascending, that are not retired out of the tables in which entries are found."""
    parts = []
    for batch, places, _ in log.holding(session.transaction, numbers, session.words):
        rows = batch.rows[batch.entered()[places]]
        columns = batch.numbers()[places], batch.fingerprints[places], rows["kind"].copy(), rows["filing"].copy()
        parts.append(Leaving(*columns))
    if parts:
        leaving = Leaving(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        retire(session, leaving, Change.FORGOTTEN)
