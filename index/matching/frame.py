"""Frames: what the pages of one host have often, and how two pages are compared beside their frames. Pure.

A host's *sample* holds signatures of its pages, no two of them versions of one page. A bin of a page is in its *frame* where
enough pages of the sample have the same value there. All other filled bins are the page's own. A page *brings nothing new* where
the sample has all but NEW_BINS_MIN - 1 of its values; then all its bins are in the frame. A fingerprint is a signature followed
by the frame's bins, one bit a bin, the lowest bit first; no bit is set where no frame is known. So a fingerprint tells on its own
how it is compared.

The distance of a document's fingerprint to that of an earlier one, from the plain one of their signatures (see `minhash`):

- Equal signatures: 0. No frame on either side, or a document that brings nothing new: the plain distance.
- `both`: the bins that are own on both sides. From OWN_BINS_MIN of them on, their distance alone counts too, times
  1 + OWN_DOUBT / both: few bins must agree better than many. It is 1 at least.
- `either`: the bins that are own on any side, without those in which both agree and one has the value from its frame. Where
  there are APART_BINS_MIN of them, and less than OWN_SHARE_MIN of them are equal, the two are different pages of one template:
  the plain distance does not count.
- The least distance that counts; DISTANCE_UNITS where none does.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.kernels.minhash import OwnLimits
from index.matching.minhash import DISTANCE_UNITS, distances_of, unpack_bins

OWN_BINS_MIN = 16
"""Bins that are own on both sides, from which on their agreement alone makes a duplicate."""

OWN_DOUBT = 64
"""Bins that are own on both sides, with which the distance over them counts twice."""

APART_BINS_MIN = 4
"""Own bins of either page, below which nothing tells the two apart: chance alone changes so many."""

OWN_SHARE_MIN = 0.25
"""Least share of equal bins, among those that are own on any side, at which the plain distance counts."""

OFTEN_PAGES_MIN = 3
"""Least number of sampled pages with a value that make it the frame's."""

OFTEN_SHARE_MIN = 0.02
"""Least share of sampled pages with a value that makes it the frame's."""

NEW_BINS_MIN = 2
"""Bins with a value that no sampled page has, below which a page brings nothing new."""

VERSION_SHARE_MIN = 0.75
"""Share of a page's own bins that a sampled page has too, from which on the page is a version of that one and not sampled."""

VERSION_SHARE_MIN_UNFRAMED = 0.95
"""The same before the frame is known, when all bins are own."""

OWN_FORM_FRAME = 0.125
"""Share of the bins in the frame, from which on a page keeps PLAIN_BANDS alone; with half of it, about half of all bands."""

OWN_FORM_OWN_MIN = 0.25
"""Share of own bins that a page needs to be filed by them."""

PLAIN_BANDS = 4
"""Bands that a page with a large frame keeps where it is filed by its own bins: the first ones."""

OWN_IN_BAND_MIN = 2
"""Own bins of a band that is kept. By a single one a page shares a bucket with each 255th page of its template."""

SINGLE_BANDS = 6
"""Bands that are kept with a single own bin too: the first ones. Copies are met by them, and their buckets are few."""

OWN_FEW = 12
"""A page with fewer own bins keeps each band that has any: hardly one has two."""

OWN_ROWS = 3
"""Own bins of a band of own bins, at most."""


OWN_LIMITS = OwnLimits(OWN_BINS_MIN, OWN_DOUBT, APART_BINS_MIN, OWN_SHARE_MIN)
"""The limits above that kernels ask for."""


@dataclass(frozen=True, slots=True)
class FrameRule:
    """When a frame is known.

    pages_min   sampled pages of a host from which on its frame is known
    sample_max  pages of a sample, at most 255: a newer page takes the place of the oldest
    every       once a sample is full, one page of so many is taken into it
    """

    pages_min: int = 5
    sample_max: int = 128
    every: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.pages_min <= self.sample_max <= 255 or self.every < 1:
            raise ValueError("a frame needs 1 to 255 pages of a sample, and its sample takes one page of at least 1")


def frame_words(signature_words: int, bin_bits: int) -> int:
    """64-bit words that the frame's bits take behind a signature."""
    return signature_words // bin_bits


def signature_words(words: int) -> int:
    """64-bit words of the signature in a fingerprint of so many: a power of two, and the frame has fewer."""
    return 1 << (words.bit_length() - 1)


