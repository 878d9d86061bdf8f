"""Segments of MinHash in plain Python, byte for byte as `index.storage.layout` draws them."""

from collections.abc import Iterable, Sequence

import xxhash

from index.storage.segments.hash_codec import HashKey, size_class

MASK = 2**64 - 1
PART_ENTRIES = 16


def plain_checksum(words: Sequence[int], seed: int) -> int:
    """The checksum of words, with a seed."""
    return xxhash.xxh64_intdigest(b"".join(word.to_bytes(8, "little") for word in words), seed)


def column(values: Iterable[int], bits: int, words: int) -> list[int]:
    """Values of so many bits each, one behind the other, in so many words."""
    packed = sum(value << place * bits for place, value in enumerate(values))
    return [packed >> 64 * word & MASK for word in range(words)]


def plain_segment(key: HashKey, entries: Sequence[tuple[int, int]]) -> bytes:
    """The value of a segment with these hashes and numbers, ascending."""
    count, base = len(entries), entries[0][0]
    offs = [(hashed - base) >> 24 for hashed, _ in entries]
    rest_bits = (offs[-1] // max(1, count // PART_ENTRIES)).bit_length()
    number_bits = max(number for _, number in entries).bit_length()
    parts, number_words = (offs[-1] >> rest_bits) + 1, -(-count * number_bits // 64)
    starts = [sum(off >> rest_bits < part for off in offs) for part in range(parts + 1)]
    searched = column(starts, 32, (parts + 2) // 2)
    searched += column((off & (1 << rest_bits) - 1 for off in offs), rest_bits, -(-count * rest_bits // 64) + 1)
    numbers = column((number for _, number in entries), number_bits, number_words)
    before = 5 + -(-number_words // 512)
    head = [count | rest_bits << 32 | number_bits << 40 | before << 48, base, parts | before + (parts + 2) // 2 << 32]
    head.append(plain_checksum(searched, 0))
    head += [plain_checksum(numbers[512 * block : 512 * (block + 1)], block + 5) for block in range(before - 5)]
    of_key = plain_checksum([key.band << 8 | key.level, key.hashed, key.number], 0)
    words = [plain_checksum(head, of_key), *head, *searched, *numbers, 0]
    return b"".join(word.to_bytes(8, "little") for word in words).ljust(size_class(8 * len(words)), b"\0")
