from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

from index.matching.simhash import block_keys, flips, next_bits, probe_keys, probe_radii
from tests.support.entries import fingerprints_of

WIDTHS = (64, 128)
DISTANCES = range(8)


def differences(bits: int, distance: int) -> Iterator[int]:
    """Patterns of exactly `distance` bits that try to hide from blocks of 16."""
    generator = np.random.default_rng(distance * bits)
    blocks = bits // 16
    for _ in range(40):
        yield sum(1 << int(bit) for bit in generator.choice(bits, distance, replace=False))
    for first in range(blocks):
        # Spread as evenly as possible, beginning at every block, at both edges of it.
        for inside in (0, 7, 15):
            bits_of_block = [(first + step) % blocks * 16 + (inside + step // blocks) % 16 for step in range(distance)]
            yield sum(1 << bit for bit in bits_of_block)
        # All in one block, and all across the border of two.
        yield ((1 << distance) - 1) << first * 16
        yield ((1 << distance) - 1) << min(first * 16 + 12, bits - distance)
    if blocks <= 4:
        # Every way of spreading the bits over the blocks.
        for counts in product(range(distance + 1), repeat=blocks):
            if sum(counts) == distance:
                yield sum(((1 << count) - 1) << block * 16 for block, count in enumerate(counts))


def missed(base: int, difference: int, bits: int, distance_max: int) -> bool:
    one, other = fingerprints_of([base], bits), fingerprints_of([base ^ difference], bits)
    return not set(probe_keys(one, distance_max)[0].tolist()) & set(block_keys(other)[0].tolist())


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("distance_max", DISTANCES)
def test_everything_within_the_distance_shares_a_key(bits: int, distance_max: int) -> None:
    base = 0x0123456789ABCDEF_F0E1D2C3B4A59687 & ((1 << bits) - 1)
    for distance in range(distance_max + 1):
        for difference in differences(bits, distance):
            assert difference.bit_count() == distance
            assert not missed(base, difference, bits, distance_max), hex(difference)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("distance_max", range(7))
def test_one_bit_more_can_escape_so_the_patterns_are_hard_enough(bits: int, distance_max: int) -> None:
    assert any(missed(0, difference, bits, distance_max) for difference in differences(bits, distance_max + 1))


@pytest.mark.parametrize(("block_count", "width"), [(1, 5), (2, 4), (3, 3), (4, 2), (5, 2), (8, 1)])
def test_the_radii_are_lossless_over_every_possible_difference(block_count: int, width: int) -> None:
    for distance_max in range(8):
        radii = probe_radii(block_count, distance_max)
        for difference in range(1 << block_count * width):
            if difference.bit_count() <= distance_max:
                parts = [(difference >> block * width) & ((1 << width) - 1) for block in range(block_count)]
                assert any(part.bit_count() <= radius for part, radius in zip(parts, radii, strict=True))


@pytest.mark.parametrize(("block_count", "distance_max"), [(4, 3), (4, 4), (4, 5), (4, 7), (8, 3), (8, 7)])
def test_no_radius_could_be_smaller(block_count: int, distance_max: int) -> None:
    radii = probe_radii(block_count, distance_max)
    counts = [counts for counts in product(range(3), repeat=block_count) if sum(counts) <= distance_max]
    for block, radius in enumerate(radii):
        if radius < 0:
            continue
        smaller = [*radii[:block], radius - 1, *radii[block + 1 :]]
        assert any(all(count > limit for count, limit in zip(bits, smaller, strict=True)) for bits in counts)


@pytest.mark.parametrize(
    ("bits", "distance_max", "radii"),
    [
        (64, 0, (0, -1, -1, -1)),
        (64, 3, (0, 0, 0, 0)),
        (64, 4, (1, 0, 0, 0)),
        (64, 7, (1, 1, 1, 1)),
        (128, 3, (0, 0, 0, 0, -1, -1, -1, -1)),
        (128, 7, (0,) * 8),
    ],
)
def test_the_radii_of_the_distances_in_use(bits: int, distance_max: int, radii: tuple[int, ...]) -> None:
    assert probe_radii(bits // 16, distance_max) == radii


def test_a_block_key_is_the_block_number_and_its_16_bits() -> None:
    keys = block_keys(fingerprints_of([0x0123456789ABCDEF_0011223344556677], 128))
    assert [hex(key) for key in keys[0].tolist()] == [
        "0x123", "0x14567", "0x289ab", "0x3cdef", "0x40011", "0x52233", "0x64455", "0x76677",
    ]  # fmt: skip


def test_flips_are_all_masks_of_few_bits_each_once() -> None:
    assert flips(-1).tolist() == []
    assert flips(0).tolist() == [0]
    assert sorted(flips(1).tolist()) == sorted([0, *(1 << bit for bit in range(16))])
    expected = {sum(1 << bit for bit in bits) for size in range(3) for bits in combinations(range(16), size)}
    assert sorted(flips(2).tolist()) == sorted(expected)


def probes(block_count: int, distance_max: int, width: int) -> list[tuple[int, int, int]]:
    """(block, flipped bits, bits in which the next block may differ) of every probe."""
    radii = probe_radii(block_count, distance_max)
    masks = [(block, mask) for block, radius in enumerate(radii) for mask in flips(radius, width).tolist()]
    allowed = next_bits(block_count, distance_max, width).tolist()
    return [(block, mask, bits) for (block, mask), bits in zip(masks, allowed, strict=True)]


@pytest.mark.parametrize(("block_count", "width"), [(1, 5), (2, 4), (3, 3), (4, 2), (5, 2), (8, 1)])
def test_the_ring_leaves_an_entry_to_be_found_over_every_possible_difference(block_count: int, width: int) -> None:
    for distance_max in range(8):
        asked = probes(block_count, distance_max, width)
        for difference in range(1 << block_count * width):
            if difference.bit_count() <= distance_max:
                parts = [(difference >> block * width) & ((1 << width) - 1) for block in range(block_count)]
                following = [part.bit_count() for part in parts[1:] + parts[:1]]
                assert any(parts[block] == mask and following[block] <= bits for block, mask, bits in asked)


@pytest.mark.parametrize(("block_count", "distance_max"), [(4, 3), (4, 4), (4, 5), (4, 7), (8, 3), (8, 4), (8, 7)])
def test_the_next_block_could_not_be_held_nearer(block_count: int, distance_max: int) -> None:
    """Wherever the bound of any block is lowered by one, something within the distance is lost."""
    width = 4
    counts = [counts for counts in product(range(4), repeat=block_count) if sum(counts) <= distance_max]
    radii = probe_radii(block_count, distance_max)
    bounds = [radius + following + 1 for radius, following in zip(radii, (*radii[1:], radii[0]), strict=True)]
    least = {(block, flipped.bit_count()): bits for block, flipped, bits in probes(block_count, distance_max, width)}
    assert all(bits == bounds[block] - flipped for (block, flipped), bits in least.items())
    for block in range(block_count):
        if radii[block] < 0:
            continue
        tighter = [bound - (place == block) for place, bound in enumerate(bounds)]
        assert any(
            all(
                bits[place] > radii[place] or bits[place] + bits[(place + 1) % block_count] > tighter[place]
                for place in range(block_count)
            )
            for bits in counts
        )


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("distance_max", DISTANCES)
def test_everything_within_the_distance_passes_the_filter(bits: int, distance_max: int) -> None:
    blocks = bits // 16
    base = 0x0123456789ABCDEF_F0E1D2C3B4A59687 & ((1 << bits) - 1)
    keys = probe_keys(fingerprints_of([base], bits), distance_max)[0]
    allowed = next_bits(blocks, distance_max)
    assert allowed.shape == keys.shape
    own = block_keys(fingerprints_of([base], bits))[0] & 0xFFFF
    following = (np.arange(blocks) + 1) % blocks
    for distance in range(distance_max + 1):
        for difference in differences(bits, distance):
            filed = block_keys(fingerprints_of([base ^ difference], bits))[0]
            off = np.bitwise_count((filed & 0xFFFF)[following] ^ own[following])
            tables = keys >> 16
            assert ((filed[tables] == keys) & (off[tables] <= allowed)).any(), hex(difference)


@pytest.mark.parametrize(
    ("bits", "distance_max", "expected"),
    [
        (64, 0, [0]),
        (64, 3, [1] * 4),
        # The last block is followed by the first, which may itself be one bit off.
        (64, 4, [2, *[1] * 16, 1, 1, 2]),
        (128, 3, [1, 1, 1, 0]),
        (128, 7, [1] * 8),
    ],
)
def test_the_bounds_of_the_distances_in_use(bits: int, distance_max: int, expected: list[int]) -> None:
    assert next_bits(bits // 16, distance_max).tolist() == expected
