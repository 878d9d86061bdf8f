"""Texts -> SimHash fingerprints, a batch at a time: features, their weights, and every fingerprint's kind.

`simhash` makes bit i in a fingerprint from bit i in the features' hashes.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index import second_look as looks
from streamer.fingerprint import shingle_kernels
from streamer.fingerprint.fingerprints import Fingerprints, Salts, Scheme, slices
from streamer.fingerprint.hashing import hash_strings, hash_words
from streamer.fingerprint.key import PUBLIC, HashKey
from streamer.fingerprint.methods import second_look
from streamer.fingerprint.methods.weights import feature_weights, in_title, shingle_weights
from streamer.fingerprint.methods.word_factors import WordFactors
from streamer.fingerprint.methods.word_tables import DictionaryWord, dictionary_words
from streamer.fingerprint.simhash.simhash import count_distinct, log_weights, simhash
from streamer.fingerprint.word_shingles import shingle
from streamer.settings.settings import Fingerprint
from streamer.text.characters import Characters, fold, letters
from streamer.text.compared import compared
from streamer.text.normalisation import Normaliser
from streamer.text.segmentation import Segmenter, segmenter, segmenter_with
from streamer.text.words import Words, split

FORMAT_VERSION = 3
"""Raised whenever equal settings begin to give other fingerprints; the tests' pinned examples show when."""


Features = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64] | None]
"""Features in reading order, as `Fingerprinter._features` defines them."""

Weighted = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Distinct features: hashes uint64 [features, lanes], weights int64 [features], and the texts' bounds int64 [n + 1]."""


