"""XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): value checksums and document id hashes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, xxh64

NO_HASH = np.uint64(2**64 - 1)
"""Hash of an empty id, which is no id."""

_LOW_BITS = np.uint64(2**24 - 1)


@compiled
def xxh64_of(octets: npt.NDArray[np.uint8], at: int, end: int, seed: Any) -> Any:
    """XXH64 of octets at <= place < end: uint64."""
    return xxh64(np.uint64(octets.ctypes.data) + np.uint64(at), np.uint64(end - at), seed)


@compiled
def id_hashes(octets: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hashes of n concatenated ids with these ends int64 [n]: uint64 [n], 40 bits at the top; NO_HASH for an empty id."""
    found, begin = np.empty(len(ends), np.uint64), 0
    for place in range(len(ends)):
        end = ends[place]
        found[place] = xxh64_of(octets, begin, end, np.uint64(0)) & ~_LOW_BITS if end > begin else NO_HASH
        begin = end
    return found


@compiled
def text_digests(octets: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Digests of n concatenated texts with these ends int64 [n]: uint64 [n]; 0 for an empty text."""
    found, begin = np.zeros(len(ends), np.uint64), 0
    for place in range(len(ends)):
        end = ends[place]
        if end > begin:
            found[place] = xxh64_of(octets, begin, end, np.uint64(1))
        begin = end
    return found
