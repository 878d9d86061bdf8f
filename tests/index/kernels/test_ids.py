import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from index.kernels import ids


@settings(deadline=None)
@given(st.lists(st.binary(max_size=100)))
def test_a_hash_is_the_high_bits_of_xxh64_and_an_empty_text_has_none(texts: list[bytes]) -> None:
    octets = np.frombuffer(b"".join(texts) + b"more", np.uint8)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    expected = [xxhash.xxh64_intdigest(text) >> 24 if text else 2**64 - 1 for text in texts]
    assert ids.hashes(octets, ends).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.sampled_from([int(ids.NO_HASH), *range(9)]), max_size=60), st.integers(0, 60), st.integers(1, 9))
def test_the_last_places_of_a_hash_are_found_until_they_are_taken_back(
    hashes: list[int], kept: int, limit: int
) -> None:
    hashed, previous = np.array([*hashes, 0], np.uint64), np.empty(len(hashes) + 1, np.int32)
    slots, asked = np.full(64, -1, np.int32), np.array([int(ids.NO_HASH), *range(11)], np.uint64)

    def require(count: int) -> None:
        expected = []
        for one, value in enumerate(asked.tolist()):
            places = [place for place in range(count) if hashes[place] == value != int(ids.NO_HASH)]
            expected += [(one, place) for place in places[::-1][:limit]]
        found = ids.memtable_hits(asked, hashed, slots, previous, limit)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == expected

    kept = min(kept, len(hashes))
    ids.enter(hashed, 0, kept, slots, previous)
    require(kept)
    ids.enter(hashed, kept, len(hashes), slots, previous)
    require(len(hashes))
    ids.take_out(hashed, kept, len(hashes), slots, previous)
    require(kept)
