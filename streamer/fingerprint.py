"""Words -> fingerprints: SimHash (Charikar 2002; Manku, Jain, Das Sarma 2007) over a batch at a time, in plain numpy.

A fingerprint of 64 bits is one uint64, one of 128 bits two: bit i is bit i % 64 of number i // 64, and is decided by
bit i of the features' hashes. In hexadecimal the highest bit stands first, as in an ordinary number.
All sums are sums of integers, so the order of features, the batch and the machine change nothing.
"""

import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from index.entry import Kind
from streamer import config
from streamer.features import segmenter, split
from streamer.reason import Reason
from streamer.text import Characters, fold, ragged, tables_hash

FORMAT_VERSION = 1
"""Raised whenever the same settings begin to give other fingerprints; the pinned examples of the tests say when."""

WEIGHT_UNIT = 1 << 16
"""Logarithmic weights are counted in this fraction of one."""

_SLICE_CHARACTERS = 1 << 18
_SLICE_TEXTS = 1 << 15
_REMEMBERED_WORDS = 1 << 18
_REMEMBERED_LETTERS = 64

# Byte lanes count to 255, so no segment of equally weighted features is longer.
_SEGMENT_FEATURES = 255
_SLICE_FEATURES = 64 * _SEGMENT_FEATURES
_SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view("<u8").ravel()
"""A byte's eight bits as the eight bytes of one number, bit i in byte i."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of n texts.

    kinds           uint8 [n], values of `index.entry.Kind`: NEAR, EXACT or UNDECIDABLE
    reasons         uint8 [n], values of `Reason`: ORDINARY, SHORT_TEXT or NO_FEATURES
    fingerprints    uint64 [n, bits / 64]; EXACT rows hold a hash of the normalised text, UNDECIDABLE rows zeros
    feature_counts  int32 [n], distinct features
    """

    kinds: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    feature_counts: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kinds)


class Fingerprinter:
    """Texts -> fingerprints, by one group of settings. What a text gets depends on nothing but that text."""

    def __init__(self, settings: config.Fingerprint) -> None:
        """Load the segmenter and the character tables (together below 0.5 s with rjieba, 2 s with jieba)."""
        self._settings = settings
        self._lanes = settings.bits // 64
        self._segmenter = segmenter(settings.segmenter)
        self._hashes = WordHashes(self._lanes)
        fold([])

    def fingerprint(self, texts: Sequence[str]) -> Fingerprints:
        """Fingerprint every text, row for row.

        A text without features is UNDECIDABLE; one with fewer than `features_min` distinct features is EXACT: its
        fingerprint is the XXH3 hash of its normalised text in UTF-8, of as many bits.
        """
        parts = [self._slice(texts[begin:end]) for begin, end in slices(texts)]
        return Fingerprints(
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.reasons for part in parts]),
            np.concatenate([part.fingerprints for part in parts]),
            np.concatenate([part.feature_counts for part in parts]),
        )

    def stamp(self) -> dict[str, str]:
        """Everything that changes a fingerprint, by name; two programs with equal stamps give equal fingerprints."""
        settings = self._settings
        return {
            "scheme": "simhash",
            "format": str(FORMAT_VERSION),
            "bits": str(settings.bits),
            "features": settings.features,
            "shingle_words": str(settings.shingle_words) if settings.features == "shingles" else "1",
            "weight": settings.weight,
            "segmenter": settings.segmenter,
            "dictionary": self._segmenter.dictionary,
            "character_shingle_size": str(settings.character_shingle_size),
            "features_min": str(settings.features_min),
            "hash": "xxh3_64" if self._lanes == 1 else "xxh3_128",
            "normalisation": f"unicode {unicodedata.unidata_version}, tables {tables_hash()}",
        }

    def _slice(self, texts: Sequence[str]) -> Fingerprints:
        characters = fold(texts)
        words = split(characters, self._segmenter, self._settings.character_shingle_size)
        hashes, bounds = self._hashes.look_up(words.words), words.bounds
        if self._settings.features == "shingles":
            hashes, bounds = shingle(hashes, bounds, self._settings.shingle_words)
        distinct = count_distinct(hashes, bounds)
        if self._settings.weight == "log-tf":
            order = np.argsort(distinct.texts * (1 << 32) + distinct.counts, kind="stable")
            fingerprints = simhash(distinct.hashes[order], log_weights(distinct.counts[order]), distinct.bounds)
        else:
            fingerprints = simhash(hashes, np.ones(len(hashes), np.int64), bounds)
        return self._classify(characters, np.diff(distinct.bounds), fingerprints)

    def _classify(
        self,
        characters: Characters,
        feature_counts: npt.NDArray[np.int64],
        fingerprints: npt.NDArray[np.uint64],
    ) -> Fingerprints:
        kinds = np.full(len(feature_counts), Kind.NEAR, np.uint8)
        reasons = np.full(len(feature_counts), Reason.ORDINARY, np.uint8)
        short = feature_counts < self._settings.features_min
        kinds[short] = Kind.EXACT
        reasons[short] = Reason.SHORT_TEXT
        empty = feature_counts == 0
        kinds[empty] = Kind.UNDECIDABLE
        reasons[empty] = Reason.NO_FEATURES
        for row in np.flatnonzero(short & ~empty).tolist():
            fingerprints[row] = hash_text(characters.text(row), self._lanes)
        return Fingerprints(kinds, reasons, fingerprints, feature_counts.astype(np.int32))


