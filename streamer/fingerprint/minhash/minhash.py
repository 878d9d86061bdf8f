"""Shingles -> MinHash signatures: one-permutation hashing over a batch at a time.

One permutation hashing (Li, Owen, Zhang, "One Permutation Hashing", NIPS 2012): every shingle is hashed once; the top
bits of the hash choose one of `bins` bins, and the smallest hash of each bin stays. Of it only a value of `bin_bits` bits
is kept (Li, König, "b-Bit Minwise Hashing", WWW 2010). A bin without a shingle says so: that tells how small the text
is, and makes the estimate of short texts far better than that of a filled-up signature (index/matching/minhash.py has both
formulas, and fills up empty bins for the bands only).
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index.entry import Kind
from index.matching.minhash import pack_bins
from streamer.fingerprint.fingerprints import Fingerprints, slices
from streamer.fingerprint.hashing import hash_text, hash_words
from streamer.fingerprint.minhash import kernels
from streamer.fingerprint.minhash.shingles import Shingles, shingle_characters
from streamer.fingerprint.word_shingles import shingle
from streamer.records.reason import Reason
from streamer.settings.settings import Fingerprint, Minhash
from streamer.text.characters import Characters, tables_hash
from streamer.text.normalisation import Normaliser
from streamer.text.segmentation import segmenter
from streamer.text.words import split

FORMAT_VERSION = 2
"""Raised whenever the same settings begin to give other signatures; the pinned examples of the tests say when."""

NOTHING = np.uint64(2**64 - 1)
"""The smallest hash of no members."""


class MinHasher:
    """Texts -> packed signatures, by one group of settings. What a text gets depends on nothing but that text."""

    def __init__(self, settings: Minhash, normaliser: Normaliser | None = None) -> None:
        """Load the character tables (below 0.7 s), and for shingles of words the segmenter.

        Without a normaliser texts get the normal form and nothing else.
        """
        self._settings = settings
        self._normaliser = normaliser or Normaliser(Fingerprint())
        self._word_shingles = WordShingles(settings.shingle_words) if settings.shingles == "words" else None
        self.fingerprint([])

    def fingerprint(
        self,
        texts: Sequence[str],
        _titles: Sequence[str] | None = None,
        _metadata: Sequence[Sequence[str]] | None = None,
    ) -> Fingerprints:
        """The signature of every text, row for row, packed as `index.matching.minhash.pack_bins` does. Nothing else plays a part.

        A text's feature count is the number of its filled bins: its distinct shingles, as long as they are few. A text
        without letters and digits is UNDECIDABLE; one with fewer than `features_min` filled bins is EXACT: its
        fingerprint is the XXH3 hash of its normalised text in UTF-8, 128 bits, in the first two words.
        """
        parts = [self._slice(texts[begin:end]) for begin, end in slices(texts)]
        return Fingerprints(
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.reasons for part in parts]),
            np.concatenate([part.fingerprints for part in parts]),
            np.concatenate([part.feature_counts for part in parts]),
        )

    def stamp(self) -> dict[str, str]:
        """Everything that changes a signature, by name; two programs with equal stamps give equal signatures."""
        settings = self._settings
        if self._word_shingles is not None:
            shingles = {"shingles": "words", "shingle_words": str(settings.shingle_words)} | self._word_shingles.stamp()
        else:
            shingles = {
                "shingle_characters_wide": str(settings.shingle_characters_wide),
                "shingle_characters_narrow": str(settings.shingle_characters_narrow),
                "hash": "polynomial, splitmix64",
            }
        return {
            "scheme": "minhash",
            "format": str(FORMAT_VERSION),
            "bins": str(settings.bins),
            "bin_bits": str(settings.bin_bits),
            "features_min": str(settings.features_min),
            "normalisation": f"unicode {unicodedata.unidata_version}, tables {tables_hash()}",
            **self._normaliser.stamp(),
            **shingles,
        }

    def _shingles(self, characters: Characters) -> Shingles:
        if self._word_shingles is not None:
            return self._word_shingles.of(characters)
        settings = self._settings
        return shingle_characters(characters, settings.shingle_characters_wide, settings.shingle_characters_narrow)

    def _slice(self, texts: Sequence[str]) -> Fingerprints:
        settings = self._settings
        characters = self._normaliser.characters(texts)
        values = bin_values(self._shingles(characters), settings.bins, settings.bin_bits)
        counts = np.count_nonzero(values, axis=1).astype(np.int32)
        kinds = np.full(len(texts), Kind.NEAR, np.uint8)
        reasons = np.full(len(texts), Reason.ORDINARY, np.uint8)
        short, empty = counts < settings.features_min, counts == 0
        kinds[short], reasons[short] = Kind.EXACT, Reason.SHORT_TEXT
        kinds[empty], reasons[empty] = Kind.UNDECIDABLE, Reason.NO_FEATURES
        signatures = pack_bins(values, settings.bin_bits)
        for row in np.flatnonzero(short & ~empty).tolist():
            signatures[row, :2] = hash_text(characters.text(row), 2)
            signatures[row, 2:] = 0
        return Fingerprints(kinds, reasons, signatures, counts)


class WordShingles:
    """Normalised texts -> shingles of `size` consecutive words, the same words as SimHash's (`features.split`).

    Every letter of a script without spaces, Han apart, is a word. The hash of a shingle is `word_shingles.shingle` of the
    words' XXH3 of 64 bits; a text with fewer words, but any, is one shingle.
    """

    def __init__(self, size: int) -> None:
        """Load the segmenter (below 0.5 s)."""
        self._size = size
        self._segmenter = segmenter("compiled")

    def of(self, characters: Characters) -> Shingles:
        """The shingles of a batch of texts."""
        words = split(characters, self._segmenter, 1)
        hashes, bounds = shingle(hash_words(words, 1), words.bounds, self._size)
        return Shingles(hashes[:, 0], bounds)

    def stamp(self) -> dict[str, str]:
        """What makes words and their hashes, by name."""
        return {"dictionary": self._segmenter.dictionary, "hash": "xxh3_64, splitmix64"}


def bin_values(shingles: Shingles, bins: int, bin_bits: int) -> npt.NDArray[np.uint8]:
    """The bins of n texts: uint8 [n, bins], 0 where a bin is empty, else 1 to 2^bin_bits - 1.

    `bins` is a power of two. The value stands for the smallest hash of the bin: its low 32 bits, scaled to the range.
    """
    count = len(shingles.bounds) - 1
    bits = bins.bit_length() - 1
    cells = (shingles.hashes >> np.uint64(64 - bits)).astype(np.int64)
    cells += np.repeat(np.arange(count) * bins, np.diff(shingles.bounds))
    minima = smallest(cells, shingles.hashes, count * bins)
    low = minima & np.uint64(0xFFFF_FFFF)
    values = (low * np.uint64((1 << bin_bits) - 1) >> np.uint64(32)) + np.uint64(1)
    values[minima == NOTHING] = 0
    return values.astype(np.uint8).reshape(count, bins)


def smallest(cells: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint64]:
    """MinHash itself: the smallest hash in each of `count` cells, NOTHING in an empty one.

    Member i of a set lies in cell cells[i], with hashes[i]. A cell is a set and a hash function (Broder 1997), or, as
    here, a set and a bin of one hash function's range.
    """
    minima = np.full(count, NOTHING)
    kernels.smallest(cells, hashes, minima)
    return minima
