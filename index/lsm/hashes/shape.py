"""Hash tables: sorted runs of 40-bit hashes and 40-bit numbers, for MinHash bands and document ids."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.kernels import bands, checksums, memtable, sort
from index.lsm.hashes import levels
from index.lsm.hashes.segments import HashSegments
from index.lsm.memtable import Gather, Memtable
from index.lsm.minhash_lookup import MinhashLookup, stored_signatures
from index.matching.frame import OWN_ROWS, bands_of_own, bins_of, frame_bins
from index.matching.minhash import Banding, draws
from index.storage import log
from index.storage.layout import COMPACTION_KEY, IDS_KEY, LOG_KEY, Table
from index.storage.segments.compaction_state import CompactionState, Level
from index.storage.segments.hash_codec import segment_capacity, unpack_hash_segment
from index.storage.store import Transaction

_OF_OWN_BINS = np.uint64(0x5555_5555_5500_0000)
"""Separates band hashes of own bins from those of all bins."""

_ROWS_AT_ONCE = 2**16
"""Rows hashed at once: bounds their memory."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HashShape:
    """A hash table. An entry is a hash and a number.

    words   64-bit words per fingerprint
    tables  each holds every entry once
    """

    words: int
    tables: int
    table: ClassVar[Table] = Table.SEGMENTS
    state_key: ClassVar[bytes] = COMPACTION_KEY
    buckets: ClassVar[None] = None
    unit: ClassVar[str] = "band"
    columns: ClassVar[int] = 2
    bound_bytes: ClassVar[int] = 16
    entry_words: ClassVar[int] = 2
    page_entries: ClassVar[int] = 4
    slices_share: ClassVar[int] = levels.FIRST_SHARE
    portion_entries_max: ClassVar[int] = 2**23

    @property
    def rests(self) -> int:
        """Hash rests per entry in the memtable."""
        return self.tables

    @property
    def memtable_bytes(self) -> int:
        """Approximate bytes per entry in memory: fingerprint, number, and its share of a page in every table."""
        return 8 * self.words + 8 + self.tables * 17

    @property
    def sorted_bytes(self) -> int:
        """Bytes per entry while a bulk load sorts its hashes."""
        return 8 * self.tables

    def prefixes(self, table: int, *, searched: bool = False) -> list[bytes]:
        """Key prefixes of a table's segments; `searched`: without the level of removed entries."""
        return [bytes([table, level]) for level in Level if not (searched and level is Level.REMOVED)]

    def level_of(self, key: bytes) -> Level | None:
        """A segment's level."""
        return Level(key[1])

    def segment_entries(self, segment_bytes: int) -> int:
        """Entries in a segment with this size, at least 1."""
        return segment_capacity(segment_bytes)

    def numbered(self, table: int) -> bool:  # noqa: ARG002
        """Whether numbers are stored next to a table's entries: no, they are part of them."""
        return False

    def entry_columns(self, table: int, hashes: Words, fingerprints: Words, numbers: Words) -> Words:  # noqa: ARG002
        """Entries as segments hold them, uint64 [n, 2]; hashes uint64 [n] of that table, numbers uint64 [n]."""
        return np.stack([hashes, numbers], axis=1)

    def gathered(self, entries: Memtable, table: int, begin: int, end: int, count_max: int) -> tuple[Words, Words, int]:
        """`Memtable.of_table`: entries uint64 [n, 2], mostly ascending, their numbers, and the first unexamined value."""
        columns, stopped = memtable.gathered_bands(
            entries.pages, entries.rests, entries.numbers, table, begin, end, count_max
        )
        return columns.T, columns[1], stopped

    def ordered(self, entries: Words, numbers: Words, begin: bytes, end: bytes | None) -> tuple[Words, Words]:
        """Entries uint64 [n, 2] between two bounds, as uint64 [2, m] ascending, and their numbers."""
        hashes, numbers = entries.T
        ascending = (hashes[1:] > hashes[:-1]) | ((hashes[1:] == hashes[:-1]) & (numbers[1:] > numbers[:-1]))
        columns = entries.T if ascending.all() else entries.T[:, np.lexsort((numbers, hashes))]
        _, columns = levels.divided(columns, begin)
        columns, _ = levels.divided(columns, end)
        return np.ascontiguousarray(columns), columns[1]

    def columns_of(self, words: Words) -> Words:
        """Undo `compaction.words_of`: uint64 [n, 2] -> uint64 [2, n]."""
        columns: Words = np.ascontiguousarray(words.T)
        return columns

    def sorting_words(self, columns: Words, table: int) -> Words:
        """A table's hashes, uint64 [n, 1]."""
        hashes: Words = columns[table, :, None]
        return hashes

    def ascending(
        self, words: Words, places: npt.NDArray[np.uint32], numbers: Words
    ) -> tuple[Words, npt.NDArray[np.uint32]]:
        """Entries at these places in `sorting_words`, uint64 [m, 2] ascending, and the places."""
        hashes, order = sort.by_high_bits(words[:, 0], places)
        return np.stack([hashes, numbers[order]]).T, order

    def unpacked(self, key: bytes, value: memoryview) -> tuple[Words, Words]:  # noqa: ARG002
        """A segment's entries, uint64 [2, n], and NO_NUMBER for each. Raises ValueError if the value is not a segment."""
        entries = unpack_hash_segment(value)
        return entries, np.full(entries.shape[1], NO_NUMBER)

    def first_words(self, value: memoryview) -> Words:
        """A segment's hashes, uint64 [n]."""
        hashes: Words = unpack_hash_segment(value)[0]
        return hashes

    def bucket_sizes(self, words: Words, first: int, end: int) -> npt.NDArray[np.int64]:  # noqa: ARG002
        """Bucket sizes for these first words, uint64 [n]: entries with an equal hash."""
        return np.unique(words, return_counts=True)[1]

    def compacted_entries(self, transaction: Transaction, now: CompactionState, segment_bytes: int) -> int:  # noqa: ARG002
        """Entries in all tables' segments."""
        return now.first_entries + now.last_entries

    def moved(
        self, transaction: Transaction, now: CompactionState, gather: Gather, segment_bytes: int, first_number: int
    ) -> tuple[CompactionState, bytes | None]:
        """Move the frozen entries of the cursor's first-level segment; returns the state and the slice's end."""
        capacity = self.segment_entries(segment_bytes)
        target = levels.Levels(transaction, self.table, capacity, first_number)
        end = target.bound_above(now.table, Level.FIRST, now.bound)
        added, _, removed, end = gather(now.table, now.bound, end, levels.first_capacity(capacity))
        return target.move_in(now, added, removed), end

    def settled(
        self,
        transaction: Transaction,
        now: CompactionState,
        segment_bytes: int,
        memtable_entries: int,
        entries_max: int,
        first_number: int,
    ) -> CompactionState:
        """State after about `entries_max` entries, or all excess ones, have left the first level."""
        first_max = levels.first_entries_max(self.tables, memtable_entries, now.first_entries + now.last_entries)
        target = levels.Levels(transaction, self.table, self.segment_entries(segment_bytes), first_number)
        return target.settle(now, self.tables, first_max, entries_max)

    def open_segments(self) -> HashSegments:
        """The segments, as a process sees them."""
        return HashSegments(self.table, self.tables)