class WordHashes:
    """The hashes of words. Those of words met lately are remembered, within bounded memory."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._rows = _Rows(lanes)

    def __len__(self) -> int:
        return len(self._rows)

    def look_up(self, words: list[str]) -> npt.NDArray[np.uint64]:
        """Hash every word: uint64 [words, lanes], XXH3 of 64 or 128 bits of its UTF-8, the low 64 bits first."""
        if len(self._rows.hashes) > _REMEMBERED_WORDS * self._lanes:
            self._rows = _Rows(self._lanes)
        rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
        # The view of the array must be gone before the next word can be added to it.
        return np.frombuffer(self._rows.hashes, np.uint64).reshape(-1, self._lanes)[rows]


class _Rows(dict[str, int]):
    """Word -> its row in `hashes` (`lanes` numbers a row); a word asked for that is not there is hashed."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self._lanes = lanes
        self.hashes = array("Q")

    def __missing__(self, word: str) -> int:
        row = len(self.hashes) // self._lanes
        self.hashes.extend(hash_text(word, self._lanes))
        if len(word) <= _REMEMBERED_LETTERS:
            self[word] = row
        return row


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different features of n texts, each once.

    hashes  uint64 [features, lanes], text after text, in no particular order within one
    counts  int64 [features], how often the text holds it (tf)
    texts   int64 [features], ascending
    bounds  int64 [n + 1]
    """

    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    texts: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]


def hash_text(text: str, lanes: int) -> tuple[int, ...]:
    """XXH3 of the text's UTF-8 (lone surrogates as UTF-8 would write them): 64 bits a lane, the low ones first."""
    octets = text.encode("utf-8", "surrogatepass")
    if lanes == 1:
        return (xxhash.xxh3_64_intdigest(octets),)
    number = xxhash.xxh3_128_intdigest(octets)
    return number & 0xFFFF_FFFF_FFFF_FFFF, number >> 64


