"""Keys of records by which Kafka's own partitioner finds a given partition.

Flink's sink lets nobody name a record's partition from Python. Kafka takes the partition from the key: murmur2 of its bytes,
without the sign, modulo the number of partitions. So a record's key is one that leads to its partition; nobody reads it.
"""

import struct
from collections.abc import Sequence

_KEY = struct.Struct(">I")
_MASK = 2**32 - 1


def partition_keys(partitions: int) -> Sequence[bytes]:
    """A key for each of so many partitions, by partition."""
    keys: dict[int, bytes] = {}
    number = 0
    while len(keys) < partitions:
        key = _KEY.pack(number)
        keys.setdefault((murmur2(key) & 0x7FFFFFFF) % partitions, key)
        number += 1
    return [keys[partition] for partition in range(partitions)]


def murmur2(content: bytes) -> int:
    """The hash of Kafka's partitioner, 32 bits: Austin Appleby's MurmurHash2, seeded as Kafka seeds it."""
    multiplier, length = 0x5BD1E995, len(content)
    found = 0x9747B28C ^ length
    for at in range(0, length - 3, 4):
        word = int.from_bytes(content[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        found = (found * multiplier & _MASK) ^ word
    rest = content[length & ~3 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    found = (found ^ found >> 13) * multiplier & _MASK
    return found ^ found >> 15