@dataclass(frozen=True, slots=True)
class MinhashShape(HashShape):
    """MinHash bands: for every signature, table t holds band t's hash and the document number."""

    banding: Banding

    def hashes(self, fingerprints: Words) -> Words:
        """Band hashes, uint64 [n, words] -> uint64 [n, tables], 40 bits at the top of each word.

        If a page has a frame, bands of its own bins replace some: see `frame.bands_of_own`.
        """
        banding = self.banding
        values = bins_of(fingerprints, banding.bin_bits)
        hashes = bands.band_hashes(values, draws(banding.bins), banding.bands, banding.rows)
        frames = frame_bins(fingerprints, banding.bin_bits)
        framed = np.flatnonzero(frames.any(axis=1) & ~frames.all(axis=1))
        if len(framed):
            values, frames = values[framed], frames[framed]
            by_own = bands_of_own(values, frames, banding.bands, banding.rows)
            values[frames] = 0
            own = bands.band_hashes(values, draws(banding.bins), banding.bands, min(banding.rows, OWN_ROWS))
            hashes[framed] = np.where(by_own, own ^ _OF_OWN_BINS, hashes[framed])
        return hashes

    def sorting_columns(self, fingerprints: Words) -> Words:
        """Input of `sorting_words` for fingerprints uint64 [n, words]: band hashes, uint64 [tables, n]."""
        columns = np.empty((self.tables, len(fingerprints)), np.uint64)
        for begin in range(0, len(fingerprints), _ROWS_AT_ONCE):
            columns[:, begin : begin + _ROWS_AT_ONCE] = self.hashes(fingerprints[begin : begin + _ROWS_AT_ONCE]).T
        return columns

    def equals(
        self, transaction: Transaction, segments: HashSegments, fingerprints: Words
    ) -> Iterator[tuple[npt.NDArray[np.int64], Words]]:
        """Entries equal to fingerprints uint64 [n, words], in portions: rows int64 [m] and numbers uint64 [m]."""
        # Equal signatures share every band, so the first band is enough.
        one_band = replace(self, tables=1, banding=replace(self.banding, bands=1))
        for rows, numbers in segments.candidates(transaction, one_band.hashes(fingerprints)):
            for known, here, members, _ in stored_signatures(transaction, numbers, self.words):
                equal = (known[members] == fingerprints[rows[here]]).all(axis=1)
                yield rows[here[equal]], numbers[here[equal]]

    def entries_of(self, batch: log.Batch) -> tuple[Words, Words]:
        """Fingerprints uint64 [n, words] and numbers uint64 [n] for a batch's entries."""
        return batch.filed()

    def lookup(
        self,
        fingerprints: Words,
        distance_max: int,
        looks: npt.NDArray[np.uint8] | None = None,  # noqa: ARG002
    ) -> MinhashLookup:
        """Lookup for signatures uint64 [n, words]."""
        return MinhashLookup(fingerprints, self.hashes(fingerprints), distance_max, self.banding)


