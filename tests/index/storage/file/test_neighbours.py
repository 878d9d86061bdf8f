"""Neighbours of missing keys against a search through all keys."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from index.storage.file.neighbours import neighbours

KEYS = st.sets(st.binary(min_size=1, max_size=1), max_size=40)


class SortedPairs:
    """A cursor over keys, each its own value."""

    def __init__(self, keys: set[bytes]) -> None:
        self._keys = sorted(keys)
        self._at = 0

    def _stands(self, at: int) -> bool:
        self._at = at
        return 0 <= at < len(self._keys)

    def set_range(self, key: bytes) -> bool:
        return self._stands(bisect_left(self._keys, key))

    def prev(self) -> bool:
        return self._stands(self._at - 1)

    def last(self) -> bool:
        return self._stands(len(self._keys) - 1)

    def item(self) -> tuple[memoryview, memoryview]:
        return memoryview(self._keys[self._at]), memoryview(self._keys[self._at])


@given(KEYS, KEYS, KEYS)
def test_each_missing_key_brings_the_keys_beside_it_that_were_not_checked(
    stored: set[bytes], asked: set[bytes], others: set[bytes]
) -> None:
    checked = stored & (asked | others)
    expected = set()
    for key in asked - stored:
        expected |= {max((each for each in stored if each < key), default=key)}
        expected |= {min((each for each in stored if each > key), default=key)}
    found = neighbours(SortedPairs(stored), sorted(asked), checked)
    assert found.keys() == (expected & stored) - checked
    assert all(bytes(value) == key for key, value in found.items())
