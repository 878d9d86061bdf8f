"""MinHash signatures: their bits, the similarity they estimate, and the bands that yield candidates.

A signature holds `bins` values with `bin_bits` bits each. 0 marks an empty bin; any other value represents the
smallest hash among the bin's shingles. A signature has two uses.

Similarity (one permutation hashing: Li, Owen, Zhang, NIPS 2012): among the bins filled in at least one of two
signatures, the share with the same smallest hash in both estimates the Jaccard similarity without bias. Two different
smallest hashes get the same value once in V = 2^bin_bits - 1 times; the formula corrects for that. `either` bins are
filled in at least one signature, `both` in both, and `same` bins hold equal values:

    similarity = (same - both / V) / (1 - 1 / V) / either.

Without empty bins that is (agreement - 1 / V) / (1 - 1 / V). Texts with fewer shingles than bins are compared nearly
shingle by shingle.

Block keys: `bands` bands of `rows` bins each; a key is the band's number and a hash of its values. Fixed random draws
first fill empty bins from others (Shrivastava, "Optimal Densification for Fast and Accurate Minwise Hashing", ICML
2017). Then the probability of equal values in a bin is again the similarity s. Two documents share a key with
probability 1 - (1 - s^rows)^bands.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

BINS = (64, 128, 256)
BIN_BITS = (4, 8)
DISTANCE_UNITS = 10_000
"""Units of distance in 1 - similarity = 1."""

HASH_BITS = 40
"""Bits of a band's hash, as many as in five 8-bit values: two documents hardly share one by chance."""

SHARED_MIN = 0.95
"""Least probability that two documents at the threshold share a band.

Right there the estimate itself is a coin toss; a little above, hardly a pair is missed.
"""


@dataclass(frozen=True, slots=True)
class Banding:
    """Shape of signatures and their bands. Raises ValueError for an impossible one.

    bins      values in a signature: 64, 128 or 256
    bin_bits  bits per value: 4 or 8
    bands     block keys per signature, at most 256
    rows      values per band; all bands together have at most `bins`

    >>> Banding(bins=128, bin_bits=8, bands=25, rows=5).bits
    1024
    """

    bins: int
    bin_bits: int
    bands: int
    rows: int

    def __post_init__(self) -> None:
        if self.bins not in BINS or self.bin_bits not in BIN_BITS:
            raise ValueError(f"bins must be one of {BINS} and bin_bits of {BIN_BITS}")
        if self.bands < 1 or self.rows < 1 or self.bands * self.rows > self.bins:
            raise ValueError(f"{self.bands} bands of {self.rows} rows do not fit into {self.bins} bins")

    @property
    def bits(self) -> int:
        """Signature length in bits."""
        return self.bins * self.bin_bits


