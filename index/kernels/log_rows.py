"""Log batches as `index.storage.codec.Lines` packs them.

A batch is the address of its value. A checksum follows each value, so reading a word at its last byte is safe. A
document is named by its place among the batch's rows that entered.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, word_at

_HEADER_BYTES = 24
_WORDS_AT = 20
_SOURCE_BYTES = 8
_ROW_BYTES = 63
_ORIGINAL_BYTES = 22
_NUMBER_AT = 8
_SOURCE_AT = 24
_ID_END_AT = 28
_VERDICT_AT = 34
_FILING_AT = 37
_UNIQUE = 0

ROW_WORDS = 8
"""Words that hold a row. They end inside the value's checksum at the latest."""

_READ_AT_ONCE = 8
"""Rows between two known ones that are read one by one."""


@compiled
def _number(address: Any) -> Any:
    """Little-endian number of 4 bytes at an address: int64."""
    return np.int64(word_at(address) & np.uint64(0xFFFF_FFFF))


@compiled
def _stored_words(value: Any) -> Any:
    """Words of each fingerprint in a batch: int64."""
    return _number(value + np.uint64(_WORDS_AT))


@compiled
def _row(value: Any, row: Any) -> Any:
    return value + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * _number(value + np.uint64(4)) + _ROW_BYTES * row)


@compiled
def batches_of(
    numbers: npt.NDArray[np.uint64], firsts: npt.NDArray[np.uint64], ends: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Each document's batch, int64 [n], or -1.

    numbers       uint64 [n], ascending document numbers
    firsts, ends  uint64 [b] each, ascending: first number and exclusive end of each batch
    """
    batches, behind, step = np.empty(len(numbers), np.int64), 0, 0
    for document in range(len(numbers)):
        # Batches before `behind` begin at or before the number. The next such batch is usually close.
        step = 1
        while behind + step <= len(firsts) and firsts[behind + step - 1] <= numbers[document]:
            behind, step = behind + step, step * 2
        high = min(behind + step - 1, len(firsts))
        while behind < high:
            middle = (behind + high) >> 1
            if firsts[middle] <= numbers[document]:
                behind = middle + 1
            else:
                high = middle
        batches[document] = behind - 1 if behind and numbers[document] < ends[behind - 1] else -1
    return batches


@compiled
def _entered(address: Any) -> Any:
    return word_at(address + np.uint64(_FILING_AT)) & np.uint64(0xFF) != np.uint64(0)


@compiled
def _anchor(value: Any, row: Any, first: Any, count: Any) -> Any:
    """Position of a UNIQUE row among the entered rows, by its own number, or -1."""
    address = _row(value, row)
    place = np.int64(word_at(address + np.uint64(_NUMBER_AT)) - first)
    unique = word_at(address + np.uint64(_VERDICT_AT)) & np.uint64(0xFF) == np.uint64(_UNIQUE)
    return place if unique and _entered(address) and 0 <= place < count else np.int64(-1)


@compiled
def places(
    values: npt.NDArray[np.uint64], firsts: npt.NDArray[np.uint64], documents: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Documents' places among all rows in their batches, int64 [n].

    values     uint64 [n], each document's batch
    firsts     uint64 [n], that batch's first number
    documents  int64 [n], place among the entered rows
    """
    rows_of = np.empty(len(documents), np.int64)
    for document in range(len(documents)):
        value, wanted = values[document], documents[document]
        rows, count = _number(value), _number(value + np.uint64(8))
        # Rows before `low` hold `passed` documents. The wanted row is at most `high`; the guess assumes an even spread.
        low, passed, high = np.int64(0), np.int64(0), wanted + rows - count
        # 8 rows, 4 documents, the third wanted: the first guess is row 4. If row 4 is the second, the next guess is row 6.
        guess = wanted * rows // count
        while high - low > max(wanted - passed, np.int64(_READ_AT_ONCE)):
            row = min(max(guess, low), high)
            place = _anchor(value, row, firsts[document], count)
            while place < 0 and row > low:
                row -= 1
                place = _anchor(value, row, firsts[document], count)
            if place < 0:
                break
            guess = row + (wanted - place) * rows // count
            if place < wanted:
                low, passed = row + 1, place + 1
            elif place > wanted:
                high = row - (place - wanted)
            else:
                low, passed, high = row, place, row
        # If as many rows as documents remain, all of them entered.
        while high - low > wanted - passed:
            passed += np.int64(_entered(_row(value, low)))
            if passed > wanted:
                high = low
                break
            low += 1
        rows_of[document] = high
    return rows_of


@compiled
def rows(
    values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The bytes of the rows at `places` and a few more, uint64 [n, ROW_WORDS], and their sources, one word each."""
    packed, sources = np.empty((len(at), ROW_WORDS), np.uint64), np.empty(len(at), np.uint64)
    for document in range(len(at)):
        address = _row(values[document], at[document])
        for word in range(ROW_WORDS):
            packed[document, word] = word_at(address + np.uint64(8 * word))
        source = _number(address + np.uint64(_SOURCE_AT))
        sources[document] = word_at(values[document] + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * source))
    return packed, sources


@compiled
def fingerprints(
    values: npt.NDArray[np.uint64], documents: npt.NDArray[np.int64], words: int
) -> npt.NDArray[np.uint64]:
    """Documents' fingerprints, uint64 [n, words]; otherwise as `places`."""
    prints = np.empty((len(documents), words), np.uint64)
    for document in range(len(documents)):
        first, stored = _row(values[document], _number(values[document])), _stored_words(values[document])
        for word in range(stored):
            prints[document, word] = word_at(first + np.uint64(8 * (documents[document] * stored + word)))
        for word in range(stored, words):
            prints[document, word] = 0
    return prints


@compiled
def ids(
    values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Concatenated ids for the rows at `places`, uint8 [m], and each one's end, int64 [n]."""
    begins, id_ends, size = np.empty(len(at), np.uint64), np.empty(len(at), np.int64), np.int64(0)
    for document in range(len(at)):
        value, row, first = values[document], at[document], np.int64(0)
        entered_bytes = _number(value + np.uint64(8)) * (8 * _stored_words(value) + _number(value + np.uint64(16)))
        texts = _row(value, _number(value)) + np.uint64(entered_bytes)
        texts += np.uint64(_ORIGINAL_BYTES * _number(value + np.uint64(12)))
        if row:
            first = _number(_row(value, row - 1) + np.uint64(_ID_END_AT))
        begins[document] = texts + np.uint64(first)
        size += _number(_row(value, row) + np.uint64(_ID_END_AT)) - first
        id_ends[document] = size
    octets, written = np.empty(size, np.uint8), np.int64(0)
    for document in range(len(at)):
        address = begins[document] - np.uint64(written)
        for octet in range(written, id_ends[document]):
            octets[octet] = word_at(address + np.uint64(octet)) & np.uint64(0xFF)
        written = id_ends[document]
    return octets, id_ends
