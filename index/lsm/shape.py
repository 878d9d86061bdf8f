"""The shape of a table, by what it files: how its hashes come about, and how large its parts are.

Every table is sorted runs of 40-bit hashes and 40-bit numbers: blocks of SimHash, bands of MinHash, and ids.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from index.kernels import bands, checksums
from index.kernels.scan import Probes
from index.matching.frame import OWN_ROWS, bands_of_own, bins_of, frame_bins
from index.matching.minhash import Banding, draws
from index.matching.simhash import BLOCK_BITS, blocks_of, flips, next_bits, probe_radii
from index.storage import log
from index.storage.layout import COMPACTION_KEY, IDS_KEY, LOG_KEY, Table
from index.storage.parameters import Parameters

_OWN_BINS_SEED = np.uint64(0x5555_5555_5500_0000)
"""Separates band hashes of own bins from those of all bins."""

_ROWS_AT_ONCE = 2**16
"""Rows hashed at once: bounds their memory."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Shape(ABC):
    """A table of hashes. An entry is a hash and a number.

    words   64-bit words per fingerprint
    tables  each holds every entry once

    >>> SimhashShape(words=1, tables=4).buckets, IdShape().buckets
    (262144, None)
    """

    words: int
    tables: int
    table: ClassVar[Table] = Table.SEGMENTS
    state_key: ClassVar[bytes] = COMPACTION_KEY
    unit: ClassVar[str] = "band"
    page_entries: ClassVar[int] = 4
    """Entries per page in memory: few if many tables share few entries."""
    filed_bytes: ClassVar[int] = 17
    """Approximate bytes per entry and table in memory."""

    @property
    def memtable_bytes(self) -> int:
        """Approximate bytes per entry in memory: fingerprint, number, and its share of a page in every table."""
        return 8 * self.words + 8 + self.tables * self.filed_bytes

    @property
    def buckets(self) -> int | None:
        """Buckets in all tables; None if hashes name them."""
        return None

    @abstractmethod
    def hashes(self, fingerprints: Words) -> Words:
        """Filing hashes, uint64 [n, words] -> uint64 [n, tables], 40 bits at the top of each word."""

    def sorting_columns(self, fingerprints: Words) -> Words:
        """`hashes`, table by table: uint64 [tables, n]."""
        columns = np.empty((self.tables, len(fingerprints)), np.uint64)
        for begin in range(0, len(fingerprints), _ROWS_AT_ONCE):
            columns[:, begin : begin + _ROWS_AT_ONCE] = self.hashes(fingerprints[begin : begin + _ROWS_AT_ONCE]).T
        return columns

    def probes(self, distance_max: int) -> Probes:  # noqa: ARG002
        """What a look-up reads: entries with the same hash."""
        nothing = np.zeros(self.tables, np.uint64)
        return Probes(np.arange(self.tables), nothing, np.uint64(0), nothing.astype(np.int64), 0)

    def bucket_sizes(self, hashes: Words, first: int, end: int) -> npt.NDArray[np.int64]:  # noqa: ARG002
        """Sizes of the buckets with first <= first 16 bits < end that hold these hashes, uint64 [n]."""
        return np.unique(hashes, return_counts=True)[1]

    def entries_of(self, batch: log.Batch) -> tuple[Words, Words]:
        """Fingerprints uint64 [n, words] and numbers uint64 [n] for a batch's entries."""
        return batch.filed()