def shingle(
    hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes of the runs of `size` consecutive words of each text, and the texts' bounds among them.

    A text with fewer words, but any, has one shingle: all of them. The hash of words w1 ... wk is a chain,
    a0 = 0, ai = mix(a(i-1) + wi + 0x9E3779B97F4A7C15), with the finaliser of SplitMix64 as `mix` (Steele, Lea, Flood
    2014; Stafford's variant 13), lane by lane: it depends on the order of the words and on each of them bijectively.
    """
    word_counts = np.diff(bounds)
    counts = np.maximum(word_counts - (size - 1), np.minimum(word_counts, 1))
    shingle_bounds = np.concatenate([[0], np.cumsum(counts)])
    starts = ragged(bounds[:-1], counts)
    ends = np.repeat(bounds[1:], counts)
    chain = np.zeros((len(starts), hashes.shape[1]), np.uint64)
    for step in range(size):
        present = starts + step < ends
        if present.all():
            chain = _mix(chain + hashes[starts + step])
        else:
            chain[present] = _mix(chain[present] + hashes[starts[present] + step])
    return chain, shingle_bounds


def count_distinct(hashes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64]) -> Distinct:
    """Gather equal features of each text. At most 65,536 texts."""
    texts = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    # One sort for all texts: the text's number above 48 bits of the hash.
    keys = (texts.astype(np.uint64) << np.uint64(48)) | (hashes[:, 0] & np.uint64(0xFFFF_FFFF_FFFF))
    order = np.argsort(keys)
    equal, equal_keys = _equals_previous(hashes[order]), keys[order][1:] == keys[order][:-1]
    if (equal[1:] != equal_keys).any() and (equal_keys & ~equal[1:]).any():
        # Two features of a text agree in 48 bits, so equal ones need not be neighbours.
        order = np.lexsort((*hashes.T, texts))
        equal = _equals_previous(hashes[order])
    sorted_texts = texts[order]
    equal[1:] &= sorted_texts[1:] == sorted_texts[:-1]
    firsts = np.flatnonzero(~equal)
    return Distinct(
        hashes[order[firsts]],
        np.diff(firsts, append=len(order)),
        sorted_texts[firsts],
        np.searchsorted(sorted_texts[firsts], np.arange(len(bounds))),
    )


def log_weights(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 + ln tf in units of 1 / WEIGHT_UNIT, rounded to the nearest: int64 [features]."""
    return np.rint((1.0 + np.log(counts)) * WEIGHT_UNIT).astype(np.int64)


def simhash(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Bit i of a text's fingerprint is 1 where its sum i is over 0; a sum of 0 gives 0. uint64 [n, lanes]."""
    positive = bit_sums(hashes, weights, bounds) > 0
    return np.packbits(positive, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def bit_sums(
    hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sum i of a text: over its features, + weight where bit i of the hash is 1, else - weight.

    hashes   uint64 [features, lanes]
    weights  int64 [features], 0 or more; fastest where equal ones of a text are neighbours
    bounds   int64 [n + 1], text j has the features bounds[j]:bounds[j + 1]
    Returns int64 [n, 64 * lanes], exact while the weights of a text add up to less than 2**62.

    The bits of a hash byte are spread to eight byte counters in one number, and features of one text and weight are
    counted by adding such numbers: eight bits at once, 255 features at most.
    """
    lanes = hashes.shape[1]
    sums = np.zeros((len(bounds) - 1, 64 * lanes), np.int64)
    totals = np.zeros(len(bounds) - 1, np.int64)
    octets = hashes.astype("<u8", copy=False).view(np.uint8)
    starting = np.zeros(len(hashes) + 1, np.bool_)
    starting[bounds] = True
    starting[1:-1] |= weights[1:] != weights[:-1]
    starting[::_SEGMENT_FEATURES] = True
    for begin in range(0, len(hashes), _SLICE_FEATURES):
        end = min(begin + _SLICE_FEATURES, len(hashes))
        starts = np.flatnonzero(starting[begin:end])
        spread = _SPREAD[octets[begin:end].T]
        counted = np.add.reduceat(spread, starts, axis=1)
        counters = np.ascontiguousarray(counted.T).view(np.uint8).astype(np.int64)
        segment_weights = weights[begin + starts]
        segment_texts = np.searchsorted(bounds, begin + starts, side="right") - 1
        texts_begin = np.flatnonzero(np.diff(segment_texts, prepend=-1))
        rows = segment_texts[texts_begin]
        sums[rows] += np.add.reduceat(counters * segment_weights[:, None], texts_begin, axis=0)
        segment_lengths = np.diff(starts, append=end - begin)
        totals[rows] += np.add.reduceat(segment_lengths * segment_weights, texts_begin)
    return 2 * sums - totals[:, None]


def hexadecimal(kinds: npt.NDArray[np.uint8], fingerprints: npt.NDArray[np.uint64]) -> list[str | None]:
    """Every fingerprint in lower-case hexadecimal, bits / 4 digits, the highest bit first; None where there is none.

    kinds uint8 [n] of `Kind`: NEAR and EXACT rows have a fingerprint. fingerprints uint64 [n, lanes].
    """
    digits = fingerprints[:, ::-1].astype(">u8").tobytes().hex()
    length = 16 * fingerprints.shape[1]
    present = (kinds == Kind.NEAR) | (kinds == Kind.EXACT)
    return [digits[row * length : (row + 1) * length] if has else None for row, has in enumerate(present.tolist())]


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _equals_previous(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    equal = np.zeros(len(rows), np.bool_)
    equal[1:] = (rows[1:] == rows[:-1]).all(axis=1)
    return equal


def slices(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of texts that are worked on at once, bounded in characters (a longer text stands alone); at least one."""
    begin = characters = 0
    for end, text in enumerate(texts):
        if end > begin and (characters + len(text) > _SLICE_CHARACTERS or end - begin >= _SLICE_TEXTS):
            yield begin, end
            begin, characters = end, 0
        characters += len(text)
    yield begin, len(texts)
