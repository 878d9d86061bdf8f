"""Fingerprints for a batch of texts, and what both schemes share.

A fingerprint's bit i is bit i % 64 in its uint64 number i // 64. Hexadecimal has the highest bit first.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Kind
from streamer.fingerprint.digests import digests_of
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.key import HashKey
from streamer.fingerprint.sample import Sample, samples
from streamer.records.reason import Reason
from streamer.text.characters import Characters, tables_hash
from streamer.text.normalisation import Normaliser

_SLICE_CHARACTERS = 1 << 18
_SLICE_TEXTS = 1 << 15


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of n texts.

    kinds           uint8 [n], `index.entry.Kind` values: NEAR, EXACT or UNDECIDABLE
    reasons         uint8 [n], `Reason` values: ORDINARY, SHORT_TEXT, NO_FEATURES or CRAFTED
    fingerprints    uint64 [n, bits / 64]; EXACT rows hold a hash of the normalised text, UNDECIDABLE rows zeros
    feature_counts  int32 [n], distinct features
    looks           uint8 [n, look bytes], for the second look at NEAR rows, zeros elsewhere; None: no second look
    digests         uint64 [n, 2], text and substance (`digests_of`); None: unknown
    lengths         uint32 [n], the compared texts' letters (`characters.letters`); None: unknown
    samples         object [n], `sample.Sample` in rows of the audit's sample, else None; None: no audit

    >>> kinds, none = np.array([Kind.NEAR, Kind.EXACT], np.uint8), np.zeros(2, np.uint8)
    >>> prints = Fingerprints(kinds, none, np.array([[7], [8]], np.uint64), np.array([30, 2], np.int32))
    >>> prints.rows(np.array([1])).fingerprints.tolist()
    [[8]]
    """

    kinds: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    feature_counts: npt.NDArray[np.int32]
    looks: npt.NDArray[np.uint8] | None = None
    digests: npt.NDArray[np.uint64] | None = None
    lengths: npt.NDArray[np.uint32] | None = None
    samples: npt.NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.kinds)

    def sampled(self) -> dict[int, Sample]:
        """Rows of the audit's sample."""
        samples = [] if self.samples is None else self.samples.tolist()
        return {row: sample for row, sample in enumerate(samples) if sample is not None}

    def rows(self, chosen: npt.NDArray[np.int64] | slice) -> "Fingerprints":
        """Fingerprints for these rows, int64 [m], in their order."""
        columns = ((name, getattr(self, name)) for name in Fingerprints.__slots__)
        return replace(self, **{name: column[chosen] for name, column in columns if column is not None})


Salts = npt.NDArray[np.uint64] | None
"""`HashKey.salts` of texts' scopes."""


