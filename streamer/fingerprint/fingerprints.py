"""Fingerprints for a batch of texts, by either scheme.

A fingerprint's bit i is bit i % 64 in its uint64 number i // 64. Hexadecimal has the highest bit first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Kind

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
    """

    kinds: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    feature_counts: npt.NDArray[np.int32]
    looks: npt.NDArray[np.uint8] | None = None
    digests: npt.NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.kinds)

    def rows(self, chosen: npt.NDArray[np.int64]) -> "Fingerprints":
        """Fingerprints for these rows, int64 [m], in their order."""
        return Fingerprints(
            self.kinds[chosen],
            self.reasons[chosen],
            self.fingerprints[chosen],
            self.feature_counts[chosen],
            None if self.looks is None else self.looks[chosen],
            None if self.digests is None else self.digests[chosen],
        )


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
