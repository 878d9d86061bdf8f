import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import checksums


@given(st.lists(st.binary(max_size=100)))
def test_a_hash_is_the_high_bits_of_xxh64_and_an_empty_text_has_none(texts: list[bytes]) -> None:
    octets = np.frombuffer(b"".join(texts) + b"more", np.uint8)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    expected = [xxhash.xxh64_intdigest(text) >> 24 << 24 if text else 2**64 - 1 for text in texts]
    assert checksums.id_hashes(octets, ends).tolist() == expected


@given(st.binary(max_size=200), st.binary(max_size=9), st.integers(0, 2**64 - 1))
def test_a_checksum_is_xxh64_of_any_bytes_with_any_seed(content: bytes, before: bytes, seed: int) -> None:
    octets = np.frombuffer(before + content + b"more", np.uint8)
    found = checksums.xxh64_of(octets, len(before), len(before) + len(content), np.uint64(seed))
    assert int(found) == xxhash.xxh64_intdigest(content, seed)
