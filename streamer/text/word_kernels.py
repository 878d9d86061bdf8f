"""Compiled loops from characters to words and their hashes; `words` and `fingerprint.hashing` define the results.

`index.kernels` says how kernels are written.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, high_product
from streamer.text.characters import Rule

OCTETS_MAX = 128
"""The longest word, in bytes of UTF-8, that these kernels hash."""

_WORD, _HAN, _IDEOGRAPH = int(Rule.WORD), int(Rule.HAN), int(Rule.IDEOGRAPH)
_UNSPACED, _MARK, _APOSTROPHE = int(Rule.UNSPACED), int(Rule.MARK), int(Rule.APOSTROPHE)

# The first 128 bytes of XXH3's default secret, eight at a time.
_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    ),
    "<u8",
).astype(np.uint64)
_PRIME32_2 = np.uint64(0x85EBCA77)
_PRIME64_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME64_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME64_3 = np.uint64(0x165667B19E3779F9)
_PRIME64_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_MX1 = np.uint64(0x165667919E3779F9)
_PRIME_MX2 = np.uint64(0x9FB21C651E98DF25)
_LOW = np.uint64(0xFFFF_FFFF)


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
                known, place = _letters(codepoints, first, end, rules, letters)
                for letter in range(max(known - shingle_size + 1, 1)):
                    last = letters[min(letter + shingle_size, known)]
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
    found = np.full(len(asked), -1, np.int64)
    bits = 0
    while 1 << bits < len(edges):
        bits += 1
    for row in range(len(asked)):
        place = np.int64(edges[asked[row] >> np.uint64(64 - bits)])
        while place < len(keys) and keys[place] < asked[row]:
            place += 1
        if place < len(keys) and keys[place] == asked[row]:
            found[row] = place
    return found


# --- XXH3 ------------------------------------------------------------------------------------------------------------


@compiled
def hashes(
    codepoints: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], lanes: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Kernel for `fingerprint.hashing.hash_words`: uint64 [words, lanes].

    Every apostrophe counts as U+0027. Words of more than OCTETS_MAX bytes are left out; their numbers follow, int64.
    """
    found = np.empty((len(starts), lanes), np.uint64)
    left_out = np.empty(len(starts), np.int64)
    octets = np.zeros(OCTETS_MAX // 8 + 2, np.uint64)
    left = 0
    for word in range(len(starts)):
        size = _encode(codepoints, starts[word], starts[word] + lengths[word], octets)
        if size > OCTETS_MAX:
            left_out[left] = word
            left += 1
        elif lanes == 1:
            found[word, 0] = _hash_64(octets, size)
        else:
            found[word, 0], found[word, 1] = _hash_128(octets, size)
    return found, left_out[:left].copy()


@compiled
def _encode(codepoints: npt.NDArray[np.uint32], begin: int, end: int, octets: npt.NDArray[np.uint64]) -> Any:
    """Write characters as UTF-8 to `octets`, little-endian; returns the bytes, or more than OCTETS_MAX."""
    octets[0] = 0
    filled = 0
    for place in range(begin, end):
        code = np.uint64(codepoints[place])
        if code < np.uint64(0x80):
            written, size = code, 1
        elif code < np.uint64(0x800):
            if code == np.uint64(0x2BC):
                written, size = np.uint64(0x27), 1
            else:
                written, size = np.uint64(0x80C0) | code >> np.uint64(6) | (code & np.uint64(0x3F)) << np.uint64(8), 2
        elif code < np.uint64(0x10000):
            if code == np.uint64(0x2019):
                written, size = np.uint64(0x27), 1
            else:
                written = np.uint64(0x8080E0) | code >> np.uint64(12) | (code & np.uint64(0xFC0)) << np.uint64(2)
                written, size = written | (code & np.uint64(0x3F)) << np.uint64(16), 3
        else:
            written = np.uint64(0x808080F0) | code >> np.uint64(18) | (code & np.uint64(0x3F000)) >> np.uint64(4)
            written |= (code & np.uint64(0xFC0)) << np.uint64(10)
            written, size = written | (code & np.uint64(0x3F)) << np.uint64(24), 4
        if filled + size > OCTETS_MAX:
            return OCTETS_MAX + 1
        bit = np.uint64(8 * (filled & 7))
        octets[filled >> 3] |= written << bit
        # Two shifts, because a shift by 64 is undefined. This also clears the next number before its first byte.
        octets[(filled >> 3) + 1] = written >> np.uint64(1) >> (np.uint64(63) - bit)
        filled += size
    return filled


@compiled
def _eight(octets: npt.NDArray[np.uint64], at: int) -> Any:
    bit = np.uint64(8 * (at & 7))
    return octets[at >> 3] >> bit | octets[(at >> 3) + 1] << np.uint64(1) << (np.uint64(63) - bit)


@compiled
def _turned(value: Any, bits: int) -> Any:
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)