class Fingerprinter(Scheme):
    """Texts -> SimHash fingerprints.

    Titles add weight to features, but no features. Metadata, a text's keywords and the like, are a set, normalised like texts;
    only looks depend on them. A text without features is UNDECIDABLE. A text with fewer than `features_min` distinct features is
    EXACT. A feature with weight 0 does not count.

    >>> Fingerprinter(Fingerprint(features_min=1)).fingerprint(["Two words", "?"]).feature_counts.tolist()
    [1, 0]
    """

    def __init__(self, settings: Fingerprint, look: looks.Look | None = None, key: HashKey = PUBLIC) -> None:
        """Load the segmenter and the character tables (together below 0.6 s; with jieba itself 2 s) and the settings' files.

        look  the second look, which defines an entry's data for it

        Raises SettingsError if a file named in the settings is unusable.
        """
        super().__init__(Normaliser(settings), key)
        self._settings, self._look = settings, look
        self._lanes = settings.bits // 64
        extra: tuple[Sequence[DictionaryWord], str] = ((), "")
        if settings.dictionary is not None:
            extra = dictionary_words(settings.dictionary, self._normaliser.words)
        self._segmenter = _segmenter(settings, *extra)
        self._factors = WordFactors(
            settings,
            self._normaliser.words,
            lambda texts: self._split(compared(fold(texts))).strings(),
            lambda words: hash_strings(words, self._lanes)[:, 0],
            extra,
        )

    def words(self, texts: Sequence[str]) -> Words:
        """Words of every text in reading order, including stop words."""
        return self._split(compared(self._normaliser.characters(texts)))

    def weighted_features(
        self, texts: Sequence[str], titles: Sequence[str]
    ) -> list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]]:
        """Every text's distinct features, as its fingerprint adds them up: hashes uint64 [features], weights float64."""
        features: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]] = []
        for begin, end in slices(texts):
            characters = compared(self._normaliser.characters(texts[begin:end]))
            (hashes, weights, bounds), _ = self._weighted(characters, titles[begin:end])
            features += [
                (hashes[low:high, 0], weights[low:high].astype(np.float64)) for low, high in pairwise(bounds.tolist())
            ]
        return features

    def stamp(self) -> dict[str, str]:
        """Everything that changes a fingerprint, by name, without unused factors and steps."""
        settings = self._settings
        head = {
            "scheme": "simhash",
            "format": str(FORMAT_VERSION),
            "bits": str(settings.bits),
            "features": settings.features,
            "shingle_words": str(settings.shingle_words) if settings.features == "shingles" else "1",
            "weight": settings.weight,
            "dictionary": self._segmenter.dictionary,
            "character_shingle_size": str(settings.character_shingle_size),
            "features_min": str(settings.features_min),
            "hash": "xxh3_64" if self._lanes == 1 else "xxh3_128",
        }
        look = {} if self._look is None else {"second_look": f"{self._look.kind}, format {second_look.FORMAT_VERSION}"}
        return {**head, **self._stamp_of_texts(), **self._factors.stamp(), **self.key.stamp(), **look}

    def _slice(
        self, texts: Sequence[str], titles: Sequence[str] | None, metadata: Sequence[Sequence[str]] | None, salts: Salts
    ) -> Fingerprints:
        characters = self._normaliser.characters(texts)
        seen = compared(characters)
        weighted, weighty = self._weighted(seen, titles, salts)
        fingerprints = simhash(*weighted)
        looks = second_look.looks_of(self._look, *weighted, metadata, self.key)
        features_min, lengths = self._settings.features_min, letters(seen)
        features = weighted[0][:, 0], weighted[2]
        return self._classified(characters, fingerprints, weighty, features_min, lengths, features, salts, looks)

    def _weighted(
        self, characters: Characters, titles: Sequence[str] | None, salts: Salts = None
    ) -> tuple[Weighted, npt.NDArray[np.int64]]:
        hashes, bounds, weights = self._salted(characters, salts)
        distinct = count_distinct(hashes, bounds, weights)
        logarithms = log_weights(distinct.counts) if self._settings.weight == "log-tf" else None
        if weights is None and logarithms is not None:
            totals = logarithms
        else:
            totals = feature_weights(distinct.totals, distinct.counts, logarithms)
        if titles is not None and self._settings.title_factor > 1:
            title_hashes, title_bounds, _ = self._salted(compared(self._normaliser.characters(titles)), salts)
            numbers = np.repeat(np.arange(len(titles)), np.diff(title_bounds))
            named = in_title(distinct.hashes[:, 0], distinct.texts, title_hashes[:, 0], numbers)
            totals = np.where(named, totals * self._settings.title_factor, totals)
        weighty = np.diff(distinct.bounds)
        if weights is not None:
            weighty = np.bincount(distinct.texts[totals > 0], minlength=len(weighty))
        return (distinct.hashes, totals, distinct.bounds), weighty

    def _salted(self, characters: Characters, salts: Salts) -> Features:
        features = self._features(characters)
        if salts is not None:
            shingle_kernels.salt(features[0], features[1], salts)
        return features

    def _features(self, characters: Characters) -> Features:
        """Features in reading order: hashes uint64 [features, lanes], bounds int64 [n + 1], weights int64 [features].

        None in place of weights: every occurrence weighs 1.
        """
        settings = self._settings
        words = self._split(characters)
        hashes, bounds, weights = hash_words(words, self._lanes), words.bounds, None
        if self._factors.weighs:
            weights = self._factors.of_occurrences(hashes[:, 0], words, characters.bounds)
        kept = self._factors.kept(hashes[:, 0])
        if kept is not None:
            bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
            hashes, weights = hashes[kept], None if weights is None else weights[kept]
        if settings.features == "words":
            return self.key.keyed(hashes), bounds, weights
        if weights is not None:
            weights = shingle_weights(weights, bounds, settings.shingle_words)
        hashes, bounds = shingle(hashes, bounds, settings.shingle_words)
        return self.key.keyed(hashes), bounds, weights

    def _split(self, characters: Characters) -> Words:
        return split(characters, self._segmenter, self._settings.character_shingle_size)


def _segmenter(settings: Fingerprint, extra: Sequence[DictionaryWord], digest: str) -> Segmenter:
    if not extra:
        return segmenter(settings.segmenter)
    return segmenter_with(settings.segmenter, [(entry.word, entry.frequency) for entry in extra], digest)