class Scheme(ABC):
    """Texts -> fingerprints by one method. Each depends only on its text, title, metadata and scope.

    A scope salts the hashes of features and of short texts. So texts of different scopes resemble each other as little as
    unrelated ones. The empty scope, and none, change nothing.

    >>> from streamer.fingerprint.scheme import scheme_for
    >>> from streamer.settings.settings import Settings
    >>> one, other = scheme_for(Settings()), scheme_for(Settings(minhash={"bins": 256}))
    >>> {name for name, value in one.stamp().items() if other.stamp()[name] != value}
    {'bins'}
    """

    def __init__(self, normaliser: Normaliser, key: HashKey) -> None:
        self._normaliser, self.key = normaliser, key
        self.sampled_one_in = 0
        """One text in so many is in the audit's sample; 0: none."""
        self.scope: str | None = None
        """Pointer to the scopes of documents (`decode.scope`); None: they have none."""

    def fingerprint(
        self,
        texts: Sequence[str],
        titles: Sequence[str] | None = None,
        metadata: Sequence[Sequence[str]] | None = None,
        scopes: Sequence[str | None] | None = None,
    ) -> Fingerprints:
        """Fingerprint of every text, row for row."""
        salts = None if scopes is None else self.key.salts(scopes)
        return joined(
            [
                self._slice(
                    texts[begin:end],
                    titles and titles[begin:end],
                    metadata and metadata[begin:end],
                    None if salts is None else salts[begin:end],
                )
                for begin, end in slices(texts)
            ]
        )

    @abstractmethod
    def stamp(self) -> dict[str, str]:
        """Everything that changes a fingerprint, by name. Equal stamps give equal fingerprints."""

    @abstractmethod
    def _slice(
        self, texts: Sequence[str], titles: Sequence[str] | None, metadata: Sequence[Sequence[str]] | None, salts: Salts
    ) -> Fingerprints:
        """Fingerprints of texts that are few enough to process at once."""

    def _stamp_of_texts(self) -> dict[str, str]:
        """The part of the stamp that says what of a document is compared: its normal form, and its scope."""
        normalisation = f"unicode {unicodedata.unidata_version}, tables {tables_hash()}"
        scope = {} if self.scope is None else {"scope": self.scope}
        return {"normalisation": normalisation, **self._normaliser.stamp(), **scope}

    def _classified(
        self,
        characters: Characters,
        fingerprints: npt.NDArray[np.uint64],
        feature_counts: npt.NDArray[np.int64],
        features_min: int,
        lengths: npt.NDArray[np.uint32],
        features: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]],
        salts: Salts,
        looks: npt.NDArray[np.uint8] | None = None,
    ) -> Fingerprints:
        """Each fingerprint with its kind: EXACT with fewer features than `features_min`, UNDECIDABLE without any.

        features  hashes and bounds, for the sample: see `samples`

        EXACT: the fingerprint becomes the XXH3 of the normalised text's UTF-8, in at most 128 bits. Changes `fingerprints` and
        `looks` in place.
        """
        short, empty = feature_counts < features_min, feature_counts == 0
        kinds = np.select([empty, short], [Kind.UNDECIDABLE, Kind.EXACT], Kind.NEAR).astype(np.uint8)
        reasons = np.select([empty, short], [Reason.NO_FEATURES, Reason.SHORT_TEXT], Reason.ORDINARY).astype(np.uint8)
        fingerprints[short] = 0
        if looks is not None:
            looks[short] = 0
        lanes = min(2, fingerprints.shape[1])
        for row in np.flatnonzero(short & ~empty).tolist():
            seed = self.key.seed if salts is None else self.key.seed ^ int(salts[row])
            fingerprints[row, :lanes] = hash_text(characters.text(row), lanes, seed)
        counts, digests = feature_counts.astype(np.int32), digests_of(characters, self.key)
        sample = samples(*features, self.sampled_one_in, self.key) if self.sampled_one_in else None
        if sample is not None:
            sample[short] = None
        return Fingerprints(kinds, reasons, fingerprints, counts, looks, digests, lengths, sample)


def joined(parts: Sequence[Fingerprints]) -> Fingerprints:
    """Rows of at least one part, in order. A column that a part lacks is None."""
    columns: dict[str, Any] = {}
    for name in Fingerprints.__slots__:
        pieces = [getattr(part, name) for part in parts]
        columns[name] = None if any(piece is None for piece in pieces) else np.concatenate(pieces)
    return Fingerprints(**columns)


def hexadecimal(kinds: npt.NDArray[np.uint8], fingerprints: npt.NDArray[np.uint64]) -> list[str | None]:
    """Fingerprints, uint64 [n, lanes], in lower-case hexadecimal, the highest bit first; None for UNDECIDABLE rows.

    >>> hexadecimal(np.array([Kind.NEAR], np.uint8), np.array([[0xF00D]], np.uint64))
    ['000000000000f00d']
    """
    digits = fingerprints[:, ::-1].astype(">u8").tobytes().hex()
    length = 16 * fingerprints.shape[1]
    present = (kinds == Kind.NEAR) | (kinds == Kind.EXACT)
    return [digits[row * length : (row + 1) * length] if has else None for row, has in enumerate(present.tolist())]


def from_hexadecimal(text: str, bits: int) -> npt.NDArray[np.uint64]:
    """Revert `hexadecimal` for one fingerprint: uint64 [1, bits / 64]. Raises ValueError.

    >>> from_hexadecimal("000000000000f00d", 64)
    array([[61453]], dtype=uint64)
    """
    if len(text) != bits // 4:
        raise ValueError(f"a fingerprint of {bits} bits has {bits // 4} hexadecimal digits, not {len(text)}")
    return np.frombuffer(bytes.fromhex(text), ">u8").astype(np.uint64)[None, ::-1]


def slices(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of texts to process at once, bounded in characters and texts; at least one range.

    A longer text is a range by itself.
    """
    begin = characters = 0
    for end, text in enumerate(texts):
        if end > begin and (characters + len(text) > _SLICE_CHARACTERS or end - begin >= _SLICE_TEXTS):
            yield begin, end
            begin, characters = end, 0
        characters += len(text)
    yield begin, len(texts)
