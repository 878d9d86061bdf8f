"""The second look: bytes kept with a document's fingerprint that decide whether a match counts. Pure.

Only this module interprets these bytes. The index stores looks, and compares two if their fingerprints lie within the
distance.

Cosine (the vector space model): cos(A, B) = A.B / (|A| |B|) over the weights of features. A look is a vector of
signed 8-bit cells, a sketch of all weights. The cosine of two sketches estimates the cosine of the whole vectors
(feature hashing: Weinberger et al., ICML 2009). A match counts if the cosine is large enough; its verdict gives the
Hamming distance.

Metadata (improved SimHash I): keywords, tags and references are a set; a look holds its MinHash signature (b-bit
minwise hashing: Li, König, WWW 2010). A signature has one 8-bit value per hash function: 1 to 255, and 0 only for the
empty set. Two different minima get the same value once in 255 times; the formula corrects for that:

    similarity = mu / (1 + Hamming distance) + (1 - mu) * m,   m = max(0, (agreement - 1/255) / (1 - 1/255))

A match counts if the similarity is large enough. Its verdict and its rank are 1 - similarity in ten-thousandths.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from index.matching.minhash import DISTANCE_UNITS, distance_of

SIGNATURE_VALUES = 255
"""Values of a hash function in a signature, except 0 for the empty set."""

ROWS_AT_ONCE = 2**12
"""Looks compared at once: bounds the memory for their floats."""

_REACH_LIMIT = 128


class Judged(NamedTuple):
    """Judgement of a second look on n matches.

    distances  int16 [n], distance for the verdict and the match's rank
    counts     bool [n], whether the match is a near-duplicate

    >>> judged = Judged(np.array([3, 1], np.int16), np.array([False, True]))
    >>> judged.distances[judged.counts]
    array([1], dtype=int16)
    """

    distances: npt.NDArray[np.int16]
    counts: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Look:
    """Second look that accepts every match and needs no bytes; others accept fewer.

    >>> nothing = np.zeros((2, 0), np.uint8)
    >>> Look().judge(np.array([3, 7], np.int16), nothing, nothing).counts
    array([ True,  True])
    """

    kind: ClassVar[str] = "none"
    threshold: ClassVar[str] = ""
    by_similarity: ClassVar[bool] = False

    @property
    def bytes(self) -> int:
        """Bytes per look."""
        return 0

    def judge(
        self,
        distances: npt.NDArray[np.int16],
        left: npt.NDArray[np.uint8],  # noqa: ARG002
        right: npt.NDArray[np.uint8],  # noqa: ARG002
    ) -> Judged:
        """Judge matches at Hamming distances, int16 [n], by both looks, uint8 [n, bytes] twice."""
        return Judged(distances, np.ones(len(distances), np.bool_))

    def least(self, distances: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Least distance that `judge` can give at these Hamming distances: int16 [n] -> int16 [n]."""
        return distances

    def radius(self, distance_max: int) -> int:
        """Largest Hamming distance at which a match can count."""
        return distance_max

    def stricter(self, asked: "Look") -> "Look":
        """This look with the stricter threshold of both."""
        if not self.threshold or self.kind != asked.kind:
            return self
        return replace(self, **{self.threshold: max(getattr(look, self.threshold) for look in (self, asked))})


NO_LOOK = Look()


