"""Kafka's hash for record keys: all records in a transaction at once."""

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
from kafka.partitioner.default import murmur2

_SEED, _FACTOR = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_WORD_BYTES = 4
_BYTES_MAX = 1_024
"""Longest key whose words are taken together with others'."""


def key_hashes(keys: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    """MurmurHash2 (Austin Appleby, 32 bits) for n keys, seeded as Kafka's clients do: uint32 [n].

    kafka-python computes it byte by byte in Python, which takes a key as long as its decision.

    >>> [hex(each) for each in key_hashes([b"21", b"foobar"])]
    ['0xc5f2f8ec', '0xd0e47bbe']
    """
    hashes = np.empty(len(keys), np.uint32)
    are_long = np.fromiter((len(key) > _BYTES_MAX for key in keys), np.bool_, len(keys))
    hashes[are_long] = [murmur2(key) & 0xFFFF_FFFF for key in compress(keys, are_long)]
    hashes[~are_long] = _hashes(list(compress(keys, ~are_long)))
    return hashes


def _hashes(keys: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    # Each key is padded to whole words, and those with the most words come first: word i is one of the first rows alone.
    padded = b"".join([key + bytes(-len(key) % _WORD_BYTES) for key in keys])
    words = np.frombuffer(padded, "<u4").astype(np.uint32, copy=False)
    counts = -(-lengths // _WORD_BYTES)
    order = np.argsort(-counts, kind="stable")
    begins = (np.cumsum(counts) - counts)[order]
    whole = (lengths // _WORD_BYTES)[order]
    hashes = _SEED ^ lengths[order].astype(np.uint32)
    for place in range(int(counts.max(initial=0))):
        there = np.count_nonzero(counts > place)
        word, inside = words[begins[:there] + place], place < whole[:there]
        mixed = word * _FACTOR
        mixed = (mixed ^ mixed >> np.uint32(24)) * _FACTOR
        hashes[:there] = np.where(inside, hashes[:there] * _FACTOR ^ mixed, (hashes[:there] ^ word) * _FACTOR)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    found = np.empty(len(keys), np.uint32)
    found[order] = hashes
    return found
