"""Segments of MinHash: what is packed comes back, and what was changed does not pass for it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels import hash_segments
from index.lsm.shape import IdShape
from index.storage.file.checksums import CHECKSUM
from index.storage.segments.hash_codec import (
    HashKey,
    pack_hash_segment,
    segment_capacity,
    size_class,
    unpack_hash_segment,
)
from tests.support.examples import examples

KEY = HashKey(3, 1, 5 << 24, 7)


def entries_of(seed: int, count: int, hash_bits: int, number_bits: int) -> np.ndarray:
    """Ascending entries, uint64 [2, m]; of few bits, many share a hash."""
    generator = np.random.default_rng(seed)
    hashes = generator.integers(0, 2**hash_bits, count, dtype=np.uint64) << np.uint64(24)
    numbers = generator.integers(0, 2**number_bits, count, dtype=np.uint64)
    return np.array(sorted(set(zip(hashes.tolist(), numbers.tolist(), strict=True))), np.uint64).T.copy()


def words_of(value: bytes) -> np.ndarray:
    return np.frombuffer(value, np.uint64).copy()


def unsound(value: np.ndarray, key: HashKey = KEY) -> bool:
    """Whether the check before a look-up finds a segment changed."""
    addresses, sizes = np.array([value.ctypes.data], np.uint64), np.array([value.nbytes])
    known = np.zeros(1, np.uint64)
    return hash_segments.first_unsound(np.ones(1, np.bool_), addresses, sizes, key.words[None], known) == 0


def found_in(
    value: np.ndarray, hashes: np.ndarray, hits_max: int = 2**30, limit: int = 2**62
) -> tuple[list[tuple[int, int]], int]:
    """Rows and numbers that a look-up of hashes uint64 [n] finds in one segment, and which segment it finds changed."""
    addresses = np.array([value.ctypes.data], np.uint64)
    begins, ends = np.zeros((len(hashes), 1), np.int64), np.ones((len(hashes), 1), np.int64)
    found: list[tuple[int, int]] = []
    turn, passed, order = 0, 0, np.arange(len(hashes))
    while turn < len(order):
        rows, numbers, turn, passed, changed = hash_segments.candidates(
            hashes[:, None].copy(),
            IdShape().probes(0),
            np.zeros(1, np.int64),
            hashes[:, None].copy(),
            begins,
            ends,
            addresses,
            order,
            turn,
            passed,
            hits_max,
            limit,
        )
        assert len(rows) <= hits_max
        found += zip(rows.tolist(), numbers.tolist(), strict=True)
        if changed >= 0:
            return found, changed
    return found, -1


@examples(60)
@given(
    st.integers(0, 2**32), st.integers(1, 3_000), st.sampled_from([1, 9, 24, 40]), st.sampled_from([1, 8, 27, 33, 40])
)
def test_entries_come_back_and_every_hash_is_found_with_all_its_numbers(
    seed: int, count: int, hash_bits: int, number_bits: int
) -> None:
    entries = entries_of(seed, count, hash_bits, number_bits)
    value = pack_hash_segment(KEY, entries)
    assert (len(value) + 24) % 4096 == 0
    assert unpack_hash_segment(value).tolist() == entries.tolist()
    words, generator = words_of(value), np.random.default_rng(seed)
    assert not unsound(words)
    strangers = generator.integers(0, 2**40, 70, dtype=np.uint64) << np.uint64(24)
    asked = np.concatenate([generator.choice(entries[0], 70), strangers, np.array([0, 2**64 - 2**24], np.uint64)])
    for hits_max, limit in product((3, 2**30), (1, 2, 2**62)):
        last = [
            (row, n)
            for row, one in enumerate(asked)
            for n in entries[1, entries[0] == one].tolist()[-min(limit, count) :]
        ]
        assert sorted(found_in(words, asked, hits_max, limit)[0]) == sorted(last)


@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 2_500), st.data())
def test_no_changed_bit_of_what_counts_goes_unseen(seed: int, count: int, data: st.DataObject) -> None:
    entries = entries_of(seed, count, 40, 27)
    words = words_of(pack_hash_segment(KEY, entries))
    rests, numbers = int(words[3] >> np.uint64(32)), entries.shape[1] * int(entries[1].max()).bit_length()
    begin = rests + -(-entries.shape[1] * int(words[1] >> np.uint64(32) & np.uint64(255)) // 64) + 1
    at = data.draw(st.integers(0, begin + numbers // 64 - 1))
    words[at] ^= np.uint64(1 << data.draw(st.integers(0, 63)))
    if at < begin:
        assert unsound(words)
    else:
        assert not unsound(words)
        assert found_in(words, entries[0])[1] == 0


def test_a_segment_under_another_key_is_not_what_was_written() -> None:
    words = words_of(pack_hash_segment(KEY, entries_of(1, 50, 40, 27)))
    assert not unsound(words)
    for other in (KEY._replace(band=4), KEY._replace(level=0), KEY._replace(hashed=6 << 24), KEY._replace(number=8)):
        assert unsound(words, other)


def test_an_entry_of_a_hundred_million_documents_takes_less_than_six_bytes() -> None:
    generator = np.random.default_rng(1)
    # What a whole segment has of them: its share of all hashes.
    count = segment_capacity(2**20)
    hashes = np.sort(generator.integers(0, 2**40 * count // 10**8, count, dtype=np.uint64)) << np.uint64(24)
    entries = np.stack([hashes, generator.integers(0, 10**8, count, dtype=np.uint64)])
    assert len(pack_hash_segment(KEY, entries)) < 6 * count


@pytest.mark.parametrize("size", [0, 8, 40, 2_000])
def test_what_is_no_segment_is_refused(size: int) -> None:
    value = pack_hash_segment(KEY, entries_of(1, 500, 40, 27))
    with pytest.raises(ValueError, match="does not fit"):
        unpack_hash_segment(value[:size])


def test_the_sizes_of_segments_are_few_and_waste_little() -> None:
    asked = list(range(100, 272_000, 777))
    sizes = [size_class(size) for size in asked]
    assert len(set(sizes)) <= 49
    assert all((size + CHECKSUM.size + 16) % 4_096 == 0 for size in sizes)
    wasted = [size - wanted for size, wanted in zip(sizes, asked, strict=True)]
    assert all(0 <= waste <= max(4_096, size / 16 + 4_096) for waste, size in zip(wasted, sizes, strict=True))
