"""Codec for segments with hashes and numbers, as in `layout`, in as few bits as possible."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import hash_segments
from index.storage.file.checksums import CHECKSUM
from index.storage.segments.compaction_state import HASH_KEY

Entries = npt.NDArray[np.uint64]
"""Entries, uint64 [2, n], ascending: hashes (top 40 bits of a word) and numbers."""

ENTRY_BYTES = 8
"""Approximate maximum bytes per entry in large segments; 6 with 100 million documents."""

SEGMENT_BYTES_MAX = 2**20
"""Approximate maximum segment size: the head holds the numbers' checksums."""

PART_ENTRIES = 16
"""Mean entries per part: lookups compute the part and search it."""

NO_ENTRIES: Entries = np.empty((2, 0), np.uint64)

_PAGE_BYTES = 4096
_PAGE_HEADER_BYTES = 16


class HashKey(NamedTuple):
    """A segment's key: band (its table), level, and bound, the least entry it may hold.

    >>> HashKey(band=3, level=1).packed() < HashKey(band=3, level=1, hashed=1).packed() < HashKey(band=4, level=0).packed()
    True
    """

    band: int
    level: int
    hashed: int = 0
    number: int = 0

    def packed(self) -> bytes:
        """The stored key."""
        return HASH_KEY.pack(*self)

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The key as checksums cover it, uint64 [3]."""
        return np.array([self.band << 8 | self.level, self.hashed, self.number], np.uint64)


def pack_hash_segment(key: HashKey, entries: Entries) -> bytes:
    """A segment with at least one entry, uint64 [2, n], none below the bound in its key.

    >>> entries = np.array([[5 << 24, 9 << 24], [1, 2]], np.uint64)
    >>> (unpack_hash_segment(pack_hash_segment(HashKey(0, 1), entries)) == entries).all()
    np.True_
    """
    hashes, numbers = entries
    assert not int(numbers.max()) >> 40, "a number has more than 40 bits"
    count, base = len(hashes), int(hashes[0])
    width = (int(hashes[-1]) - base) >> hash_segments.LOW_BITS
    rest_bits, number_bits = (width // max(1, count // PART_ENTRIES)).bit_length(), int(numbers.max()).bit_length()
    parts, number_words = (width >> rest_bits) + 1, -(-count * number_bits // 64)
    starts = hash_segments.HEAD_WORDS + -(-number_words // hash_segments.BLOCK_WORDS)
    rests = starts + (parts + 2) // 2
    size = 8 * (rests + -(-count * rest_bits // 64) + 1 + number_words + 1)
    words = np.zeros(size_class(size) // 8, np.uint64)
    words[1] = count | (rest_bits | number_bits << 8 | starts << 16) << 32
    words[2], words[3] = base, parts | rests << 32
    hash_segments.fill(words, hashes, numbers, key.words)
    return words.astype("<u8", copy=False).tobytes()


def unpack_hash_segment(value: bytes | memoryview) -> Entries:
    """Undo `pack_hash_segment`. Raises ValueError if the value is not a segment."""
    words = np.frombuffer(value, "<u8", len(value) // 8).astype(np.uint64, copy=False)
    entries = hash_segments.unpacked(words)
    if not entries.shape[1]:
        raise ValueError("its head does not fit")
    return entries


def segment_capacity(segment_bytes: int) -> int:
    """Entries in a segment with this size, at least 1."""
    return max(1, min(segment_bytes, SEGMENT_BYTES_MAX) // ENTRY_BYTES)


def size_class(size: int) -> int:
    """Least size that is at least `size` and fills whole pages with a checksum; their number has at most 5 significant bits.

    >>> size_class(100), size_class(5_000)
    (4072, 8168)
    """
    besides = _PAGE_HEADER_BYTES + CHECKSUM.size
    pages = -(-(size + besides) // _PAGE_BYTES)
    step = 1 << max(0, pages.bit_length() - 5)
    return (-(-pages // step) * step) * _PAGE_BYTES - besides
