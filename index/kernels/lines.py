"""Compiled loops over batches of the log, as `index.storage.codec.Lines` draws them. See `index.kernels`.

A batch is named by the address of its value, which its checksum follows: so a word may be read at its last byte. A document is
named by its place among the rows of its batch that entered.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, word_at

_HEADER_BYTES = 24
_WORDS_AT = 20
_SOURCE_BYTES = 8
_ROW_BYTES = 59
_ORIGINAL_BYTES = 20
_NUMBER_AT = 8
_SOURCE_AT = 24
_ID_END_AT = 28
_VERDICT_AT = 34
_FILING_AT = 37
_UNIQUE = 0

_READ_AT_ONCE = 8
"""Rows between two known ones that are read one by one."""


@compiled
def _number(address: Any) -> Any:
    """The little-endian number of 4 bytes at an address: int64."""
    return np.int64(word_at(address) & np.uint64(0xFFFF_FFFF))


@compiled
def _stored_words(value: Any) -> Any:
    """Words of each fingerprint in a batch: int64."""
    return _number(value + np.uint64(_WORDS_AT))


@compiled
def _row(value: Any, row: Any) -> Any:
    """The address of a row: uint64."""
    return value + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * _number(value + np.uint64(4)) + _ROW_BYTES * row)


@compiled
def batches_of(
    numbers: npt.NDArray[np.uint64], firsts: npt.NDArray[np.uint64], ends: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Which batch holds each document, int64 [n]; -1: none.

    numbers       uint64 [n], ascending document numbers
    firsts, ends  uint64 [b] twice, ascending: the first number of each batch, and the one behind its last
    """
    found, behind, step = np.empty(len(numbers), np.int64), 0, 0
    for document in range(len(numbers)):
        # The batches before `behind` begin at or before the number. The next such number is seldom far.
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
        found[document] = behind - 1 if behind and numbers[document] < ends[behind - 1] else -1
    return found


@compiled
def _entered(address: Any) -> Any:
    """Whether the row at an address entered."""
    return word_at(address + np.uint64(_FILING_AT)) & np.uint64(0xFF) != np.uint64(0)


@compiled
def _anchor(value: Any, row: Any, first: Any, count: Any) -> Any:
    """The place of a UNIQUE row among those that entered: its own number tells it. -1 where the row is no such row."""
    address = _row(value, row)
    place = np.int64(word_at(address + np.uint64(_NUMBER_AT)) - first)
    unique = word_at(address + np.uint64(_VERDICT_AT)) & np.uint64(0xFF) == np.uint64(_UNIQUE)
    return place if unique and _entered(address) and 0 <= place < count else np.int64(-1)


@compiled
def places(
    values: npt.NDArray[np.uint64], firsts: npt.NDArray[np.uint64], documents: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Places of documents among all rows of their batches, int64 [n].

    values     uint64 [n], the batch of each
    firsts     uint64 [n], the first number of that batch
    documents  int64 [n], which of those that entered with the batch
    """
    found = np.empty(len(documents), np.int64)
    for document in range(len(documents)):
        value, wanted = values[document], documents[document]
        rows, count = _number(value), _number(value + np.uint64(8))
        # Rows before `low` hold `passed` documents. The row wanted is not above `high`; it is about as far as all are apart.
        low, passed, high = np.int64(0), np.int64(0), wanted + rows - count
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
        # As many as are left to pass: all of them entered.
        while high - low > wanted - passed:
            passed += np.int64(_entered(_row(value, low)))
            if passed > wanted:
                high = low
                break
            low += 1
        found[document] = high
    return found


@compiled
def columns(
    values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Of the rows at `places`: offsets, numbers, verdicts, and sources, each of these a word: uint64 [n], but verdicts uint8."""
    offsets, numbers = np.empty(len(at), np.uint64), np.empty(len(at), np.uint64)
    verdicts, sources = np.empty(len(at), np.uint8), np.empty(len(at), np.uint64)
    for document in range(len(at)):
        address = _row(values[document], at[document])
        offsets[document] = word_at(address)
        numbers[document] = word_at(address + np.uint64(_NUMBER_AT))
        verdicts[document] = word_at(address + np.uint64(_VERDICT_AT)) & np.uint64(0xFF)
        source = _number(address + np.uint64(_SOURCE_AT))
        sources[document] = word_at(values[document] + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * source))
    return offsets, numbers, verdicts, sources


@compiled
def fingerprints(
    values: npt.NDArray[np.uint64], documents: npt.NDArray[np.int64], words: int
) -> npt.NDArray[np.uint64]:
    """Fingerprints of documents, uint64 [n, words]; the rest as for `places`."""
    found = np.empty((len(documents), words), np.uint64)
    for document in range(len(documents)):
        first, stored = _row(values[document], _number(values[document])), _stored_words(values[document])
        for word in range(stored):
            found[document, word] = word_at(first + np.uint64(8 * (documents[document] * stored + word)))
        for word in range(stored, words):
            found[document, word] = 0
    return found


@compiled
def ids(
    values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Ids of the rows at `places`, one behind the other, uint8 [m], and the end of each, int64 [n]."""
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