def banding_for(bins: int, bin_bits: int, similarity_min: float) -> Banding:
    """Shape whose bands documents with `similarity_min` share with probability SHARED_MIN.

    As many rows as possible, for the fewest false candidates; then as few bands, as each is an entry in the index.
    """
    rows = max((rows for rows in range(1, bins + 1) if _bands_needed(bins, rows, similarity_min)), default=1)
    return Banding(bins, bin_bits, _bands_needed(bins, rows, similarity_min) or bins // rows, rows)


def _bands_needed(bins: int, rows: int, similarity: float) -> int:
    """Fewest sufficient bands; 0 with too few bins."""
    possible = range(1, bins // rows + 1)
    return next((bands for bands in possible if shared_probability(similarity, bands, rows) >= SHARED_MIN), 0)


def shared_probability(similarity: float, bands: int, rows: int) -> float:
    """Probability that two documents share a block key: 1 - (1 - s^rows)^bands.

    >>> round(shared_probability(0.8, bands=20, rows=5), 4)
    0.9996
    """
    return float(1.0 - (1.0 - similarity**rows) ** bands)


def distance_of(similarity: float) -> int:
    """Distance for a similarity: 0 to 1 -> 0 to DISTANCE_UNITS, rounded to the nearest.

    >>> distance_of(0.8)
    2000
    """
    return round((1.0 - similarity) * DISTANCE_UNITS)


def similarity_of(distance: int) -> float:
    """Revert `distance_of`."""
    return round(1.0 - distance / DISTANCE_UNITS, 4)


def similarities_of(distances: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """`similarity_of` for every distance: int16 [n] -> float64 [n]."""
    return np.round(1.0 - distances / DISTANCE_UNITS, 4)


def pack_bins(values: npt.NDArray[np.uint8], bin_bits: int) -> npt.NDArray[np.uint64]:
    """Values uint8 [n, bins] -> signatures uint64 [n, bins * bin_bits / 64]; bin 0 has word 0's lowest bits."""
    if bin_bits == 4:
        values = values[:, ::2] | (values[:, 1::2] << np.uint8(4))
    return np.ascontiguousarray(values).view("<u8").astype(np.uint64, copy=False)


def unpack_bins(signatures: npt.NDArray[np.uint64], bin_bits: int) -> npt.NDArray[np.uint8]:
    """Revert `pack_bins`."""
    octets = np.ascontiguousarray(signatures.astype("<u8", copy=False)).view(np.uint8)
    if bin_bits == 8:
        return octets
    return np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=2).reshape(len(octets), 2 * octets.shape[1])


def densify(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Fill every empty bin: uint8 [n, bins] -> uint8 [n, bins].

    An empty bin takes the value of the first filled bin in its `draws`, the same for all documents. A row without any
    value stays empty.
    """
    filled = values.copy()
    order = draws(values.shape[1])
    rows, bins = np.nonzero(values == 0)
    for draw in range(order.shape[1]):
        if len(rows) == 0:
            break
        drawn = values[rows, order[bins, draw]]
        filled[rows, bins] = drawn
        still_empty = drawn == 0
        rows, bins = rows[still_empty], bins[still_empty]
    return filled


def band_keys(signatures: npt.NDArray[np.uint64], banding: Banding) -> npt.NDArray[np.uint64]:
    """Block keys of signatures: uint64 [n, words] -> uint64 [n, bands].

    A key is the band's number times 2^40 plus its hash.
    """
    hashes = band_hashes(unpack_bins(signatures, banding.bin_bits), banding.bands, banding.rows)
    return hashes | (np.arange(banding.bands, dtype=np.uint64) << np.uint64(HASH_BITS))


def band_hashes(values: npt.NDArray[np.uint8], bands: int, rows: int) -> npt.NDArray[np.uint64]:
    """Band hashes: uint8 [n, bins] -> uint64 [n, bands], 40 bits.

    A hash is the top bits of D6E8FEB86659FD93 (hexadecimal) times h. A chain over the band's values gives h:
    h = mix(h + value), from h = 0 on. `mix` multiplies by 9E3779B97F4A7C15 and folds the high half onto the low half.
    """
    banded = densify(values)[:, : bands * rows].reshape(-1, bands, rows)
    chain = np.zeros(banded.shape[:2], np.uint64)
    for row in range(rows):
        chain = (chain + banded[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        chain ^= chain >> np.uint64(32)
    return (chain * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(64 - HASH_BITS)


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finalizer (Steele, Lea, Flood, OOPSLA 2014): uint64 [n] -> uint64 [n]."""
    hashes = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


@cache
def draws(bins: int) -> npt.NDArray[np.int64]:
    """Order in which each bin tries the others, int64 [bins, bins - 1]: sorted by a hash (SplitMix64) of the pair."""
    pairs = np.arange(bins * bins, dtype=np.uint64) + np.uint64(1)
    hashes = mixed(pairs * np.uint64(0x9E3779B97F4A7C15)).reshape(bins, bins)
    order = np.argsort(hashes, axis=1)
    others: npt.NDArray[np.int64] = order[order != np.arange(bins)[:, None]].reshape(bins, bins - 1)
    return others
