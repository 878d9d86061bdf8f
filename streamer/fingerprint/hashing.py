"""XXH3 of words and texts in UTF-8: of the words of whole batches as machine code, of others by the library."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.text import word_kernels
from streamer.text.words import Words

Hashes = npt.NDArray[np.uint64]


def hash_words(words: Words, lanes: int) -> Hashes:
    """Every word's hash: uint64 [words, lanes], XXH3 of 64 or 128 bits of its UTF-8, the low 64 bits first."""
    hashes, left_out = word_kernels.hashes(words.codepoints, words.starts, words.lengths, lanes)
    if len(left_out):
        count = len(left_out)
        rest = Words(words.codepoints, words.starts[left_out], words.lengths[left_out], np.array([0, count]))
        hashes[left_out] = hash_strings(rest.strings()[0], lanes)
    return hashes


def hash_strings(strings: Sequence[str], lanes: int) -> Hashes:
    """The same of strings, none of which holds a surrogate: uint64 [strings, lanes]."""
    digest: Callable[[bytes], bytes] = xxhash.xxh3_64_digest if lanes == 1 else xxhash.xxh3_128_digest
    digests = b"".join(map(digest, map(str.encode, strings)))
    return np.frombuffer(digests, ">u8").reshape(-1, lanes)[:, ::-1].astype(np.uint64, order="C")


def hash_text(text: str, lanes: int) -> tuple[int, ...]:
    """XXH3 of the text's UTF-8 (lone surrogates as UTF-8 would write them): 64 bits a lane, the low ones first."""
    octets = text.encode("utf-8", "surrogatepass")
    if lanes == 1:
        return (xxhash.xxh3_64_intdigest(octets),)
    number = xxhash.xxh3_128_intdigest(octets)
    return number & 0xFFFF_FFFF_FFFF_FFFF, number >> 64
