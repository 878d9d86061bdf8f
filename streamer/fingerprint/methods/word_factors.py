"""Optional factors for words: from tables, and from a word's place in its text.

`weights` has the formulas, `word_tables` the tables; this module combines them and stamps the result.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.fingerprint.hashing import hash_words, present
from streamer.fingerprint.methods import weights, word_tables
from streamer.settings.settings import Fingerprint
from streamer.text.words import Words

Keys = npt.NDArray[np.uint64]

_TOPIC_LENGTH_FACTORS = np.array([weights.topic_length_factor(characters) for characters in range(32)], np.int64)
"""By a word's characters; the last, for all longer words, is 1."""


class WordFactors:
    """Weights of words, beyond how often they occur.

    >>> rest = list, lambda texts: [], lambda words: np.zeros(len(words), np.uint64)
    >>> factors = WordFactors(Fingerprint(topic_length=True), *rest)
    >>> factors.weighs, factors.stamp(), WordFactors(Fingerprint(), *rest).weighs
    (True, {'topic_length': 'true'}, False)
    """

    def __init__(
        self,
        settings: Fingerprint,
        normalise: Callable[[Sequence[str]], list[str]],
        split: Callable[[list[str]], list[list[str]]],
        keys_of: Callable[[list[str]], Keys],
        extra: tuple[Sequence[word_tables.DictionaryWord], str] = ((), ""),
    ) -> None:
        """Read the tables named in the settings (jieba's: about 1 s each). Raises SettingsError.

        keys_of  the low 64 bits of the words' hashes
        extra    the user dictionary's words, and its digest
        """
        self._settings = settings
        self._stamp: dict[str, str] = {}
        self._tables: list[word_tables.WordTable] = []
        if settings.idf is not None:
            self._tables.append(word_tables.idf_table(settings.idf, normalise))
            self._stamp["idf"] = self._tables[-1].digest
        if settings.part_of_speech is not None:
            self._tables.append(word_tables.tag_factors(settings.part_of_speech, *extra, normalise))
            self._stamp["part_of_speech"] = f"{settings.part_of_speech} by {self._tables[-1].digest}"
        self._stamp |= {name: "true" for name in ("topic_length", "word_length") if getattr(settings, name)}
        self._phrases: list[Keys] = []
        self._markers = self._stop_words = np.zeros(0, np.uint64)
        if settings.marker_factor > 1:
            markers, digest = word_tables.word_list(
                settings.markers or word_tables.MARKERS, "fingerprint.markers", normalise
            )
            hashed = [keys_of(words) for words in split(markers)]
            self._markers = np.unique(np.concatenate([keys for keys in hashed if len(keys) == 1] or [self._markers]))
            self._phrases = [keys for keys in hashed if len(keys) > 1]
            self._stamp["marker_factor"] = f"{settings.marker_factor} by {digest}"
        if settings.stop_words is not None:
            source = settings.stop_words if settings.stop_words == word_tables.PARTICLES else Path(settings.stop_words)
            stop_words, digest = word_tables.word_list(source, "fingerprint.stop_words", normalise)
            self._stop_words = np.unique(keys_of(stop_words))
            self._stamp["stop_words"] = digest
        if settings.title_factor > 1:
            self._stamp["title_factor"] = str(settings.title_factor)

    @property
    def weighs(self) -> bool:
        """Whether occurrences of words differ in weight."""
        settings = self._settings
        return bool(self._tables) or settings.topic_length or settings.word_length or settings.marker_factor > 1

    def stamp(self) -> dict[str, str]:
        """Factors in use, by name, with their tables' digests."""
        return self._stamp

    def of_occurrences(self, keys: Keys, words: Words, texts_bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Every word occurrence's weight: int64 [words], in units of 1 / FACTOR_UNIT.

        keys  uint64 [words], the low 64 bits of the words' hashes
        """
        factors = np.full(len(keys), weights.FACTOR_UNIT)
        if self._settings.topic_length:
            factors = _TOPIC_LENGTH_FACTORS[np.minimum(words.lengths, len(_TOPIC_LENGTH_FACTORS) - 1)]
        if self._tables:
            hashes = hash_words(words, 1)[:, 0]
            for table in self._tables:
                factors = weights.multiply(factors, table.of(hashes))
        if self._settings.word_length:
            factors = weights.multiply(factors, weights.word_length_factors(words.lengths, words.bounds))
        if self._settings.marker_factor > 1:
            numbers = weights.sentences(words.codepoints, texts_bounds, words.starts)
            where = weights.marked(numbers, self._openings(keys, numbers))
            factors = np.where(where, factors * self._settings.marker_factor, factors)
        return factors

    def kept(self, keys: Keys) -> npt.NDArray[np.bool_] | None:
        """False for stop words: bool [words]; None if the settings name none."""
        return ~present(keys, self._stop_words) if len(self._stop_words) else None

    def _openings(self, keys: Keys, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """True at the first word of a marker: bool [words]. A phrase must lie within one sentence."""
        opens = present(keys, self._markers)
        for phrase in self._phrases:
            last = len(keys) - len(phrase) + 1
            if last > 0:
                matches = numbers[len(phrase) - 1 :] == numbers[:last]
                for place, key in enumerate(phrase.tolist()):
                    matches &= keys[place : place + last] == np.uint64(key)
                opens[:last] |= matches
        return opens
