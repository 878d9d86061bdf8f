"""Features of sampled documents as the store keeps them: their own, or what differs between them and those of a base."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.fingerprint.hashing import present

Features = npt.NDArray[np.uint32]
"""A document's features: hashes, uint32 [n], ascending."""

_LOW_BITS_MASK = np.uint32(0xFFFF)
_KEY_BITS = np.uint64(32)


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


def overlaps(
    own: Features, stored: Sequence[bytes], bases: Sequence[bytes | None]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many features others share with a document, and how many they have: int64 [others] twice.

    stored, bases  as for `unpacked`, by other document

    >>> own = np.array([3, 5], np.uint32)
    >>> shared, sizes = overlaps(own, [np.array([5, 7, 9], np.uint32).tobytes(), b""], [None, own.tobytes()])
    >>> shared.tolist(), sizes.tolist()
    ([1, 2], [3, 2])
    """
    distinct = list(dict.fromkeys(base for base in bases if base is not None))
    values, bounds = _joined([*stored, *distinct])
    # Most features are in no other document, and their low bits say so at once.
    low_bits = np.zeros(_LOW_BITS_MASK + 1, np.bool_)
    low_bits[own & _LOW_BITS_MASK] = True
    places = np.flatnonzero(low_bits.take(values & _LOW_BITS_MASK))
    shared = np.diff(np.searchsorted(places[present(values[places], own)], bounds))
    sizes, count = np.diff(bounds), len(stored)
    if not distinct:
        return shared, sizes
    rows = np.array([row for row, base in enumerate(bases) if base is not None])
    numbers = np.array([distinct.index(bases[row]) for row in rows])
    # A value is what the document has and its base lacks, or the other way round.
    differences, _ = _joined([stored[row] for row in rows])
    owners = np.repeat(np.arange(len(rows)), sizes[rows])
    base_keys = (
        np.repeat(np.arange(len(distinct), dtype=np.uint64), sizes[count:]) << _KEY_BITS | values[bounds[count] :]
    )
    lost = present(numbers.astype(np.uint64)[owners] << _KEY_BITS | differences, base_keys)
    ours = present(differences, own)
    shared[rows] += shared[count + numbers] - 2 * np.bincount(owners[lost & ours], minlength=len(rows))
    sizes[rows] += sizes[count + numbers] - 2 * np.bincount(owners[lost], minlength=len(rows))
    return shared[:count], sizes[:count]


def _joined(stored: Sequence[bytes]) -> tuple[Features, npt.NDArray[np.int64]]:
    """All values, and each document's bounds among them: int64 [documents + 1]."""
    values = np.frombuffer(b"".join(stored), np.uint32)
    return values, np.cumsum([0, *map(len, stored)]) // values.itemsize
