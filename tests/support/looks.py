"""Second looks, written as plainly as they can be, and documents that they tell apart."""

import math
from collections.abc import Callable

import numpy as np

from index.entry import Kind
from index.matching.second_look import CosineLook, Look, MetadataLook
from index.storage.parameters import Parameters
from tests.support.entries import Row
from tests.support.indexes import mixed_rows

LOOKS: dict[str, Look] = {"cosine": CosineLook(12, 0.6), "metadata": MetadataLook(10, 0.9, 0.25)}


def parameters_with(look: Look, bits: int = 64, distance_max: int = 4) -> Parameters:
    reach = look.reach if isinstance(look, MetadataLook) else distance_max
    return Parameters(bits, reach, look=look)


def brute_force_look(look: Look) -> Callable[[int, bytes, bytes], tuple[int, bool]]:
    """What `BruteForceIndex.second_look` asks for, by the definitions."""

    def by_cosine(distance: int, one: bytes, other: bytes) -> tuple[int, bool]:
        assert isinstance(look, CosineLook)
        left, right = ([cell - 256 if cell > 127 else cell for cell in each] for each in (one, other))
        sizes = math.sqrt(sum(cell * cell for cell in left) * sum(cell * cell for cell in right))
        product = sum(a * b for a, b in zip(left, right, strict=True))
        cosine = 1.0 if left == right else product / sizes if sizes else 0.0
        return distance, cosine >= look.cosine_min

    def by_metadata(distance: int, one: bytes, other: bytes) -> tuple[int, bool]:
        assert isinstance(look, MetadataLook)
        agreement = sum(a == b != 0 for a, b in zip(one, other, strict=True)) / look.functions
        metadata = max(0.0, (agreement - 1 / 255) / (1 - 1 / 255))
        similarity = look.content_weight / (1 + distance) + (1 - look.content_weight) * metadata
        told = round(10_000 * (1 - similarity))
        return told, told <= round(10_000 * (1 - look.similarity_min))

    return by_cosine if isinstance(look, CosineLook) else by_metadata


def looked_at_rows(seed: int, count: int, look: Look, bits: int = 64) -> list[Row]:
    """`indexes.mixed_rows` with many equal fingerprints, and looks of a few kinds, some of them a little changed."""
    generator = np.random.default_rng(seed)
    kinds = generator.integers(0, 256, (4, look.bytes), np.uint8)
    kinds[0] = 0
    rows = []
    for row in mixed_rows(seed, count, bits, repeated=0.6):
        of_row = kinds[int(generator.integers(4))].copy()
        if generator.random() < 0.5:
            cells = generator.integers(look.bytes, size=int(generator.integers(1, 5)))
            of_row[cells] = generator.integers(0, 256, len(cells))
        rows.append(row._replace(look=of_row.tobytes() if row.kind is Kind.NEAR else bytes(look.bytes)))
    return rows
