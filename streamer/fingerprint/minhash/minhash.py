"""Shingles -> MinHash signatures: one-permutation hashing, a batch at a time.

Every shingle is hashed once (Li, Owen, Zhang, "One Permutation Hashing", NIPS 2012). The hash's top bits choose one of `bins`
bins, and each bin keeps its smallest hash. The signature stores a `bin_bits`-bit value for that hash (Li, König, "b-Bit Minwise
Hashing", WWW 2010).

A bin without a shingle stays empty, which shows how short the text is and improves estimates for short texts.
index/matching/minhash.py has the formulas, and fills empty bins for the bands only.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from index import Kind, minhash
from streamer.fingerprint import shingle_kernels
from streamer.fingerprint.fingerprints import Fingerprints, Salts, Scheme
from streamer.fingerprint.hashing import hash_words
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.minhash import kernels
from streamer.fingerprint.minhash.shingles import Shingles, shingle_characters
from streamer.fingerprint.word_shingles import shingle
from streamer.records.reason import Reason
from streamer.settings.settings import Fingerprint, Minhash
from streamer.text.characters import Characters, letters
from streamer.text.compared import compared
from streamer.text.normalisation import Normaliser
from streamer.text.segmentation import segmenter
from streamer.text.words import split

FORMAT_VERSION = 5
"""Raised whenever equal settings begin to give other signatures; the tests' pinned examples show when."""

LEVELS = 12
SUSPECT_CHANCE, CERTAIN_CHANCE = 3e-3, 1e-10
"""Number of levels below the mean minimum, and an ordinary text's chance to exceed the limits: to be searched, or crafted."""


class MinHasher(Scheme):
    """Texts -> signatures, packed as by `index.matching.minhash.pack_bins`. Ignores titles and metadata.

    The feature count is the number of filled bins: the distinct shingles, while these are few. A text without letters and digits
    is UNDECIDABLE. A text with fewer than `features_min` filled bins is EXACT. A text with crafted lines (`bin_values`) is
    compared without them; it is UNDECIDABLE if too few features are left.

    >>> MinHasher(Minhash()).fingerprint(["The harbour of the town.", "?"]).feature_counts.tolist()
    [8, 0]
    """

    def __init__(
        self,
        settings: Minhash,
        normaliser: Normaliser | None = None,
        key: HashKey = PUBLIC,
        *,
        crafted: Literal["report", "undecidable"] = "report",
    ) -> None:
        """Load the character tables (below 0.7 s), and the segmenter for shingles of words.

        Without a normaliser, texts get only the normal form. `crafted` is `guard.crafted`.
        """
        super().__init__(normaliser or Normaliser(Fingerprint()), key)
        self._settings = settings
        self._refuses_crafted = crafted == "undecidable"
        self._word_shingles = WordShingles(settings.shingle_words, key) if settings.shingles == "words" else None
        self.fingerprint([])

    def stamp(self) -> dict[str, str]:
        """Everything that changes a signature, by name. Equal stamps give equal signatures."""
        settings = self._settings
        if self._word_shingles is not None:
            shingles = {"shingles": "words", "shingle_words": str(settings.shingle_words)} | self._word_shingles.stamp()
        else:
            shingles = {
                "shingle_characters_wide": str(settings.shingle_characters_wide),
                "shingle_characters_narrow": str(settings.shingle_characters_narrow),
                "hash": "polynomial, splitmix64",
            }
        numbers = {name: str(getattr(settings, name)) for name in ("bins", "bin_bits", "features_min")}
        head = {"scheme": "minhash", "format": str(FORMAT_VERSION), **numbers}
        return {**head, **self._stamp_of_texts(), **shingles, **self.key.stamp()}

    def _shingles(self, characters: Characters) -> Shingles:
        if self._word_shingles is not None:
            return self._word_shingles.of(characters)
        wide_size, narrow_size = self._settings.shingle_characters_wide, self._settings.shingle_characters_narrow
        return shingle_characters(characters, wide_size, narrow_size, self.key)

    def _slice(
        self,
        texts: Sequence[str],
        _titles: Sequence[str] | None,
        _metadata: Sequence[Sequence[str]] | None,
        salts: Salts,
    ) -> Fingerprints:
        settings = self._settings
        characters = self._normaliser.characters(texts)
        shingles = self._shingles(compared(characters))
        if salts is not None:
            shingle_kernels.salt(shingles.hashes[:, None], shingles.bounds, salts)
        values, crafted = bin_values(shingles, settings.bins, settings.bin_bits)
        counts = np.count_nonzero(values, axis=1)
        signatures = minhash.pack_bins(values, settings.bin_bits)
        features = shingles.hashes, shingles.bounds
        prints = self._classified(
            characters, signatures, counts, settings.features_min, shingles.letters, features, salts
        )
        refused = crafted & ((counts < settings.features_min) | self._refuses_crafted)
        prints.kinds[refused], prints.reasons[crafted] = Kind.UNDECIDABLE, Reason.CRAFTED
        prints.fingerprints[refused] = 0
        return prints


