import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as of_kafka

from streamer.flink.partition_keys import murmur2, partition_keys


@given(st.binary(max_size=40))
def test_murmur2_is_that_of_kafkas_own_partitioner(content: bytes) -> None:
    assert murmur2(content) & 0x7FFFFFFF == of_kafka(content) & 0x7FFFFFFF


@pytest.mark.parametrize("partitions", [1, 3, 4, 64])
def test_the_key_of_a_partition_leads_there(partitions: int) -> None:
    keys = partition_keys(partitions)
    assert [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys] == list(range(partitions))
