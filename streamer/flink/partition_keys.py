"""Record keys that Kafka's own partitioner maps to given partitions.

From Python, Flink's sink cannot set a record's partition. Kafka takes it from the key: murmur2 of its bytes, without the sign,
modulo the number of partitions. No program reads the key.
"""

import struct
from collections.abc import Sequence

_KEY = struct.Struct(">I")
_MASK = 2**32 - 1


def partition_keys(partitions: int) -> Sequence[bytes]:
    """A key for each partition, by partition.

    >>> [(murmur2(key) & 0x7FFFFFFF) % 3 for key in partition_keys(3)]
    [0, 1, 2]
    """
    keys: dict[int, bytes] = {}
    number = 0
    while len(keys) < partitions:
        key = _KEY.pack(number)
        keys.setdefault((murmur2(key) & 0x7FFFFFFF) % partitions, key)
        number += 1
    return [keys[partition] for partition in range(partitions)]


def murmur2(content: bytes) -> int:
    """The 32-bit hash of Kafka's partitioner: Austin Appleby's MurmurHash2 with Kafka's seed."""
    multiplier, length = 0x5BD1E995, len(content)
    mixed = 0x9747B28C ^ length
    for at in range(0, length - 3, 4):
        word = int.from_bytes(content[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        mixed = (mixed * multiplier & _MASK) ^ word
    rest = content[length & ~3 :]
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    mixed = (mixed ^ mixed >> 13) * multiplier & _MASK
    return mixed ^ mixed >> 15