@dataclass(frozen=True, slots=True)
class IdShape(HashShape):
    """Ids: id hash and row number for every log row with an id."""

    words: int = 1
    tables: int = 1
    table: ClassVar[Table] = Table.IDS
    state_key: ClassVar[bytes] = IDS_KEY
    page_entries: ClassVar[int] = 16

    def hashes(self, fingerprints: Words) -> Words:
        """An id's fingerprint is its hash: uint64 [n, 1]."""
        return fingerprints

    def sorting_columns(self, fingerprints: Words) -> Words:
        """The hashes, uint64 [1, n]."""
        return fingerprints.T

    def entries_of(self, batch: log.Batch) -> tuple[Words, Words]:
        """Hashes uint64 [n, 1] and row numbers uint64 [n] for a batch's rows with an id."""
        hashes, first = id_hashes(batch.lines.ids, batch.rows["id_end"]), LOG_KEY.unpack(batch.key)[1]
        named = np.flatnonzero(hashes != checksums.NO_HASH)
        return hashes[named, None], named.astype(np.uint64) + np.uint64(first)


def id_hashes(texts: bytes | memoryview, ends: npt.NDArray[np.uint32] | npt.NDArray[np.int64]) -> Words:
    """Hashes for concatenated ids with these ends: uint64 [n]; NO_HASH if empty."""
    size = int(ends[-1]) if len(ends) else 0
    return checksums.id_hashes(np.frombuffer(texts if size else bytes(1), np.uint8, size), ends.astype(np.int64))
