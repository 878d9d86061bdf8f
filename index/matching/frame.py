"""Frames: bins that a host's pages often share, and the comparison of two pages without them. Pure.

A host's *sample* holds signatures of its pages, no two of them versions of one page. With a known frame, versions
wait. The first pages of a new design look like versions, so TEMPLATE_PAGES_MIN of them enter together if their changes do
not pile up.

A page's bin is in its *frame* if enough sampled pages have the same value there. All other filled bins are the page's
own. A page *brings nothing new* if the sample has all but NEW_BINS_MIN - 1 of its values; then all its bins are in the frame.

A fingerprint is a signature followed by the frame's bins, one bit a bin, the lowest first; none is set for an unknown
frame. So a fingerprint alone determines its comparison.

The distance from a document's fingerprint to an earlier one starts from the plain distance of their signatures (see
`minhash`):

- Equal signatures: 0. No frame on either side, or a document that brings nothing new: the plain distance.
- `both`: the bins that are own on both sides. From OWN_BINS_MIN on, their distance alone counts too, times
  1 + OWN_DOUBT / both: few bins must agree better than many. It is at least 1.
- `either`: the bins that are own on any side, except those that agree and are in a frame on one side. From APART_BINS_MIN on,
  with less than OWN_SHARE_MIN equal, the two are different pages with one template: the plain distance does not count.
- The least distance that counts, or DISTANCE_UNITS.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.kernels import bins
from index.kernels.bins import OwnLimits
from index.matching.minhash import DISTANCE_UNITS, unpack_bins

OWN_BINS_MIN = 16
"""Least bins own on both sides whose agreement alone makes a duplicate."""

OWN_DOUBT = 64
"""Bins own on both sides at which the distance over them counts twice."""

APART_BINS_MIN = 4
"""Least own bins of either page that separate two pages: chance alone changes fewer."""

OWN_SHARE_MIN = 0.25
"""Least share of equal bins, among those own on any side, at which the plain distance counts."""

OFTEN_PAGES_MIN = 3
"""Least sampled pages that put a value into the frame."""

OFTEN_SHARE_MIN = 0.02
"""Least share of sampled pages that puts a value into the frame."""

NEW_BINS_MIN = 2
"""Bins with a value that no sampled page has, below which a page brings nothing new."""

SAME_SHARE_MIN = 0.93
"""Share of a page's own bins in a sampled page from which both are versions, and only one is sampled."""

VERSION_SHARE_MIN = 0.75
"""Share from which a page may be a version once the frame is known: it waits.

All bins of a new design's first pages are their own, so these are alike as versions are.
"""

TEMPLATE_PAGES_MIN = 4
"""Versions of each other, and of a sampled page, that enter the sample together if each has its own text."""

SPLIT_SHARE_MAX = 0.5
"""Bins that divide such pages into groups, as a share of the bins that are new with the last one: above it, edits pile up."""

WAITING_MAX = 32
"""Most pages of a host that wait: three of each page type, for ten types of a new design in turn."""

OWN_FORM_FRAME = 0.125
"""Share of bins in the frame at which a page keeps only PLAIN_BANDS; at half this share, about half its bands."""

OWN_FORM_OWN_MIN = 0.25
"""Share of own bins that a page needs to be filed by them."""

PLAIN_BANDS = 4
"""First bands that a page with a large frame keeps if filed by its own bins."""

OWN_IN_BAND_MIN = 2
"""Own bins for a band to keep. By a single bin a page shares a bucket with one in 255 pages from its template."""

SINGLE_BANDS = 6
"""First bands kept with a single own bin: copies meet in them, and their buckets are few."""

OWN_FEW = 12
"""A page with fewer own bins keeps each band that has any: hardly one has two."""

OWN_ROWS = 3
"""Most own bins in a band of own bins."""


OWN_LIMITS = OwnLimits(OWN_BINS_MIN, OWN_DOUBT, APART_BINS_MIN, OWN_SHARE_MIN)
"""The limits above, for kernels."""


