"""XXH3 over UTF-8: compiled for whole batches of words, by the library for all else."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from streamer.text import word_kernels
from streamer.text.words import Words

Hashes = npt.NDArray[np.uint64]


def hash_words(words: Words, lanes: int) -> Hashes:
    """XXH3 of every word's UTF-8: uint64 [words, lanes], 1 or 2 lanes, the low 64 bits first."""
    return word_kernels.hashes(words.codepoints, words.starts, words.lengths, lanes)


def hash_strings(strings: Sequence[str], lanes: int) -> Hashes:
    """`hash_words` of strings without surrogates: uint64 [strings, lanes]."""
    digest: Callable[[bytes], bytes] = xxhash.xxh3_64_digest if lanes == 1 else xxhash.xxh3_128_digest
    digests = b"".join(map(digest, map(str.encode, strings)))
    return np.frombuffer(digests, ">u8").reshape(-1, lanes)[:, ::-1].astype(np.uint64, order="C")


def hash_text(text: str, lanes: int, seed: int = 0) -> tuple[int, ...]:
    """XXH3 of the text's UTF-8, 64 bits a lane, the low 64 bits first. Lone surrogates are encoded too."""
    octets = text.encode("utf-8", "surrogatepass")
    if lanes == 1:
        return (xxhash.xxh3_64_intdigest(octets, seed),)
    number = xxhash.xxh3_128_intdigest(octets, seed)
    return number & 0xFFFF_FFFF_FFFF_FFFF, number >> 64


def present(keys: npt.NDArray[np.unsignedinteger], among: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.bool_]:
    """Whether each key is in a sorted column: bool [keys].

    >>> present(np.array([1, 2, 3], np.uint32), np.array([2, 3, 4], np.uint32))
    array([False,  True,  True])
    """
    if len(among) == 0:
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return np.asarray(among[places] == keys)