@dataclass(frozen=True, slots=True)
class CosineLook(Look):
    """Second look by the cosine of feature weights.

    cells       cells per vector, a byte each
    cosine_min  least cosine at which a match counts, 0 to 1

    >>> CosineLook(cells=2, cosine_min=0.9).judge(np.array([3], np.int16), *np.array([[[1, 2]], [[2, 4]]], np.uint8)).counts
    array([ True])
    """

    kind: ClassVar[str] = "cosine"
    threshold: ClassVar[str] = "cosine_min"
    cells: int
    cosine_min: float

    def __post_init__(self) -> None:
        if self.cells < 1 or not 0 <= self.cosine_min <= 1:
            raise ValueError("a vector has at least one cell, and cosine_min is 0 to 1")

    @property
    def bytes(self) -> int:
        """Bytes per look."""
        return self.cells

    def judge(
        self, distances: npt.NDArray[np.int16], left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]
    ) -> Judged:
        """As `Look.judge`."""
        counts = np.empty(len(distances), np.bool_)
        for begin in range(0, len(distances), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            counts[rows] = cosine(left[rows].view(np.int8), right[rows].view(np.int8)) >= self.cosine_min
        return Judged(distances, counts)


@dataclass(frozen=True, slots=True)
class MetadataLook(Look):
    """Second look by metadata and fingerprints together.

    functions       hash functions per signature, a byte each
    content_weight  mu, the weight of the fingerprints: above 0, at most 1
    similarity_min  least similarity at which a match counts: above 0, at most 1

    >>> MetadataLook(functions=128, content_weight=0.9, similarity_min=0.5).reach
    1
    """

    kind: ClassVar[str] = "metadata"
    threshold: ClassVar[str] = "similarity_min"
    by_similarity: ClassVar[bool] = True
    functions: int
    content_weight: float
    similarity_min: float

    def __post_init__(self) -> None:
        if self.functions < 1 or not 0 < self.content_weight <= 1 or not 0 < self.similarity_min <= 1:
            raise ValueError("a signature has at least one value, and content_weight and similarity_min are 0 to 1")

    @property
    def bytes(self) -> int:
        """Bytes per look."""
        return self.functions

    @property
    def reach(self) -> int:
        """Largest Hamming distance at which a match can count: floor(mu / (similarity_min - (1 - mu)) - 1).

        128 if metadata alone suffices.
        """
        near = self.least(np.arange(_REACH_LIMIT + 1, dtype=np.int16)) <= distance_of(self.similarity_min)
        return int(np.flatnonzero(near)[-1])

    def judge(
        self, distances: npt.NDArray[np.int16], left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]
    ) -> Judged:
        """As `Look.judge`."""
        combined = self._combined(distances, signature_similarity(left, right))
        return Judged(combined, combined <= distance_of(self.similarity_min))

    def least(self, distances: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """As `Look.least`."""
        return self._combined(distances, np.ones(len(distances)))

    def radius(self, distance_max: int) -> int:  # noqa: ARG002
        """As `Look.radius`: `reach`."""
        return self.reach

    def _combined(
        self, distances: npt.NDArray[np.int16], similarities: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int16]:
        similarity = combined_similarity(distances, similarities, self.content_weight)
        return np.rint((1.0 - similarity) * DISTANCE_UNITS).astype(np.int16)


_KINDS: Mapping[str, type[Look]] = {look.kind: look for look in (CosineLook, MetadataLook)}


def cosine(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """A.B / (|A| |B|) row by row: numbers [n, d] twice -> float64 [n].

    Equal rows have 1, even zeros; a row of zeros has 0 with any other.

    >>> cosine(np.array([[3, 4]]), np.array([[4, 3]]))
    array([0.96])
    """
    one, other = left.astype(np.float64), right.astype(np.float64)
    products, ones, others = (np.einsum("ij,ij->i", *each) for each in ((one, other), (one, one), (other, other)))
    # Sums and products of 8-bit integers are exact in float64, so only the root and the division round.
    sizes = np.sqrt(ones * others)
    cosines = np.where(sizes > 0, products / np.where(sizes > 0, sizes, 1.0), 0.0)
    return np.asarray(np.where((left == right).all(axis=1), 1.0, cosines))


def signature_similarity(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Estimated Jaccard similarity, row by row: uint8 [n, functions] twice -> float64 [n]; 0 for empty sets."""
    agreement = np.count_nonzero((left == right) & (left != 0), axis=1) / left.shape[1]
    chance = 1.0 / SIGNATURE_VALUES
    return np.asarray(np.maximum(0.0, (agreement - chance) / (1.0 - chance)))


def combined_similarity(
    distances: npt.NDArray[np.int16], similarities: npt.NDArray[np.float64], content_weight: float
) -> npt.NDArray[np.float64]:
    """mu / (1 + Hamming distance) + (1 - mu) * metadata similarity: int16 [n], float64 [n] -> float64 [n]."""
    return content_weight / (1.0 + distances) + (1.0 - content_weight) * similarities


def look_fields(look: Look) -> dict[str, Any]:
    """Fields of a second look, for JSON."""
    return {"kind": look.kind, **asdict(look)}


def look_of(kind: str, **fields: Any) -> Look:
    """Revert `look_fields`. Raises KeyError, TypeError, ValueError."""
    return _KINDS[kind](**fields)
