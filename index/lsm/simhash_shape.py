"""SimHash's block tables: table t holds every fingerprint's blocks from t on, and after the last 0, 1, ..."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.kernels import memtable, sort
from index.lsm.memtable import Gather, Memtable
from index.lsm.segments import Segments
from index.lsm.simhash_lookup import SimhashLookup
from index.matching.simhash import BLOCK_BITS, blocks_of, next_bits, probe_keys
from index.storage import log
from index.storage.codec import pack_segment, segment_column, segment_entry_bytes, unpack_segment
from index.storage.layout import COMPACTION_KEY, Table
from index.storage.segments.compaction_state import CompactionState, segment_key
from index.storage.store import Transaction

Words = npt.NDArray[np.uint64]
Blocks = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class SimhashShape:
    """16-bit blocks. Table 0 also holds document numbers.

    words  64-bit words per fingerprint
    """

    words: int
    table: ClassVar[Table] = Table.SEGMENTS
    state_key: ClassVar[bytes] = COMPACTION_KEY
    unit: ClassVar[str] = "block"
    rests: ClassVar[int] = 0
    page_entries: ClassVar[int] = 16
    slices_share: ClassVar[int] = 1
    portion_entries_max: ClassVar[int] = 2**62

    @property
    def tables(self) -> int:
        """Tables; each holds every entry once."""
        return 64 // BLOCK_BITS * self.words

    @property
    def columns(self) -> int:
        """Blocks per entry in a segment."""
        return self.tables

    @property
    def bound_bytes(self) -> int:
        """Bytes in a segment's bound."""
        return 2 * self.columns

    @property
    def entry_words(self) -> int:
        """Words per entry, as `words_of` packs its columns."""
        return self.words

    @property
    def buckets(self) -> int:
        """Buckets in all tables."""
        return self.tables << BLOCK_BITS

    @property
    def memtable_bytes(self) -> int:
        """Approximate bytes per entry in memory: fingerprint, number, and its share of a page in every table."""
        return 8 * self.words + 8 + self.tables * 10

    @property
    def sorted_bytes(self) -> int:
        """Bytes per entry while a bulk load sorts its columns."""
        return 8 * self.words

    def prefixes(self, table: int, *, searched: bool = False) -> list[bytes]:  # noqa: ARG002
        """Key prefixes of a table's segments."""
        return [bytes([table])]

    def level_of(self, key: bytes) -> None:  # noqa: ARG002
        """Blocks have no levels."""
        return

    def segment_entries(self, segment_bytes: int) -> int:
        """Entries in a segment with this size, at least 1."""
        return max(1, segment_bytes // segment_entry_bytes(self.columns, numbered=True))

    def numbered(self, table: int) -> bool:
        """Whether numbers are stored next to a table's entries."""
        return table == 0

    def hashes(self, fingerprints: Words) -> Words:
        """Each table's first word of an entry, up to its second block: uint64 [n, words] -> uint64 [n, tables]."""
        values = blocks_of(fingerprints).astype(np.uint64)
        return values << np.uint64(48) | np.roll(values, -1, axis=1) << np.uint64(32)

    def entry_columns(self, table: int, hashes: Words, fingerprints: Words, numbers: Words) -> Blocks:  # noqa: ARG002
        """Entries as segments hold them, uint16 [n, columns]; fingerprints uint64 [n, words]."""
        return np.roll(blocks_of(fingerprints), -table, axis=1)

    def gathered(
        self, entries: Memtable, table: int, begin: int, end: int, count_max: int
    ) -> tuple[Blocks, Words, int]:
        """`Memtable.of_table`: entries uint16 [n, columns] in any order, their numbers, and the first unexamined value."""
        places, _, stopped = memtable.gathered(entries.pages, table, begin, end, count_max)
        fingerprints, numbers = entries.fingerprints[places], entries.numbers[places]
        return np.roll(blocks_of(fingerprints), -table, axis=1), numbers, stopped

    def ordered(self, entries: Blocks, numbers: Words, begin: bytes, end: bytes | None) -> tuple[Blocks, Words]:
        """Entries uint16 [n, columns] between two bounds, as uint16 [columns, m] ascending, and their numbers."""
        words = words_of(entries)
        inside = ~are_below(words, begin)
        if end is not None:
            inside &= are_below(words, end)
        order = np.flatnonzero(inside)
        order = order[_ascending(words[order])]
        return np.ascontiguousarray(entries[order].T), numbers[order]

    def columns_of(self, words: Words) -> Blocks:
        """Undo `words_of`: uint64 [n, words] -> uint16 [columns, n]."""
        columns = words.astype(">u8").view(">u2")[:, : self.columns]
        return np.ascontiguousarray(columns.T, np.uint16)

    def sorting_columns(self, fingerprints: Words) -> Words:
        """Input of `sorting_words`: the fingerprints uint64 [n, words] themselves."""
        return fingerprints

    def sorting_words(self, columns: Words, table: int) -> Words:
        """A table's entries as `words_of` packs them, uint64 [n, words]: fingerprints rotated left by `table` blocks."""
        whole, bits = divmod(table * BLOCK_BITS, 64)
        words = np.roll(columns, -whole, axis=1)
        return words << np.uint64(bits) | np.roll(words, -1, axis=1) >> np.uint64(64 - bits) if bits else words

    def ascending(
        self,
        words: Words,
        places: npt.NDArray[np.uint32],
        numbers: Words,  # noqa: ARG002
    ) -> tuple[Words, npt.NDArray[np.uint32]]:
        """Entries at these places in `sorting_words`, ascending, and the places in that order."""
        keys, order = sort.by_high_bits(words[:, 0], places)
        # Several times as fast as words[order].
        ordered = words.take(order, axis=0)
        again = keys[1:] == keys[:-1]
        tied = np.flatnonzero(np.append(again, False) | np.insert(again, 0, False))
        # Entries with equal high bits lie side by side, so sorting all of them leaves each in its run.
        sorted_ties = tied[np.lexsort(ordered[tied].T[::-1])]
        order[tied], ordered[tied] = order[sorted_ties], ordered[sorted_ties]
        return ordered, order

    def unpacked(self, key: bytes, value: memoryview) -> tuple[Blocks, Words]:
        """A segment's entries, uint16 [columns, n], and their numbers, NO_NUMBER except in table 0.

        Raises ValueError and struct.error if the value is not a segment.
        """
        columns, numbers = unpack_segment(value, self.columns, numbered=self.numbered(key[0]))
        return columns, numbers if self.numbered(key[0]) else np.full(columns.shape[1], NO_NUMBER)

    def first_words(self, value: memoryview) -> Words:
        """A segment's first words, up to their first block: uint64 [n]."""
        return segment_column(value, 0).astype(np.uint64) << np.uint64(64 - BLOCK_BITS)

    def bucket_sizes(self, words: Words, first: int, end: int) -> npt.NDArray[np.int64]:
        """Bucket sizes with first <= first block < end, int64 [end - first], from first words uint64 [n]."""
        return np.bincount((words >> np.uint64(64 - BLOCK_BITS)).astype(np.int64) - first, minlength=end - first)

    def compacted_entries(self, transaction: Transaction, now: CompactionState, segment_bytes: int) -> int:  # noqa: ARG002
        """Approximate entries in all tables' segments."""
        return transaction.count(self.table) * self.segment_entries(segment_bytes)

    def moved(
        self,
        transaction: Transaction,
        now: CompactionState,
        gather: Gather,
        segment_bytes: int,
        first_number: int,  # noqa: ARG002
    ) -> tuple[CompactionState, bytes | None]:
        """Move the cursor's segment from the frozen memtable, or its first entries; returns the state and the slice's end.

        If no segment begins at the cursor, the space up to the next segment is empty.
        """
        capacity, numbered = self.segment_entries(segment_bytes), self.numbered(now.table)
        key = segment_key(now.table, now.bound)
        # A rewritten value gets a new checksum, which would hide damage since the last check.
        value = transaction.view(self.table, key, recheck=True)
        above = transaction.key_above(self.table, key)
        segment_end = above[1:] if above is not None and above[0] == now.table else None
        new, new_numbers, removed, end = gather(now.table, now.bound, segment_end, capacity)
        if not new.size and not removed.size and end == segment_end:
            return now, end
        old, old_numbers = np.empty((self.columns, 0), np.uint16), np.empty(0, np.uint64)
        if value is not None:
            old, old_numbers = unpack_segment(value, self.columns, numbered=numbered)
        kept = old.shape[1]
        if end is not None and end != segment_end:
            # One slice does not move all entries of this segment. Cutting it puts the cursor at a bound again.
            kept = int(np.searchsorted(old[0], int.from_bytes(end[:2], "big")))
            if kept < old.shape[1]:
                rest = pack_segment(old[:, kept:], old_numbers[kept:])
                transaction.put(self.table, segment_key(now.table, end), rest)
        columns, numbers = memtable.merged(
            np.ascontiguousarray(old[:, :kept]),
            old_numbers[:kept],
            new,
            new_numbers[: len(new_numbers) * numbered],
            removed,
        )
        count = columns.shape[1]
        parts = -(-count // capacity)
        if not parts and value is not None:
            transaction.delete(self.table, key)
        for first, last in pairwise([count * part // max(1, parts) for part in range(parts + 1)]):
            bound = now.bound if first == 0 else columns[:, first].astype(">u2").tobytes()
            segment = pack_segment(columns[:, first:last], numbers[first:last])
            transaction.put(self.table, segment_key(now.table, bound), segment)
        return now, end

    def settled(self, transaction: Transaction, now: CompactionState, *_: int) -> CompactionState:  # noqa: ARG002
        """The state itself: blocks have no levels."""
        return now

    def open_segments(self) -> Segments:
        """The segments, as a process sees them."""
        return Segments(self.tables)

    def equals(
        self, transaction: Transaction, segments: Segments, fingerprints: Words
    ) -> Iterator[tuple[npt.NDArray[np.int64], Words]]:
        """Entries equal to fingerprints uint64 [n, words], in portions: rows int64 [m] and numbers uint64 [m]."""
        numbers = segments.numbers(transaction, fingerprints)
        rows = np.flatnonzero(numbers != NO_NUMBER)
        yield rows, numbers[rows]

    def entries_of(self, batch: log.Batch) -> tuple[Words, Words]:
        """Fingerprints uint64 [n, words] and numbers uint64 [n] for a batch's entries."""
        return batch.filed()

    def lookup(
        self, fingerprints: Words, distance_max: int, looks: npt.NDArray[np.uint8] | None = None
    ) -> SimhashLookup:
        """Lookup for fingerprints uint64 [n, words] with looks uint8 [n, look bytes]."""
        allowed, keys = next_bits(self.tables, distance_max), probe_keys(fingerprints, distance_max)
        return SimhashLookup(fingerprints, keys, allowed, distance_max, self, looks)


def words_of(entries: npt.NDArray[Any]) -> Words:
    """Pack entries, uint16 [n, columns], four columns to a zero-padded word: uint64 [n, words], which sort alike.

    Entries of hashes, uint64 [n, 2], are such words.

    >>> [hex(word) for word in words_of(np.array([[1, 2, 3, 4, 5]], np.uint16))[0].tolist()]
    ['0x1000200030004', '0x5000000000000']
    """
    if entries.dtype == np.uint64:
        return entries
    filled = np.zeros((len(entries), -(-entries.shape[1] // 4) * 4), ">u2")
    filled[:, : entries.shape[1]] = entries
    return filled.view(">u8").astype(np.uint64)


def are_below(words: Words, bound: bytes) -> npt.NDArray[np.bool_]:
    """Which entries, uint64 [n, words] from `words_of`, sort before a bound: bool [n]; words beyond the bound are ignored."""
    of_bound = words_of(np.frombuffer(bound, ">u2").astype(np.uint16)[None])[0]
    below = np.zeros(len(words), np.bool_)
    for word in range(len(of_bound) - 1, -1, -1):
        below = (words[:, word] < of_bound[word]) | ((words[:, word] == of_bound[word]) & below)
    return below


def _ascending(words: Words) -> npt.NDArray[np.intp]:
    """Sort order, uint64 [n, words] -> int64 [n]; the first word mostly decides."""
    order = np.argsort(words[:, 0])
    first = words[order, 0]
    return np.lexsort(words.T[::-1]) if (first[1:] == first[:-1]).any() else order