@dataclass(frozen=True, slots=True)
class SimhashShape(Shape):
    """SimHash blocks: table t files every fingerprint by its blocks from t on, and after the last 0, 1, ...

    >>> hashes = SimhashShape(words=1, tables=4).hashes(np.array([[0xAAAA_BBBB_CCCC_DDDD]], np.uint64))
    >>> [f"{int(each):x}" for each in hashes[0]]
    ['aaaabbbbcc000000', 'bbbbccccdd000000', 'ccccddddaa000000', 'ddddaaaabb000000']
    """

    unit: ClassVar[str] = "block"
    page_entries: ClassVar[int] = 16
    filed_bytes: ClassVar[int] = 11

    @property
    def buckets(self) -> int:
        """As `Shape.buckets`: a bucket is a table's entries with an equal first block."""
        return self.tables << BLOCK_BITS

    def hashes(self, fingerprints: Words) -> Words:
        """As `Shape.hashes`: two blocks, and half of a third."""
        values = blocks_of(fingerprints).astype(np.uint64)
        second, third = (np.roll(values, -by, axis=1) for by in (1, 2))
        hashes: Words = values << np.uint64(48) | second << np.uint64(32) | third >> np.uint64(8) << np.uint64(24)
        return hashes[:, : self.tables]

    def probes(self, distance_max: int) -> Probes:
        """As `Shape.probes`: a bucket's entries whose next block, and whole hash, are near enough."""
        masks = [flips(radius).astype(np.uint64) for radius in probe_radii(self.tables, distance_max)]
        tables = np.repeat(np.arange(self.tables), list(map(len, masks)))
        near = next_bits(self.tables, distance_max).astype(np.int64)
        return Probes(tables, np.concatenate(masks) << np.uint64(48), np.uint64(2**48 - 1), near, distance_max)

    def bucket_sizes(self, hashes: Words, first: int, end: int) -> npt.NDArray[np.int64]:
        """As `Shape.bucket_sizes`, with the empty ones: int64 [end - first]."""
        return np.bincount((hashes >> np.uint64(64 - BLOCK_BITS)).astype(np.int64) - first, minlength=end - first)


@dataclass(frozen=True, slots=True)
class MinhashShape(Shape):
    """MinHash bands: for every signature, table t holds band t's hash and the document number.

    >>> shape = MinhashShape(words=16, tables=17, banding=Banding(bins=128, bin_bits=8, bands=17, rows=5))
    >>> shape.hashes(np.zeros((2, 16), np.uint64)).shape
    (2, 17)
    """

    banding: Banding

    def hashes(self, fingerprints: Words) -> Words:
        """As `Shape.hashes`. If a page has a frame, bands of its own bins replace some: see `frame.bands_of_own`."""
        banding, count = self.banding, self.tables
        values = bins_of(fingerprints, banding.bin_bits)
        hashes = self.band_hashes(values, banding.rows)
        frames = frame_bins(fingerprints, banding.bin_bits)
        framed = np.flatnonzero(frames.any(axis=1) & ~frames.all(axis=1))
        if len(framed):
            values, frames = values[framed], frames[framed]
            by_own = bands_of_own(values, frames, count, banding.rows)
            values[frames] = 0
            own = self.band_hashes(values, min(banding.rows, OWN_ROWS))
            hashes[framed] = np.where(by_own, own ^ _OWN_BINS_SEED, hashes[framed])
        return hashes

    def band_hashes(self, values: npt.NDArray[np.uint8], rows: int) -> Words:
        """Hashes of all bands with so many rows: uint8 [n, bins] -> uint64 [n, tables], as `Shape.hashes`."""
        return bands.band_hashes(values, draws(self.banding.bins), self.tables, rows)


@dataclass(frozen=True, slots=True)
class IdShape(Shape):
    """Ids: id hash and row number for every log row with an id.

    >>> IdShape().hashes(np.array([[9 << 40]], np.uint64)) >> np.uint64(40)
    array([[9]], dtype=uint64)
    """

    words: int = 1
    tables: int = 1
    table: ClassVar[Table] = Table.IDS
    state_key: ClassVar[bytes] = IDS_KEY
    page_entries: ClassVar[int] = 16

    def hashes(self, fingerprints: Words) -> Words:
        """An id's fingerprint is its hash: uint64 [n, 1]."""
        return fingerprints

    def entries_of(self, batch: log.Batch) -> tuple[Words, Words]:
        """Hashes uint64 [n, 1] and row numbers uint64 [n] for a batch's rows with an id."""
        hashes, first = id_hashes(batch.lines.ids, batch.rows["id_end"]), LOG_KEY.unpack(batch.key)[1]
        named = np.flatnonzero(hashes != checksums.NO_HASH)
        return hashes[named, None], named.astype(np.uint64) + np.uint64(first)


def shape_of(parameters: Parameters) -> Shape:
    """Shape for an index with these parameters."""
    if parameters.banding is None:
        return SimhashShape(parameters.stored_words, parameters.blocks)
    return MinhashShape(parameters.stored_words, parameters.blocks, parameters.banding)


def id_hashes(texts: bytes | memoryview, ends: npt.NDArray[np.uint32] | npt.NDArray[np.int64]) -> Words:
    """Hashes for concatenated ids with these ends: uint64 [n]; NO_HASH if empty."""
    size = int(ends[-1]) if len(ends) else 0
    return checksums.id_hashes(np.frombuffer(texts if size else bytes(1), np.uint8, size), ends.astype(np.int64))
