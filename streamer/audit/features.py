"""Features of sampled documents as the store keeps them: their own, or what differs between them and those of a base."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.fingerprint import overlap_kernels

Features = npt.NDArray[np.uint32]
"""A document's features: hashes, uint32 [n], ascending."""


def packed(features: Features, base: Features | None) -> bytes:
    """What the store keeps, as `unpacked` reads it."""
    return (features if base is None else np.setxor1d(features, base, assume_unique=True)).tobytes()


def unpacked(stored: bytes, base: bytes | None) -> Features:
    """A document's features; base: those of the document whose difference to it is stored.

    >>> base = np.array([3, 5], np.uint32)
    >>> unpacked(packed(np.array([3, 9], np.uint32), base), base.tobytes())
    array([3, 9], dtype=uint32)
    """
    features = np.frombuffer(stored, np.uint32)
    return features if base is None else np.setxor1d(features, np.frombuffer(base, np.uint32), assume_unique=True)


def overlaps(own: Features, stored: Sequence[bytes], bases: Sequence[bytes | None]) -> npt.NDArray[np.int64]:
    """How many features others share with a document, and how many they have: int64 [2, others].

    stored, bases  as for `unpacked`, by other document

    >>> own = np.array([3, 5], np.uint32)
    >>> shared, sizes = overlaps(own, [np.array([5, 7, 9], np.uint32).tobytes(), b""], [None, own.tobytes()])
    >>> shared.tolist(), sizes.tolist()
    ([1, 2], [3, 2])
    """
    distinct: dict[bytes, int] = {}
    first = 1 + len(stored)
    numbers = [-1 if base is None else distinct.setdefault(base, first + len(distinct)) for base in bases]
    kept = [own.tobytes(), *stored, *distinct]
    bounds = np.cumsum([0, *map(len, kept)]) // own.itemsize
    return overlap_kernels.overlaps(np.frombuffer(b"".join(kept), np.uint32), bounds, np.array(numbers, np.int64))
