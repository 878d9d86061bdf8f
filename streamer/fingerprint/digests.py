"""Digests of whole texts, to compare a document's versions: exact normal form, and substance."""

from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.fingerprint.key import HashKey
from streamer.text import passage_kernels as kernels
from streamer.text.characters import CODE_POINTS, Characters, decode
from streamer.text.substance import LETTERS_MAX, PASSAGES_MAX, counters_and_dates

_SPACES_END = 0x3001
"""No white space has a higher code point."""

_ROLES = {kernels.BREAK: "\n\r\v\f\x85\u2028\u2029", kernels.SENTENCE_END: "!?。", kernels.FULL_STOP: "."}


def digests_of(characters: Characters, key: HashKey) -> npt.NDArray[np.uint64]:
    """Keyed digests of n normalised texts, uint64 [n, 2]: with white space collapsed, and the substance.

    XXH3 of the code points as <u4. Both are equal if the substance leaves nothing out.
    """
    written, bounds, found = kernels.passages(characters.codepoints, characters.bounds, _roles(), LETTERS_MAX)
    octets, ends = memoryview(written.astype("<u4", copy=False).tobytes()), (4 * bounds).tolist()
    digest, seed = xxhash.xxh3_64_intdigest, key.seed
    texts = [digest(octets[begin:end], seed) for begin, end in pairwise(ends)]
    digests = np.repeat(np.array(texts, np.uint64)[:, None], 2, axis=1)
    left_out: dict[int, list[tuple[int, int, str]]] = {}
    for text, begin, end, ends_sentence in found[_outer(found[:, 0])].tolist():
        passage = decode(written[begin:end])
        spans = counters_and_dates(passage, is_sentence=bool(ends_sentence))
        left_out.setdefault(text, []).extend((begin + one, begin + other, word) for one, other, word in spans)
    for text, spans in left_out.items():
        if spans:
            digests[text, 1] = digest(_without(octets, int(bounds[text]), int(bounds[text + 1]), spans), seed)
    return digests


def _outer(texts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each passage is among its text's first or last PASSAGES_MAX, bool [n]; texts: int64 [n], ascending."""
    begins, ends = (np.searchsorted(texts, texts, side) for side in ("left", "right"))
    places = np.arange(len(texts))
    return (places - begins < PASSAGES_MAX) | (ends - places <= PASSAGES_MAX)


def _without(octets: memoryview, begin: int, end: int, spans: list[tuple[int, int, str]]) -> bytes:
    """A text's octets with some spans, in order, replaced."""
    parts: list[bytes] = []
    for left, right, word in spans:
        parts += [octets[4 * begin : 4 * left].tobytes(), word.encode("utf-32-le", "surrogatepass")]
        begin = right
    return b"".join([*parts, octets[4 * begin : 4 * end].tobytes()])


@cache
def _roles() -> npt.NDArray[np.uint8]:
    roles = np.zeros(CODE_POINTS, np.uint8)
    roles[[codepoint for codepoint in range(_SPACES_END) if chr(codepoint).isspace()]] = kernels.SPACE
    roles[ord("0") : ord("9") + 1] = kernels.DIGIT
    for role, characters in _ROLES.items():
        roles[list(map(ord, characters))] = role
    return roles
