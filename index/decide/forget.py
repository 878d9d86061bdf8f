"""Forgetting: documents that were entered and shall no longer be matched.

A forgotten document leaves the tables that are searched. What was decided stays: its own verdict, those that name it as
their original, and its number, which is never given again.
"""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from index.decide.retire import Leaving, retire
from index.lsm.tree import Tree
from index.storage import documents, log, scan
from index.storage.counters import counters_of, put_counters
from index.storage.documents import Document
from index.storage.layout import Change, Counters
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from index.storage.visibility import Visibility


def ignored(_: int) -> None:
    """Nobody is told how far it has come."""


class IdSearch:
    """Looks for ids through all documents, once over, portion by portion: there is no table by id.

    An original that is found brings the duplicates that entered after it along where `with_duplicates`; they have
    higher numbers, so one pass finds them.
    """

    def __init__(self, ids: Collection[str], words: int, *, with_duplicates: bool) -> None:
        self._ids = ids
        self._words = words
        self._with_duplicates = with_duplicates
        self._originals: set[int] = set()
        self.numbers: list[int] = []
        """What was found so far, ascending."""
        self.roots: list[int] = []
        """The original of each."""
        self.asked: list[bool] = []
        """Whether each has one of the ids itself."""
        self.next_number = 0
        """All documents below this number were looked at."""

    def step(self, transaction: Transaction) -> bool:
        """Look through the next portion; False where there is none."""
        stored = scan.portion(transaction, self._words, self.next_number)
        if stored is None:
            return False
        asked = np.fromiter((id_ in self._ids for id_ in stored.ids), np.bool_, len(stored.ids))
        roots, wanted = stored.columns["root"], asked
        if self._with_duplicates:
            self._originals.update(stored.numbers[asked & (roots == stored.numbers)].tolist())
            wanted = asked | np.isin(roots, np.fromiter(self._originals, np.uint64, len(self._originals)))
        self.numbers += stored.numbers[wanted].tolist()
        self.roots += roots[wanted].tolist()
        self.asked += asked[wanted].tolist()
        self.next_number = int(stored.numbers[-1]) + 1
        return True


def find(store: Store, ids: Collection[str], words: int, progress: Callable[[int], None] = ignored) -> list[Document]:
    """The documents that have one of these ids, retired ones too, ascending by number.

    Each portion is read by itself, so that no long read keeps writers from using free pages again.
    """
    tree = IdSearch(ids, words, with_duplicates=False)
    while store.read(tree.step):
        progress(tree.next_number)
    numbers = np.array(tree.numbers, np.uint64)
    found = store.read(lambda transaction: documents.read(transaction, numbers, words))
    return sorted(found.values())


def forget(
    store: Store,
    tree: Tree,
    ids: Collection[str],
    parameters: Parameters,
    progress: Callable[[int], None] = ignored,
) -> list[Document]:
    """The work of `Index.forget`: looking for the ids without the writer's lock, the last steps and the removal with it."""
    words = parameters.words
    of_ids = IdSearch(ids, words, with_duplicates=True)
    while store.read(of_ids.step):
        progress(of_ids.next_number)

    def operation(transaction: Transaction) -> list[Document]:
        tree.follow(transaction)
        # What entered since the last look: a running service does not wait for us.
        while of_ids.step(transaction):
            pass
        visibility = Visibility(transaction, words)
        numbers, roots = np.array(of_ids.numbers, np.uint64), np.array(of_ids.roots, np.uint64)
        alive, asked = visibility.are(transaction, numbers), np.array(of_ids.asked, np.bool_)
        numbers = numbers[alive & (asked | np.isin(roots, numbers[alive & asked & (roots == numbers)]))]
        found = documents.read(transaction, numbers, words)
        counters = remove(transaction, tree, visibility, numbers, words, counters_of(transaction))
        put_counters(transaction, counters)
        tree.advance(transaction, counters.next_number, counters.next_tombstone)
        return sorted(found.values())

    return store.write(operation, tree.committed)


def remove(
    transaction: Transaction,
    tree: Tree,
    visibility: Visibility,
    numbers: npt.NDArray[np.uint64],
    words: int,
    counters: Counters,
) -> Counters:
    """Take documents, uint64 [n] ascending, that are not retired out of what is searched; the counters behind it."""
    parts = []
    for batch, places, _ in log.holding(transaction, numbers, words):
        rows = batch.rows[batch.entered()[places]]
        columns = batch.numbers()[places], batch.fingerprints[places], rows["kind"].copy(), rows["filing"].copy()
        parts.append(Leaving(*columns))
    if not parts:
        return counters
    leaving = Leaving(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return retire(transaction, tree, visibility, leaving, Change.FORGOTTEN, counters)
