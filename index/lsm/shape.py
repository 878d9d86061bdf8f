"""Shape of the tables under each scheme: SimHash compares bits within a distance, MinHash similarity over bands.

The shape gives the keys under which entries are filed, and their columns in the segments. `simhash_lookup` and
`minhash_lookup` look entries up.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from index.kernels import minhash
from index.matching.frame import OWN_ROWS, bands_of_own, bins_of, frame_bins
from index.matching.minhash import Banding, draws
from index.matching.simhash import BLOCK_BITS
from index.storage.codec import segment_entry_bytes
from index.storage.parameters import Parameters
from index.storage.segments.band_codec import segment_capacity

_BLOCKS_IN_PAGE = 16
_BANDS_IN_PAGE = 4
_BAND_COLUMNS = 2
_BAND_BOUND_BYTES = 16

_OF_OWN_BINS = np.uint64(0x5555_5555_5500_0000)
"""Tells the hash of a band of own bins from that of a band of all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How entries are filed.

    words          64-bit words of a fingerprint
    tables         number of tables; every table holds every entry once
    columns        values of an entry in a segment: uint16 blocks; MinHash: a hash and a number, uint64
    numbered       whether table 0 holds document numbers beside its entries
    page_entries   entries in a page of the memtable: few where many tables share few entries
    banding        bands of MinHash; None: SimHash
    """

    words: int
    tables: int
    columns: int
    numbered: bool
    page_entries: int
    banding: Banding | None

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """Shape of an index with these parameters."""
        words, tables, banding = parameters.stored_words, parameters.blocks, parameters.banding
        if banding is None:
            return cls(words, tables, tables, True, _BLOCKS_IN_PAGE, None)
        return cls(words, tables, _BAND_COLUMNS, False, _BANDS_IN_PAGE, banding)

    @property
    def bound_bytes(self) -> int:
        """Bytes of a segment's bound."""
        return 2 * self.columns if self.banding is None else _BAND_BOUND_BYTES

    @property
    def entry_words(self) -> int:
        """Words of an entry, as `compaction.words_of` packs its columns."""
        return -(-self.columns // 4) if self.banding is None else self.columns

    @property
    def memtable_bytes(self) -> int:
        """Approximate bytes of an entry in memory: fingerprint, number, and its share of a page in every table."""
        return 8 * self.words + 8 + self.tables * (10 if self.banding is None else 17)

    def segment_entries(self, segment_bytes: int) -> int:
        """Number of entries in a segment of this size, at least 1."""
        if self.banding is not None:
            return segment_capacity(segment_bytes)
        return max(1, segment_bytes // segment_entry_bytes(self.columns, numbered=self.numbered))

    def page_keys(self, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Keys under which the memtable files fingerprints: uint64 [n, words] -> uint32 [n, tables].

        A key is two blocks, the first columns of an entry; or the top 32 bits of the hash of a band.
        """
        if self.banding is not None:
            return (self.band_hashes(fingerprints) >> np.uint64(32)).astype(np.uint32)
        values = _blocks(fingerprints).astype(np.uint32)
        return values << np.uint32(BLOCK_BITS) | np.roll(values, -1, axis=1)

    def band_hashes(self, signatures: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """MinHash: hashes of the bands, uint64 [n, words] -> uint64 [n, tables], 40 bits at the top of each word.

        Bands of own bins take the place of some where a page has a frame, and bins beside it: see `frame.bands_of_own`.
        """
        banding = self.banding
        assert banding is not None
        values = bins_of(signatures, banding.bin_bits)
        hashes = minhash.band_hashes(values, draws(banding.bins), banding.bands, banding.rows)
        frames = frame_bins(signatures, banding.bin_bits)
        framed = np.flatnonzero(frames.any(axis=1) & ~frames.all(axis=1))
        if len(framed):
            values, frames = values[framed], frames[framed]
            by_own = bands_of_own(values, frames, banding.bands, banding.rows)
            values[frames] = 0
            own = minhash.band_hashes(values, draws(banding.bins), banding.bands, min(banding.rows, OWN_ROWS))
            hashes[framed] = np.where(by_own, own ^ _OF_OWN_BINS, hashes[framed])
        return hashes

    def hashes(self, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """What `entry_columns` needs beside fingerprints, uint64 [n, tables]: `band_hashes`; SimHash: nothing, [0, tables]."""
        return np.empty((0, self.tables), np.uint64) if self.banding is None else self.band_hashes(fingerprints)

    def entry_columns(
        self,
        table: int,
        hashes: npt.NDArray[np.uint64],
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
    ) -> npt.NDArray[Any]:
        """Entries in the form of a table's segments, uint16 [n, columns]; MinHash: uint64 [n, 2].

        hashes uint64 [n] of that table, which SimHash does not look at; fingerprints uint64 [n, words], numbers uint64 [n]
        """
        if self.banding is None:
            return np.roll(_blocks(fingerprints), -table, axis=1)
        return np.stack([hashes, numbers], axis=1)


def _blocks(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Blocks of fingerprints: uint64 [n, words] -> uint16 [n, words * 4], block 0 the top 16 bits of the first word."""
    return fingerprints.astype(">u8").view(">u2").astype(np.uint16)