@dataclass(frozen=True, slots=True)
class FrameRule:
    """When a frame is known.

    pages_min   least sampled pages
    sample_max  pages in a sample, at most 255: a newer page replaces the oldest
    every       a full sample takes in one page out of this many

    >>> FrameRule(sample_max=256)
    Traceback (most recent call last):
    ValueError: a frame needs 1 to 255 pages of a sample, and its sample takes one page of at least 1
    """

    pages_min: int = 5
    sample_max: int = 128
    every: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.pages_min <= self.sample_max <= 255 or self.every < 1:
            raise ValueError("a frame needs 1 to 255 pages of a sample, and its sample takes one page of at least 1")


def frame_words(signature_words: int, bin_bits: int) -> int:
    """64-bit words for the frame's bits."""
    return signature_words // bin_bits


def signature_words(words: int) -> int:
    """64-bit words that a fingerprint's signature takes: a power of two, and the frame has fewer."""
    return 1 << (words.bit_length() - 1)


def without_frames(signatures: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.uint64]:
    """Fingerprints without known frames: uint64 [n, signature words] -> uint64 [n, words]."""
    fingerprints = np.zeros((len(signatures), words), np.uint64)
    fingerprints[:, : signatures.shape[1]] = signatures
    return fingerprints


def frame_bins(fingerprints: npt.NDArray[np.uint64], bin_bits: int) -> npt.NDArray[np.bool_]:
    """Bins in the frame: uint64 [n, words] -> bool [n, bins]."""
    signature_end = signature_words(fingerprints.shape[1])
    octets = np.ascontiguousarray(fingerprints[:, signature_end:].astype("<u8")).view(np.uint8)
    bins = signature_end * 64 // bin_bits
    if not octets.shape[1]:
        return np.zeros((len(fingerprints), bins), np.bool_)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :bins].astype(np.bool_)


def bins_of(fingerprints: npt.NDArray[np.uint64], bin_bits: int) -> npt.NDArray[np.uint8]:
    """Values of fingerprints' bins: uint64 [n, words] -> uint8 [n, bins]."""
    return unpack_bins(np.ascontiguousarray(fingerprints[:, : signature_words(fingerprints.shape[1])]), bin_bits)


def bands_of_own(
    values: npt.NDArray[np.uint8], frames: npt.NDArray[np.bool_], bands: int, rows: int
) -> npt.NDArray[np.bool_]:
    """Bands that a page replaces by bands of its own bins: uint8 [n, bins], bool [n, bins] -> bool [n, bands].

    Every page of a template has the bands inside its frame, so bands of own bins replace those. A page with enough own bins
    has them in the last places too, more with a larger frame. Through these it meets a copy in another frame; through the
    first ones, a copy in a smaller frame.
    """
    bins = values.shape[1]
    own = (values != 0) & ~frames
    own_counts = np.count_nonzero(own, axis=1)[:, None]
    own_in_bands = np.count_nonzero(own[:, : bands * rows].reshape(-1, bands, rows), axis=2)
    in_frame = frames[:, : bands * rows].reshape(-1, bands, rows).any(axis=2)
    singles = (own_counts < OWN_FEW) | (np.arange(bands) < SINGLE_BANDS)
    few = in_frame & (own_in_bands < np.where(singles, 1, OWN_IN_BAND_MIN))
    size = np.minimum(np.count_nonzero(frames, axis=1)[:, None] / (OWN_FORM_FRAME * bins), 1)
    last = np.arange(bands) >= bands - size * (bands - PLAIN_BANDS)
    by_own: npt.NDArray[np.bool_] = few | (last & (own_counts >= OWN_FORM_OWN_MIN * bins))
    return by_own


def framed_distances(
    left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64], bin_bits: int
) -> npt.NDArray[np.int16]:
    """Distances from documents to earlier ones, row by row: uint64 [n, words] twice -> int16 [n]."""
    rows = np.arange(len(left))
    _, framed = bins.distances(left, right, rows, rows, bin_bits, DISTANCE_UNITS, OWN_LIMITS)
    return np.asarray(framed)
