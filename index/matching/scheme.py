"""Schemes: how two fingerprints compare, and how many keys file an entry. Pure."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from index.matching.distance import hamming
from index.matching.frame import frame_words, framed_distances
from index.matching.minhash import DISTANCE_UNITS, Banding, similarity_of
from index.matching.simhash import BLOCK_BITS

DISTANCE_MAX = 7


@dataclass(frozen=True, slots=True)
class Simhash:
    """Fingerprints of 64 or 128 bits, by Hamming distance; filed by blocks.

    >>> Simhash(64).keys
    4
    """

    name: ClassVar[Literal["simhash"]] = "simhash"
    by_similarity: ClassVar[bool] = False
    distance_limit: ClassVar[int] = DISTANCE_MAX
    possible_bits: ClassVar[tuple[int, ...]] = (64, 128)
    bits: int

    @property
    def farthest(self) -> int:
        """The largest distance of two fingerprints."""
        return self.bits

    @property
    def keys(self) -> int:
        """Filing keys per entry."""
        return self.bits // BLOCK_BITS

    def frame_words(self) -> int:
        """64-bit words of a page's frame."""
        return 0

    def distances(self, left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
        """Distances from documents to earlier ones, row by row: uint64 [n, words] twice -> int16 [n]."""
        return hamming(left, right)

    def threshold(self, distance_max: int) -> dict[str, str]:
        """The threshold's name and value, as a user sets it."""
        return {"distance_max": str(distance_max)}


@dataclass(frozen=True, slots=True)
class Minhash:
    """Signatures, by estimated similarity; filed by bands.

    >>> Minhash(Banding(bins=128, bin_bits=8, bands=17, rows=5)).keys
    17
    """

    name: ClassVar[Literal["minhash"]] = "minhash"
    by_similarity: ClassVar[bool] = True
    distance_limit: ClassVar[int] = DISTANCE_UNITS
    farthest: ClassVar[int] = DISTANCE_UNITS
    banding: Banding

    @property
    def possible_bits(self) -> tuple[int, ...]:
        """Lengths that a fingerprint may have."""
        return (self.banding.bits,)

    @property
    def keys(self) -> int:
        """As `Simhash.keys`."""
        return self.banding.bands

    def frame_words(self) -> int:
        """As `Simhash.frame_words`."""
        return frame_words(self.banding.bits // 64, self.banding.bin_bits)

    def distances(self, left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
        """As `Simhash.distances`."""
        return framed_distances(left, right, self.banding.bin_bits)

    def threshold(self, distance_max: int) -> dict[str, str]:
        """As `Simhash.threshold`."""
        return {"similarity_min": f"{similarity_of(distance_max):g}"}


Scheme = Simhash | Minhash


def scheme_of(bits: int, banding: Banding | None) -> Scheme:
    """MinHash with a banding, else SimHash."""
    return Simhash(bits) if banding is None else Minhash(banding)