@compiled
def _reversed(value: Any) -> Any:
    value = (value & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | value >> np.uint64(8) & np.uint64(
        0x00FF00FF00FF00FF
    )
    value = (value & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | value >> np.uint64(16) & np.uint64(
        0x0000FFFF0000FFFF
    )
    return _turned(value, 32)


@compiled
def _folded(one: Any, other: Any) -> Any:
    """Both halves of the 128-bit product, combined by XOR."""
    return one * other ^ high_product(one, other)


@compiled
def _avalanche_64(value: Any) -> Any:
    value = (value ^ value >> np.uint64(33)) * _PRIME64_2
    value = (value ^ value >> np.uint64(29)) * _PRIME64_3
    return value ^ value >> np.uint64(32)


@compiled
def _avalanche(value: Any) -> Any:
    value = (value ^ value >> np.uint64(37)) * _PRIME_MX1
    return value ^ value >> np.uint64(32)


@compiled
def _sixteen(octets: npt.NDArray[np.uint64], at: int, secret: int) -> Any:
    """Sixteen bytes from byte `at` on, mixed with two numbers of the secret."""
    return _folded(_eight(octets, at) ^ _SECRET[secret], _eight(octets, at + 8) ^ _SECRET[secret + 1])


@compiled
def _three(octets: npt.NDArray[np.uint64], size: int) -> Any:
    """One to three bytes and their count in a number of 32 bits."""
    first, middle = octets[0] & np.uint64(0xFF), octets[0] >> np.uint64(8 * (size >> 1)) & np.uint64(0xFF)
    last = octets[0] >> np.uint64(8 * (size - 1)) & np.uint64(0xFF)
    return first << np.uint64(16) | middle << np.uint64(24) | last | np.uint64(size) << np.uint64(8)


@compiled
def _hash_64(octets: npt.NDArray[np.uint64], size: int) -> Any:
    if size <= 3:
        return _avalanche_64(_three(octets, size) ^ (_SECRET[0] & _LOW) ^ _SECRET[0] >> np.uint64(32))
    length = np.uint64(size)
    if size <= 8:
        joined = (_eight(octets, size - 4) & _LOW) + ((octets[0] & _LOW) << np.uint64(32))
        value = joined ^ _SECRET[1] ^ _SECRET[2]
        value ^= _turned(value, 49) ^ _turned(value, 24)
        value *= _PRIME_MX2
        value = (value ^ (value >> np.uint64(35)) + length) * _PRIME_MX2
        return value ^ value >> np.uint64(28)
    if size <= 16:
        low = octets[0] ^ _SECRET[3] ^ _SECRET[4]
        high = _eight(octets, size - 8) ^ _SECRET[5] ^ _SECRET[6]
        return _avalanche(length + _reversed(low) + high + _folded(low, high))
    total = length * _PRIME64_1
    for pair in range((size - 1) // 32, -1, -1):
        total += _sixteen(octets, 16 * pair, 4 * pair)
        total += _sixteen(octets, size - 16 * (pair + 1), 4 * pair + 2)
    return _avalanche(total)


@compiled
def _hash_128(octets: npt.NDArray[np.uint64], size: int) -> Any:
    """XXH3_128bits of 1 to OCTETS_MAX bytes: the low 64 bits first."""
    length = np.uint64(size)
    if size <= 3:
        low = _three(octets, size)
        high = _reversed(low) >> np.uint64(32)
        high = (high << np.uint64(13) | high >> np.uint64(19)) & _LOW
        low ^= (_SECRET[0] & _LOW) ^ _SECRET[0] >> np.uint64(32)
        high ^= (_SECRET[1] & _LOW) ^ _SECRET[1] >> np.uint64(32)
        return _avalanche_64(low), _avalanche_64(high)
    if size <= 8:
        joined = (octets[0] & _LOW) + ((_eight(octets, size - 4) & _LOW) << np.uint64(32))
        value, factor = joined ^ _SECRET[2] ^ _SECRET[3], _PRIME64_1 + (length << np.uint64(2))
        low, high = value * factor, high_product(value, factor)
        high += low << np.uint64(1)
        low ^= high >> np.uint64(3)
        low = (low ^ low >> np.uint64(35)) * _PRIME_MX2
        return low ^ low >> np.uint64(28), _avalanche(high)
    if size <= 16:
        last = _eight(octets, size - 8)
        value = octets[0] ^ last ^ _SECRET[4] ^ _SECRET[5]
        low, high = value * _PRIME64_1, high_product(value, _PRIME64_1)
        low += np.uint64(size - 1) << np.uint64(54)
        last ^= _SECRET[6] ^ _SECRET[7]
        high += last + (last & _LOW) * (_PRIME32_2 - np.uint64(1))
        low ^= _reversed(high)
        return _avalanche(low * _PRIME64_2), _avalanche(high_product(low, _PRIME64_2) + high * _PRIME64_2)
    low, high = length * _PRIME64_1, np.uint64(0)
    for pair in range((size - 1) // 32, -1, -1):
        front, back = 16 * pair, size - 16 * (pair + 1)
        low += _sixteen(octets, front, 4 * pair)
        low ^= _eight(octets, back) + _eight(octets, back + 8)
        high += _sixteen(octets, back, 4 * pair + 2)
        high ^= _eight(octets, front) + _eight(octets, front + 8)
    return (
        _avalanche(low + high),
        np.uint64(0) - _avalanche(low * _PRIME64_1 + high * _PRIME64_4 + length * _PRIME64_2),
    )
