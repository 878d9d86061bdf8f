"""An open index, and the sessions in which its operations run: one transaction each, with what deciding has to know.

A read session sees one moment. A write session begins by taking over what other processes have committed; it ends by
storing the counters and by letting entries move on into segments. It happens wholly and is synced, or not at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from index.lsm.tree import Tree
from index.storage.counters import counters_of, put_counters
from index.storage.layout import Counters
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from index.storage.visibility import Visibility

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. It may differ from one opening to the next; what has expired stays so.

    entries_max  the newest so many entries count; None: all
    age_max_ms   entries count until their source's record time has moved on by more than this; None: always
    """

    entries_max: int | None = None
    age_max_ms: int | None = None

    def __post_init__(self) -> None:
        if self.entries_max is not None and self.entries_max < 1:
            raise ValueError("entries_max must be at least 1")
        if self.age_max_ms is not None and self.age_max_ms < 1:
            raise ValueError("age_max_ms must be at least 1")


class ReadSession:
    """One moment of an index. The tree follows when it is first asked for: who only reads tables need not wait for it."""

    def __init__(self, transaction: Transaction, opened: "OpenIndex") -> None:
        """Use `OpenIndex.read`."""
        self.transaction = transaction
        self.parameters = opened.parameters
        self.words = opened.parameters.words
        self._tree = opened.tree

    @cached_property
    def tree(self) -> Tree:
        """All NEAR entries that are filed by blocks, as they stand at this moment."""
        self._tree.follow(self.transaction)
        return self._tree

    @cached_property
    def visibility(self) -> Visibility:
        """Which entries still count."""
        return Visibility(self.transaction, self.words)


class WriteSession(ReadSession):
    """A write transaction of an index.

    counters  what is counted, and the next numbers: read once at the beginning, stored once at the end. What enters and
              what leaves is counted here.
    """

    def __init__(self, transaction: Transaction, opened: "OpenIndex") -> None:
        """Use `OpenIndex.write`."""
        super().__init__(transaction, opened)
        self.retention = opened.retention
        self.journaling = opened.journaling
        self.tree = opened.tree
        self.tree.follow(transaction)
        self.counters: Counters = counters_of(transaction)
        self._counters_stored = self.counters

    def horizon_moved(self) -> None:
        """More entries have expired: `visibility` is read anew."""
        self.__dict__.pop("visibility", None)

    def end(self) -> None:
        """Store the counters, and let entries move on; nothing is looked up afterwards."""
        if self.counters != self._counters_stored:
            put_counters(self.transaction, self.counters)
        self.tree.end_batch(self.transaction, self.counters.next_number, self.counters.next_tombstone)


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """The inside of an open index: what `Index`, `index.tools` and tests run their operations on.

    directory   where it is
    store       its file
    tree        what this process keeps of the entries in memory
    retention   how long entries count
    journaling  False: positions are neither looked up nor noted
    """

    directory: Path
    store: Store
    tree: Tree
    parameters: Parameters
    retention: Retention
    journaling: bool

    def read(self, operation: Callable[[ReadSession], Result]) -> Result:
        """Run `operation` on one moment's state. Raises IndexDamaged.

        While it runs, pages that writers free are not used again: the file grows by about 1 KB a document admitted.
        """
        return self.store.read(lambda transaction: operation(ReadSession(transaction, self)))

    def write(self, operation: Callable[[WriteSession], Result]) -> Result:
        """Run `operation` in one synced write transaction, perhaps twice. Raises IndexFull, IndexDamaged."""

        def within(transaction: Transaction) -> Result:
            session = WriteSession(transaction, self)
            result = operation(session)
            session.end()
            return result

        return self.store.write(within, self.tree.committed)
