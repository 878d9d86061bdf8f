"""What depends on how fingerprints are compared: SimHash by bits within a distance, MinHash by similarity over bands.

A scheme says under which keys entries are filed, and how they stand in the tables of the segments. `simhash_lookup` and
`minhash_lookup` look them up.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from index.kernels import minhash
from index.matching.minhash import Banding, draws, unpack_bins
from index.matching.simhash import BLOCK_BITS
from index.storage.codec import segment_entry_bytes
from index.storage.parameters import Parameters

_BLOCKS_IN_PAGE = 16
_BANDS_IN_PAGE = 4
_NUMBER_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """How entries are filed.

    words          64-bit words of a fingerprint
    tables         in so many tables every entry stands once
    columns        uint16 values of an entry in a segment
    numbered       beside the entries of table 0 stand their numbers
    page_entries   entries in a page of the memtable: few where many tables share few entries
    banding        of MinHash; None: SimHash
    """

    words: int
    tables: int
    columns: int
    numbered: bool
    page_entries: int
    banding: Banding | None

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """The shape of an index with these parameters."""
        words, tables, banding = parameters.words, parameters.blocks, parameters.banding
        if banding is None:
            return cls(words, tables, tables, True, _BLOCKS_IN_PAGE, None)
        return cls(words, tables, 2 + _NUMBER_COLUMNS, False, _BANDS_IN_PAGE, banding)

    @property
    def bound_bytes(self) -> int:
        """Bytes of a bound of the segments."""
        return 2 * self.columns

    @property
    def memtable_bytes(self) -> int:
        """About what an entry takes in memory: fingerprint, number, and its share of a page in every table."""
        return 8 * self.words + 8 + self.tables * (10 if self.banding is None else 16)

    def segment_entries(self, segment_bytes: int) -> int:
        """How many entries a segment of this size holds, at least 1."""
        return max(1, segment_bytes // segment_entry_bytes(self.columns, numbered=self.numbered))

    def page_keys(self, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Under what fingerprints are filed in the tables: uint64 [n, words] -> uint32 [n, tables].

        The first two columns of their entries: two blocks, or the hash of a band.
        """
        if self.banding is not None:
            banding = self.banding
            values = unpack_bins(fingerprints, banding.bin_bits)
            return minhash.band_hashes(values, draws(banding.bins), banding.bands, banding.rows)
        values = _blocks(fingerprints).astype(np.uint32)
        return values << np.uint32(BLOCK_BITS) | np.roll(values, -1, axis=1)

    def entry_columns(
        self,
        table: int,
        page_keys: npt.NDArray[np.uint32],
        fingerprints: npt.NDArray[np.uint64],
        numbers: npt.NDArray[np.uint64],
    ) -> npt.NDArray[np.uint16]:
        """Entries as they stand in the segments of a table, uint16 [n, columns].

        page_keys uint32 [n] of that table, fingerprints uint64 [n, words], numbers uint64 [n]
        """
        if self.banding is None:
            return np.roll(_blocks(fingerprints), -table, axis=1)
        of_numbers = numbers.astype(">u8").view(">u2").reshape(-1, 4)[:, -_NUMBER_COLUMNS:]
        return np.hstack([page_keys.astype(">u4").view(">u2").reshape(-1, 2), of_numbers]).astype(np.uint16)


def _blocks(fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """uint64 [n, words] -> uint16 [n, words * 4], block 0 the top 16 bits of the first word."""
    return fingerprints.astype(">u8").view(">u2").astype(np.uint16)
