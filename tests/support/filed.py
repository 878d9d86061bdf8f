"""Entries that come and go in the searched part of an index, as the rest of the index has them do it; and brute force."""

from dataclasses import dataclass, field

import numpy as np

from index.lsm.tree import Tree
from index.storage.codec import LOG_ORIGINAL, LOG_ROW, LOG_SOURCE, Tombstones, pack_batch
from index.storage.layout import COUNTERS_KEY, TOMBSTONE_KEY, Change, Filing, Table, pack_counters, unpack_counters
from index.storage.log import key_of
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from tests.support.packed import Columns, columns_of, read

Words = tuple[int, ...]


@dataclass
class Filed:
    """What was done to an index, in order, and what its segments must hold therefore.

    added    numbers
    removed  number and tombstone
    """

    parameters: Parameters
    next_number: int = 0
    next_tombstone: int = 0
    batches: int = 0
    words: dict[int, Words] = field(default_factory=dict)
    added: list[int] = field(default_factory=list)
    removed: dict[int, int] = field(default_factory=dict)
    log_keys: dict[bytes, list[int]] = field(default_factory=dict)
    segmented: set[int] = field(default_factory=set)
    """The numbers that stood in segments when the memtable that is moving, or the next, froze."""
    frozen_to: tuple[int, int] = (0, 0)
    was_moving: bool = False

    def alive(self) -> dict[int, Words]:
        """What entered and did not leave."""
        return {number: self.words[number] for number in self.added if number not in self.removed}

    def enter(self, transaction: Transaction, tree: Tree, fingerprints: np.ndarray) -> None:
        """Enter a batch, uint64 [n, words]. Writes the log."""
        rows = np.zeros(len(fingerprints), LOG_ROW)
        rows["filing"] = Filing.BLOCKS
        numbers = np.arange(self.next_number, self.next_number + len(rows), dtype=np.uint64)
        for row, words in enumerate(map(tuple, fingerprints.tolist())):
            self.words[int(numbers[row])] = words
            self.added.append(int(numbers[row]))
        key = key_of(self.next_number, self.batches)
        nothing = np.zeros(0, LOG_ORIGINAL)
        sources = np.zeros(1, LOG_SOURCE)
        transaction.put(Table.LOG, key, pack_batch(sources, rows, fingerprints, [""] * len(rows), nothing, []))
        tree.add(fingerprints, numbers)
        self.log_keys[key] = numbers.tolist()
        self.next_number += len(rows)
        self.batches += 1

    def remove(self, transaction: Transaction, tree: Tree, numbers: list[int]) -> None:
        """Let entries leave, in one tombstone."""
        columns: list[tuple[int, Words, Change]] = []
        for number in numbers:
            columns.append((number, self.words[number], Change.EXPIRED if number % 2 else Change.FORGOTTEN))
            self.removed[number] = self.next_tombstone
        tombstone = Tombstones(
            np.array([number for number, _, _ in columns], np.uint64),
            np.array([words for _, words, _ in columns], np.uint64).reshape(-1, self.parameters.words),
            np.array([change for _, _, change in columns], np.uint8),
        )
        tree.add_tombstone(transaction, self.next_tombstone, tombstone)
        self.next_tombstone += 1

    def drop_logs(self, transaction: Transaction) -> None:
        """Delete the batches of which nothing is left, as what expires does."""
        for key, numbers in list(self.log_keys.items()):
            if numbers and all(number in self.removed for number in numbers):
                transaction.delete(Table.LOG, key)
                del self.log_keys[key]

    def end(self, transaction: Transaction, tree: Tree) -> None:
        """The end of a batch."""
        counters = unpack_counters(None)._replace(next_number=self.next_number, next_tombstone=self.next_tombstone)
        transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
        tree.end_batch(transaction, counters)

    def require(self, transaction: Transaction) -> None:
        """The segments hold exactly what belongs into them; to be called behind every batch."""
        state = read(transaction, self.parameters)
        now = state.compaction
        if (now.frozen_to, now.frozen_tombstones) != self.frozen_to:
            assert not self.was_moving, "a memtable freezes before the one before it has moved"
            begun = self.frozen_to
            self.frozen_to = (now.frozen_to, now.frozen_tombstones)
            assert self.frozen_to == (self.next_number, self.next_tombstone)
            self.was_moving, self.begun = True, begun
        after = self._after() if self.was_moving else self.segmented
        if self.was_moving and not now.is_moving:
            self.was_moving, self.segmented = False, after
            kept = [TOMBSTONE_KEY.unpack(key)[0] for key in transaction.keys(Table.TOMBSTONES)]
            assert kept == list(range(now.frozen_tombstones, self.next_tombstone))
        bound = tuple(np.frombuffer(now.bound, ">u8").tolist())
        cursor: tuple[int, Columns] = (now.table, bound)
        for table, entries in enumerate(state.tables):
            old, new = self._columns(table, self.segmented), self._columns(table, after)
            expected = [entry for entry in new if (table, entry) < cursor]
            expected += [entry for entry in old if (table, entry) >= cursor]
            assert entries == sorted(expected)

    def _after(self) -> set[int]:
        numbers_end, tombstones_end = self.frozen_to
        gone = {number for number, tombstone in self.removed.items() if tombstone < tombstones_end}
        moving = {number for number in self.added if self.begun[0] <= number < numbers_end}
        return (self.segmented | moving) - gone

    def _columns(self, table: int, numbers: set[int]) -> dict[Columns, int]:
        return {columns_of(self.parameters, table, number, self.words[number]): number for number in numbers}