def without_frames(signatures: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.uint64]:
    """Fingerprints of signatures whose frames are not known: uint64 [n, signature words] -> uint64 [n, words]."""
    fingerprints = np.zeros((len(signatures), words), np.uint64)
    fingerprints[:, : signatures.shape[1]] = signatures
    return fingerprints


def frame_bins(fingerprints: npt.NDArray[np.uint64], bin_bits: int) -> npt.NDArray[np.bool_]:
    """Which bins are in the frame: uint64 [n, words] -> bool [n, bins]."""
    of_signature = signature_words(fingerprints.shape[1])
    octets = np.ascontiguousarray(fingerprints[:, of_signature:].astype("<u8")).view(np.uint8)
    bins = of_signature * 64 // bin_bits
    if not octets.shape[1]:
        return np.zeros((len(fingerprints), bins), np.bool_)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :bins].astype(np.bool_)


def bins_of(fingerprints: npt.NDArray[np.uint64], bin_bits: int) -> npt.NDArray[np.uint8]:
    """Values of the bins of fingerprints: uint64 [n, words] -> uint8 [n, bins]."""
    return unpack_bins(np.ascontiguousarray(fingerprints[:, : signature_words(fingerprints.shape[1])]), bin_bits)


def bands_of_own(
    values: npt.NDArray[np.uint8], frames: npt.NDArray[np.bool_], bands: int, rows: int
) -> npt.NDArray[np.bool_]:
    """In which places pages have bands of their own bins: values uint8 [n, bins], frames bool [n, bins] -> bool [n, bands].

    Every page of a template has the bands that lie in its frame, so a band of own bins takes the place of each. A page with
    enough own bins has them in the last places too, the more the larger its frame: by these it meets a copy in another frame,
    by the first ones a copy in a smaller frame.
    """
    bins = values.shape[1]
    own = (values != 0) & ~frames
    of_page = np.count_nonzero(own, axis=1)[:, None]
    of_band = np.count_nonzero(own[:, : bands * rows].reshape(-1, bands, rows), axis=2)
    in_frame = frames[:, : bands * rows].reshape(-1, bands, rows).any(axis=2)
    singles = (of_page < OWN_FEW) | (np.arange(bands) < SINGLE_BANDS)
    few = in_frame & (of_band < np.where(singles, 1, OWN_IN_BAND_MIN))
    size = np.minimum(np.count_nonzero(frames, axis=1)[:, None] / (OWN_FORM_FRAME * bins), 1)
    last = np.arange(bands) >= bands - size * (bands - PLAIN_BANDS)
    by_own: npt.NDArray[np.bool_] = few | (last & (of_page >= OWN_FORM_OWN_MIN * bins))
    return by_own


def framed_distances(
    left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64], bin_bits: int
) -> npt.NDArray[np.int16]:
    """Distances of documents, left, to earlier ones, row by row: uint64 [n, words] twice -> int16 [n]. See above."""
    one, other = bins_of(left, bin_bits), bins_of(right, bin_bits)
    of_one, of_other = frame_bins(left, bin_bits), frame_bins(right, bin_bits)
    filled, differing = (one != 0, other != 0), one != other
    own = filled[0] & ~of_one, filled[1] & ~of_other
    both, either = own[0] & own[1], (own[0] | own[1]) & (differing | ~(of_one | of_other))

    plain = distances_of(_counts(filled[0] | filled[1]), _counts(filled[0] & filled[1]), _counts(differing), bin_bits)
    shared, unlike = _counts(both), _counts(both & differing)
    any_side, alike = _counts(either), _counts(either & ~differing)
    alone = distances_of(shared, shared, unlike, bin_bits)
    alone = np.clip(alone * (shared + OWN_DOUBT) // np.maximum(shared, 1), 1, DISTANCE_UNITS)
    alone[shared < OWN_BINS_MIN] = DISTANCE_UNITS
    are_apart = (any_side >= APART_BINS_MIN) & (alike < OWN_SHARE_MIN * any_side)
    found = np.minimum(np.where(are_apart, DISTANCE_UNITS, plain), alone)
    is_plain = ~(of_one | of_other).any(axis=1) | of_one.all(axis=1) | (plain == 0)
    return np.where(is_plain, plain, found).astype(np.int16)


def _counts(columns: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Number of set columns, bool [n, m] -> int64 [n]."""
    counted: npt.NDArray[np.int64] = np.count_nonzero(columns, axis=1).astype(np.int64)
    return counted
