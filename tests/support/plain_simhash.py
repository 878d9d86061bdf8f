"""SimHash, SplitMix64 and chains of hashes in plain Python: the oracles of the kernels."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

HASHES = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=12), max_size=5)
"""Hashes of the features of a few texts."""


def column(numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
    """Hashes of one lane: uint64 [n, 1]."""
    return np.array(numbers, np.uint64).reshape(-1, 1)


def bounds_of(lists: Sequence[Sequence[object]]) -> npt.NDArray[np.int64]:
    """The bounds of lists that are joined into one: int64 [n + 1]."""
    return np.cumsum([0, *map(len, lists)])


def plain_sums(hashes: Sequence[int], weights: Sequence[int], bits: int) -> list[int]:
    """Sum i: + weight where bit i of the hash is 1, else - weight, over the features of one text."""
    return [
        sum(weight if value >> bit & 1 else -weight for value, weight in zip(hashes, weights, strict=True))
        for bit in range(bits)
    ]


def mix(number: int) -> int:
    """One step of SplitMix64."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def chained(values: Sequence[int]) -> int:
    """The hash of a shingle of words with these hashes."""
    chain = 0
    for value in values:
        chain = mix((chain + value) % 2**64)
    return chain
