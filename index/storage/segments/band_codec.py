"""Codec of the segments of MinHash, which `layout` draws: hashes of a band and document numbers, in as few bits as they need."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import bands
from index.storage.codec import size_class
from index.storage.segments.compaction_state import BAND_KEY

Entries = npt.NDArray[np.uint64]
"""Entries of a band, uint64 [2, n], ascending: hashes (40 bits at the top of a word) and document numbers."""

ENTRY_BYTES = 8
"""Bytes that an entry takes at most, about, where segments are large; 6 of 100 million documents."""

SEGMENT_BYTES_MAX = 2**20
"""Largest size of a segment, about: the checks of its numbers stand in its head."""

PART_ENTRIES = 16
"""Entries of a part, on average: look-ups find a part by its place, and search it."""

NO_ENTRIES: Entries = np.empty((2, 0), np.uint64)


class BandKey(NamedTuple):
    """Key of a segment: its band and level, and its bound, which is the first entry that it may hold."""

    band: int
    level: int
    hashed: int = 0
    number: int = 0

    def packed(self) -> bytes:
        """The key as it stands in the file."""
        return BAND_KEY.pack(*self)

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """As checks take it, uint64 [3]."""
        return np.array([self.band << 8 | self.level, self.hashed, self.number], np.uint64)


def pack_band_segment(key: BandKey, entries: Entries) -> bytes:
    """A value of `chunks` from entries, uint64 [2, n], at least one, none below the bound in its key."""
    hashes, numbers = entries
    assert not int(numbers.max()) >> 40, "a document number has more than 40 bits"
    count, base = len(hashes), int(hashes[0])
    width = (int(hashes[-1]) - base) >> bands.LOW_BITS
    rest_bits, number_bits = (width // max(1, count // PART_ENTRIES)).bit_length(), int(numbers.max()).bit_length()
    parts, of_numbers = (width >> rest_bits) + 1, -(-count * number_bits // 64)
    starts = bands.HEAD_WORDS + -(-of_numbers // bands.BLOCK_WORDS)
    rests = starts + (parts + 2) // 2
    size = 8 * (rests + -(-count * rest_bits // 64) + 1 + of_numbers + 1)
    words = np.zeros(size_class(size) // 8, np.uint64)
    words[1] = count | (rest_bits | number_bits << 8 | starts << 16) << 32
    words[2], words[3] = base, parts | rests << 32
    bands.fill(words, hashes, numbers, key.words)
    return words.astype("<u8", copy=False).tobytes()


def unpack_band_segment(value: bytes | memoryview) -> Entries:
    """The reverse of `pack_band_segment`. Raises ValueError where the value is none."""
    words = np.frombuffer(value, "<u8", len(value) // 8).astype(np.uint64, copy=False)
    entries = bands.unpacked(words)
    if not entries.shape[1]:
        raise ValueError("its head does not fit")
    return entries


def segment_capacity(segment_bytes: int) -> int:
    """Number of entries of a segment of this size, at least 1."""
    return max(1, min(segment_bytes, SEGMENT_BYTES_MAX) // ENTRY_BYTES)
