"""Digests of whole texts, to compare a document's versions: exact normal form, and substance."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.fingerprint.key import HashKey
from streamer.text.characters import Characters, decode
from streamer.text.substance import counters_and_dates, passages_of


def digests_of(characters: Characters, key: HashKey) -> npt.NDArray[np.uint64]:
    """Keyed XXH3 digests of n normalised texts, uint64 [n, 2]: with white space collapsed, and the substance.

    Hashes the code points as <u4. Both are equal if the substance leaves nothing out.
    """
    written, bounds, passages = passages_of(characters)
    octets, ends = written.astype("<u4", copy=False).view(np.uint8).data, (4 * bounds).tolist()
    digest, seed = xxhash.xxh3_64_intdigest, key.seed
    texts = [digest(octets[begin:end], seed) for begin, end in pairwise(ends)]
    digests = np.repeat(np.array(texts, np.uint64)[:, None], 2, axis=1)
    left_out: dict[int, list[tuple[int, int, str]]] = {}
    for text, begin, end, ends_sentence in passages.tolist():
        passage = decode(written[begin:end])
        spans = counters_and_dates(passage, is_sentence=bool(ends_sentence))
        left_out.setdefault(text, []).extend((begin + one, begin + other, word) for one, other, word in spans)
    for text, parts in left_out.items():
        if parts:
            digests[text, 1] = digest(_without(octets, int(bounds[text]), int(bounds[text + 1]), parts), seed)
    return digests


def _without(octets: memoryview, begin: int, end: int, spans: list[tuple[int, int, str]]) -> bytes:
    parts: list[bytes] = []
    for left, right, word in spans:
        parts += [octets[4 * begin : 4 * left].tobytes(), word.encode("utf-32-le", "surrogatepass")]
        begin = right
    return b"".join([*parts, octets[4 * begin : 4 * end].tobytes()])
