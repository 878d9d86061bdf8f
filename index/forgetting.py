"""Forgetting: documents that were entered and shall no longer be matched.

A forgotten document leaves the tables that are searched. What was decided stays: its own verdict, those that name it as
their original, and its number, which is never given again.
"""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from index import contents, schemes
from index.contents import Stored
from index.documents import Document
from index.entry import Kind
from index.layout import Table, pack_fingerprints, pack_numbers
from index.parameters import Parameters
from index.store import Store, Transaction


def ignored(_: int) -> None:
    """Nobody is told how far it has come."""


class Search:
    """Looks for ids through all documents, once over, portion by portion: there is no table by id.

    An original that is found brings the duplicates that entered after it along where `with_duplicates`; they have
    higher numbers, so one pass finds them.
    """

    def __init__(self, ids: Collection[str], words: int, *, with_duplicates: bool) -> None:
        self._ids = ids
        self._words = words
        self._with_duplicates = with_duplicates
        self._roots: set[int] = set()
        self.numbers: list[int] = []
        """What was found so far, ascending."""
        self.next_number = 0
        """All documents below this number were looked at."""

    def step(self, transaction: Transaction) -> bool:
        """Look through the next portion; False where there is none."""
        stored = contents.portion(transaction, self._words, self.next_number)
        if stored is None:
            return False
        self.numbers += self._found(stored).tolist()
        self.next_number = int(stored.numbers[-1]) + 1
        return True

    def _found(self, stored: Stored) -> npt.NDArray[np.uint64]:
        wanted = np.fromiter((id_ in self._ids for id_ in stored.ids), np.bool_, len(stored.ids))
        if self._with_duplicates:
            self._roots.update(stored.numbers[wanted & (stored.columns["root"] == stored.numbers)].tolist())
            wanted |= np.isin(stored.columns["root"], np.fromiter(self._roots, np.uint64, len(self._roots)))
        return stored.numbers[wanted]


def find(store: Store, ids: Collection[str], words: int, progress: Callable[[int], None] = ignored) -> list[Document]:
    """The documents that have one of these ids, forgotten ones too, ascending by number.

    Each portion is read by itself, so that no long read keeps writers from using free pages again.
    """
    search = Search(ids, words, with_duplicates=False)
    while store.read(search.step):
        progress(search.next_number)
    numbers = np.array(search.numbers, np.uint64)
    return store.read(lambda transaction: contents.as_documents(transaction, words, numbers))


def forget(
    store: Store, ids: Collection[str], parameters: Parameters, progress: Callable[[int], None] = ignored
) -> list[Document]:
    """The work of `Index.forget`: a search without the writer's lock, its last steps and the removal with it."""
    words = parameters.words
    search = Search(ids, words, with_duplicates=True)
    while store.read(search.step):
        progress(search.next_number)

    def operation(transaction: Transaction) -> list[Document]:
        # What entered since the last look: a running service does not wait for us.
        while search.step(transaction):
            pass
        numbers = np.setdiff1d(np.array(search.numbers, np.uint64), contents.forgotten(transaction))
        found = contents.as_documents(transaction, words, numbers)
        remove(transaction, found, parameters)
        return found

    return store.write(operation)


def remove(transaction: Transaction, found: Collection[Document], parameters: Parameters) -> None:
    """Take documents out of what is searched, and note that they are forgotten."""
    for kind in (Kind.NEAR, Kind.EXACT):
        of_kind = [document for document in found if document.kind is kind]
        if not of_kind:
            continue
        numbers = np.array([document.number for document in of_kind], np.uint64)
        fingerprints = np.array([document.fingerprint for document in of_kind], np.uint64)
        if kind is Kind.NEAR:
            table, (keys, values) = Table.BUCKETS, schemes.filing(fingerprints, numbers, parameters)
        else:
            table, keys, values = Table.EXACT, pack_fingerprints(fingerprints), pack_numbers(numbers)
        for key, value in zip(keys, values, strict=True):
            transaction.delete(table, key, value)
        for key in pack_numbers(numbers):
            transaction.put(Table.FORGOTTEN, key, b"")
