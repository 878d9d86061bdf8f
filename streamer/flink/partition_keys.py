"""Record keys that Kafka's own partitioner maps to given partitions.

From Python, Flink's sink cannot set a record's partition. Kafka takes it from the key: murmur2 of its bytes, without the sign,
modulo the number of partitions. No program reads the key.
"""

import struct
from collections.abc import Sequence

from kafka.partitioner.default import murmur2

_KEY = struct.Struct(">I")


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
