from types import SimpleNamespace

import pytest
from kafka.partitioner.default import DefaultPartitioner

from streamer.flink.partition_keys import murmur2, partition_keys


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_client(text: str, hashed: int) -> None:
    """The values are those of Apache Kafka's own test, UtilsTest.testMurmur2."""
    assert murmur2(text.encode()) == hashed & (2**32 - 1)


@pytest.mark.parametrize("partitions", [1, 3, 4, 64])
def test_the_key_of_a_partition_leads_there(partitions: int) -> None:
    numbers = list(range(partitions))
    cluster = SimpleNamespace(
        topics=lambda: {"topic"},
        partitions_for_topic=lambda _: set(numbers),
        available_partitions_for_topic=lambda _: set(numbers),
    )
    choose = DefaultPartitioner().partition
    assert [choose("topic", None, key, None, None, cluster) for key in partition_keys(partitions)] == numbers
