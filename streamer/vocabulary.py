"""Words as numbers: a vocabulary that grows with the words met, and a short way to the numbers of its short ones."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice

import numpy as np
import numpy.typing as npt

from streamer.key_table import ABSENT, KeyTable

_REMEMBERED = 1 << 17
_REMEMBERED_CHARACTERS = 1 << 21
_KEY_BYTES = 8
_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_KEY_BYTES + 1)], np.uint64)


class Numbered:
    """Different strings, numbered from 0 in the order in which they were met; there are only ever more of them."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._characters = 0

    def is_full(self) -> bool:
        """Whether what it holds in memory is enough, so that it is time for a new one."""
        return len(self.strings) > _REMEMBERED or self._characters > _REMEMBERED_CHARACTERS

    def numbers_of(self, strings: Sequence[str]) -> npt.NDArray[np.int64]:
        """The number of every string, a new one for each that was not met before: int64 [strings]."""
        numbers = np.fromiter(map(self._numbers.__getitem__, strings), np.int64, len(strings))
        # A dict keeps the order of its keys, so that the new ones are the last.
        new = list(islice(reversed(self._numbers), len(self._numbers) - len(self.strings)))[::-1]
        self.strings += new
        self._characters += sum(map(len, new))
        return numbers


class ShortStrings:
    """Numbers of short strings in a vocabulary, looked up by their characters as they lie in an array.

    Up to eight bytes of characters of one width make a key, each string another one: only of a new one is a string made.
    """

    def __init__(self, vocabulary: Numbered, width: type[np.uint8] | type[np.uint16]) -> None:
        self._vocabulary = vocabulary
        self._width = np.dtype(width)
        self._table = KeyTable()

    @property
    def length_max(self) -> int:
        """How many characters a string may have."""
        return _KEY_BYTES // self._width.itemsize

    def numbers_of(
        self,
        characters: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """The numbers of the strings at these places, 1 to `length_max` characters long, none of them NUL: int64 [n]."""
        size = self._width.itemsize
        keys = windows(characters.view(np.uint8), starts * size, lengths * size)
        numbers = self._table.find(keys)
        absent = np.flatnonzero(numbers == ABSENT)
        if absent.size:
            new, places = np.unique(keys[absent], return_inverse=True)
            written = new.astype("<u8").view(self._width.newbyteorder("<")).astype("<u4").view(f"<U{self.length_max}")
            of_new = self._vocabulary.numbers_of(written.tolist())
            self._table.add(new, of_new)
            numbers[absent] = of_new[places]
        return numbers


def windows(
    octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The `lengths` bytes from `starts` on as a number each, the first byte the lowest: uint64 [n]. At most eight bytes."""
    padded = np.zeros(len(octets) + _KEY_BYTES, np.uint8)
    padded[: len(octets)] = octets
    everywhere = np.ndarray(len(octets) + 1, "<u8", padded, strides=(1,))
    return everywhere[starts].astype(np.uint64, copy=False) & _LOW_BYTES[lengths]
