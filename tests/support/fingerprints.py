"""Fingerprints that make it hard for an index of blocks."""

import numpy as np

from tests.support.entries import clustered_fingerprints


def random_ones(generator: np.random.Generator, count: int, bits: int) -> list[int]:
    return [int.from_bytes(generator.bytes(bits // 8), "big") for _ in range(count)]


def one_bucket(generator: np.random.Generator, count: int, bits: int) -> list[int]:
    """All with the same first two blocks: one bucket in two of the tables, with nothing for the ring to filter."""
    return [one & ((1 << bits - 32) - 1) for one in random_ones(generator, count, bits)]


def edges_of_buckets(generator: np.random.Generator, count: int, bits: int) -> list[int]:
    """Blocks of all zeros, all ones and few bits: the first and the last buckets, and bounds of segments that are equal."""
    pool = np.array([0, 0, 0xFFFF, 0xFFFF, 1, 0x8000, 0xFFFE])
    blocks = generator.choice(pool, (count, bits // 16)).astype(">u2")
    return [int.from_bytes(row.tobytes(), "big") for row in blocks]


def clusters(generator: np.random.Generator, count: int, bits: int) -> list[int]:
    return clustered_fingerprints(generator, count, bits, centres=6)


KINDS = [random_ones, clusters, one_bucket, edges_of_buckets]


def mixed(seed: int, count: int, bits: int) -> list[int]:
    """Fingerprints of every kind, and near copies of some of them, some bits away in one block or spread over all."""
    generator = np.random.default_rng(seed)
    found: list[int] = []
    while len(found) < count:
        found += KINDS[int(generator.integers(len(KINDS)))](generator, int(generator.integers(1, 12)), bits)
        base = found[int(generator.integers(len(found)))]
        start, step = int(generator.integers(bits)), int(generator.choice([1, 16, 17, 31]))
        found.append(base ^ sum({1 << (start + step * bit) % bits for bit in range(int(generator.integers(9)))}))
    return found[:count]
