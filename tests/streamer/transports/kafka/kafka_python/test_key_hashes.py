"""Hashes of record keys: those of the client, whatever the keys."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from streamer.transports.kafka.kafka_python.key_hashes import key_hashes

KEYS = st.binary(max_size=20) | st.integers(1_015, 1_035).flatmap(lambda size: st.binary(min_size=size, max_size=size))


@given(st.lists(KEYS))
def test_each_key_has_the_clients_hash_whatever_keys_are_with_it(keys: list[bytes]) -> None:
    assert key_hashes(keys).tolist() == [murmur2(key) & 0xFFFF_FFFF for key in keys]