class WordShingles:
    """Texts in the compared form -> shingles of `size` consecutive words, split as for SimHash (`words.split`).

    In scripts without spaces, except Han, every letter is a word. The key makes the hashes secret (`word_shingles.shingle`). A
    text with fewer words than `size` is one shingle.

    >>> from streamer.text.characters import fold
    >>> WordShingles(2).of(fold(["the old harbour", "harbour"])).bounds.tolist()
    [0, 2, 3]
    """

    def __init__(self, size: int, key: HashKey = PUBLIC) -> None:
        """Load the segmenter (below 0.5 s)."""
        self._size, self._key = size, key
        self._segmenter = segmenter("compiled")

    def of(self, characters: Characters) -> Shingles:
        """Shingles for every text."""
        words = split(characters, self._segmenter, 1)
        hashes, bounds = shingle(hash_words(words, 1), words.bounds, self._size)
        return Shingles(self._key.keyed(hashes)[:, 0], bounds, letters(characters))

    def stamp(self) -> dict[str, str]:
        """Everything that changes words or their hashes, by name."""
        return {"dictionary": self._segmenter.dictionary, "hash": "xxh3_64, splitmix64"}


def bin_values(shingles: Shingles, bins: int, bin_bits: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Bins of n texts, uint8 [n, bins], 0 for an empty bin, else 1 to 2^bin_bits - 1; and which texts are crafted.

    `bins` is a power of two. A value is the low 32 bits of the bin's smallest hash, scaled to the range.

    In a text with n distinct shingles, a bin's minimum has an exponential distribution with mean bins / n, relative to the bin's
    range. A text with too many low minima (`low_minima_max`) is searched for runs of shingles with far more than by chance
    (`kernels._densest_run`). Such runs are crafted and leave the bins. A text with too low minima but no run is crafted as a
    whole: all its bins are empty.
    """
    limits = low_minima_max(bins, SUSPECT_CHANCE), low_minima_max(bins, CERTAIN_CHANCE)
    return kernels.bin_values(shingles.hashes, shingles.bounds, bins, bin_bits, *limits)


@cache
def low_minima_max(bins: int, chance_max: float) -> npt.NDArray[np.int64]:
    """Limit for the number of a text's minima below 1/2, 1/4 ... of their mean: int64 [LEVELS].

    An ordinary text exceeds each limit with a probability below `chance_max`: bins are at most as likely to be low together as
    independent ones, each low with probability 1 - exp(-1/2), 1 - exp(-1/4) ...
    """
    counts = np.arange(bins + 1)
    ways = np.array([float(math.comb(bins, count)) for count in counts.tolist()])
    limits = []
    for level in range(1, LEVELS + 1):
        low = -math.expm1(-(0.5**level))
        chances = ways * low**counts * (1 - low) ** (bins - counts)
        limits.append(int(np.argmax(np.cumsum(chances[::-1])[::-1] < chance_max)) - 1)
    return np.array(limits)
