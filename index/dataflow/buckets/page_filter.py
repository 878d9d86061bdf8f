"""Filter over a segment's pages: what it says no to is not there, so that most look-ups read nothing.

A Bloom filter in blocks of one word (Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom Filters, 2007).
"""

import numpy as np
import numpy.typing as npt

from index.matching.minhash import mixed

BITS_PER_PAGE = 12
"""Says yes to one in a hundred pages that are not there."""

_BITS_SET = 5
_WORD_BITS = 64


def filter_of(pages: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Filter over pages, uint64 [n]: words, uint64 [w]."""
    words = np.zeros(1 + len(pages) * BITS_PER_PAGE // _WORD_BITS, np.uint64)
    places, masks = _bits(pages, len(words))
    np.bitwise_or.at(words, places, masks)
    return words


def may_have(words: npt.NDArray[np.uint64], pages: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """False for pages that are not in a filter's segment, bool [n]; pages uint64 [n].

    >>> may_have(filter_of(np.array([7, 8], np.uint64)), np.array([7, 8], np.uint64))
    array([ True,  True])
    """
    places, masks = _bits(pages, len(words))
    found: npt.NDArray[np.bool_] = words[places] & masks == masks
    return found


def _bits(pages: npt.NDArray[np.uint64], words: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    # Shards are chosen by `mixed` of the page itself.
    digests = mixed(~pages)
    places = ((digests >> np.uint64(32)) * np.uint64(words) >> np.uint64(32)).astype(np.int64)
    masks = np.zeros(len(pages), np.uint64)
    for bit in range(_BITS_SET):
        masks |= np.uint64(1) << (digests >> np.uint64(6 * bit) & np.uint64(_WORD_BITS - 1))
    return places, masks
