"""Compiled loops from characters to words and their hashes; `words` and `fingerprint.hashing` define the results."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, xxh3_64, xxh3_128
from streamer.text.characters import Rule

UTF_8_BYTES_MAX = 4
"""Most bytes of a character."""

_WORD, _HAN, _IDEOGRAPH = int(Rule.WORD), int(Rule.HAN), int(Rule.IDEOGRAPH)
_UNSPACED, _MARK, _APOSTROPHE = int(Rule.UNSPACED), int(Rule.MARK), int(Rule.APOSTROPHE)


@compiled
def runs(
    codepoints: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64], rules: npt.NDArray[np.uint8], shingle_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Words in n texts, and Han runs for the segmenter: starts int64 [runs], ascending, lengths int64 [runs], and which are Han,
    bool [runs].

    bounds        int64 [n + 1], text i is codepoints[bounds[i]:bounds[i + 1]]
    rules         uint8 [all code points], each one's `Rule`
    shingle_size  characters per word in a script without spaces
    """
    starts, lengths = np.empty(len(codepoints), np.int64), np.empty(len(codepoints), np.int64)
    are_han = np.empty(len(codepoints), np.bool_)
    letters = np.empty(len(codepoints) + 1, np.int64)
    count = 0
    for text in range(len(bounds) - 1):
        place, end = bounds[text], bounds[text + 1]
        while place < end:
            first, rule = place, rules[codepoints[place]]
            place += 1
            if rule == _UNSPACED:
                letter_count, place = _letters(codepoints, first, end, rules, letters)
                for letter in range(max(letter_count - shingle_size + 1, 1)):
                    last = letters[min(letter + shingle_size, letter_count)]
                    starts[count], lengths[count] = letters[letter], last - letters[letter]
                    are_han[count] = False
                    count += 1
                continue
            if rule == _HAN:
                while place < end and rules[codepoints[place]] == _HAN:
                    place += 1
            elif rule == _WORD:
                place = _word_end(codepoints, place, end, rules)
            elif rule != _IDEOGRAPH:
                continue
            starts[count], lengths[count], are_han[count] = first, place - first, rule == _HAN
            count += 1
    return starts[:count], lengths[:count], are_han[:count]


@compiled
def _word_end(codepoints: npt.NDArray[np.uint32], place: int, end: int, rules: npt.NDArray[np.uint8]) -> Any:
    """End of a word, in a script with spaces, that begins before `place`."""
    while place < end:
        rule = rules[codepoints[place]]
        if rule in (_WORD, _MARK):
            place += 1
        elif rule == _APOSTROPHE and place + 1 < end and rules[codepoints[place + 1]] == _WORD:
            place += 2
        else:
            break
    return place


@compiled
def _letters(
    codepoints: npt.NDArray[np.uint32],
    place: int,
    end: int,
    rules: npt.NDArray[np.uint8],
    letters: npt.NDArray[np.int64],
) -> Any:
    """Count and end of the letters without spaces from `place` on. Writes their starts, and the end, to `letters`."""
    count = 0
    while place < end and rules[codepoints[place]] == _UNSPACED:
        letters[count] = place
        count += 1
        place += 1
        while place < end and rules[codepoints[place]] == _MARK:
            place += 1
    letters[count] = place
    return count, place


@compiled
def places_of(
    asked: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], edges: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Place of each asked key among `keys`, int64 [asked]; -1 if absent.

    keys   uint64, ascending and spread evenly
    edges  as in `word_tables.WordTable`
    """
    places = np.full(len(asked), -1, np.int64)
    bits = 0
    while 1 << bits < len(edges):
        bits += 1
    for row in range(len(asked)):
        place = np.int64(edges[asked[row] >> np.uint64(64 - bits)])
        while place < len(keys) and keys[place] < asked[row]:
            place += 1
        if place < len(keys) and keys[place] == asked[row]:
            places[row] = place
    return places


@compiled
def hashes(
    codepoints: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], lanes: int
) -> npt.NDArray[np.uint64]:
    """See `fingerprint.hashing.hash_words`: uint64 [words, lanes]. Every apostrophe counts as U+0027."""
    hashed = np.empty((len(starts), lanes), np.uint64)
    longest = 0
    for word in range(len(starts)):
        longest = max(longest, lengths[word])
    octets = np.empty(UTF_8_BYTES_MAX * longest, np.uint8)
    address = np.uint64(octets.ctypes.data)
    for word in range(len(starts)):
        size = np.uint64(_encode(codepoints, starts[word], starts[word] + lengths[word], octets))
        if lanes == 1:
            hashed[word, 0] = xxh3_64(address, size)
        else:
            hashed[word, 0], hashed[word, 1] = xxh3_128(address, size)
    return hashed


@compiled
def _encode(codepoints: npt.NDArray[np.uint32], begin: int, end: int, octets: npt.NDArray[np.uint8]) -> Any:
    """Write characters as UTF-8 to `octets`; returns the bytes."""
    filled = 0
    for place in range(begin, end):
        code = codepoints[place]
        if code < 0x80:
            octets[filled] = code
            filled += 1
            continue
        size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
        # U+676D has 16 bits, so three bytes: 1110 0110, 10 011101, 10 101101.
        octets[filled] = (0xF00 >> size) & 0xFF | code >> (6 * (size - 1))
        for following in range(1, size):
            octets[filled + following] = 0x80 | (code >> (6 * (size - 1 - following)) & 0x3F)
        filled += size
    return filled
