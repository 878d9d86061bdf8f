"""Compiled loops over batches of the log, as `index.storage.codec.Lines` draws them. See `index.kernels`.

A batch is named by the address of its value, which its seal follows: so a word may be read at its last byte. A document is
named by its place among the rows of its batch that entered.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, word_at

_HEADER_BYTES = 20
_SOURCE_BYTES = 8
_ROW_BYTES = 38
_ORIGINAL_BYTES = 20
_ID_END_AT = 28
_SOURCE_AT = 24
_FILING_AT = 37


@compiled
def _number(address: Any) -> Any:
    """The little-endian number of 4 bytes at an address: int64."""
    return np.int64(word_at(address) & np.uint64(0xFFFF_FFFF))


@compiled
def _row(value: Any, row: Any) -> Any:
    """The address of a row: uint64."""
    return value + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * _number(value + np.uint64(4)) + _ROW_BYTES * row)


@compiled
def places(
    values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], documents: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Places of documents among all rows of their batches, int64 [n].

    values     uint64 [b], the batches
    ends       int64 [b], behind the last document of each batch
    documents  int64 [n], ascending within each batch
    """
    found, begin = np.empty(len(documents), np.int64), 0
    for batch in range(len(values)):
        count, row, passed = _number(values[batch]), np.int64(0), np.int64(0)
        address = _row(values[batch], 0) + np.uint64(_FILING_AT)
        for document in range(begin, ends[batch]):
            while row < count and passed <= documents[document]:
                passed += np.int64(word_at(address) & np.uint64(0xFF) != np.uint64(0))
                address += np.uint64(_ROW_BYTES)
                row += 1
            found[document] = row - 1
        begin = ends[batch]
    return found


@compiled
def rows(
    values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Rows at `places`: their bytes, uint8 [n, bytes of a row], and their sources, the word that each is: uint64 [n]."""
    found, sources, begin = np.empty((len(at), _ROW_BYTES), np.uint8), np.empty(len(at), np.uint64), 0
    for batch in range(len(values)):
        for document in range(begin, ends[batch]):
            address = _row(values[batch], at[document])
            for octet in range(_ROW_BYTES):
                found[document, octet] = word_at(address + np.uint64(octet)) & np.uint64(0xFF)
            source = _number(address + np.uint64(_SOURCE_AT))
            sources[document] = word_at(values[batch] + np.uint64(_HEADER_BYTES + _SOURCE_BYTES * source))
        begin = ends[batch]
    return found, sources


@compiled
def fingerprints(
    values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], documents: npt.NDArray[np.int64], words: int
) -> npt.NDArray[np.uint64]:
    """Fingerprints of documents, uint64 [n, words]; the rest as for `places`, in any order."""
    found, begin = np.empty((len(documents), words), np.uint64), 0
    for batch in range(len(values)):
        first = _row(values[batch], _number(values[batch]))
        for document in range(begin, ends[batch]):
            for word in range(words):
                found[document, word] = word_at(first + np.uint64(8 * (documents[document] * words + word)))
        begin = ends[batch]
    return found


@compiled
def ids(
    values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], at: npt.NDArray[np.int64], words: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Ids of the rows at `places`, one behind the other, uint8 [m], and the end of each, int64 [n]."""
    begins, id_ends, begin, size = np.empty(len(at), np.uint64), np.empty(len(at), np.int64), 0, np.int64(0)
    for batch in range(len(values)):
        value = values[batch]
        entered_bytes = _number(value + np.uint64(8)) * (8 * words + _number(value + np.uint64(16)))
        texts = _row(value, _number(value)) + np.uint64(entered_bytes)
        texts += np.uint64(_ORIGINAL_BYTES * _number(value + np.uint64(12)))
        for document in range(begin, ends[batch]):
            row, first = at[document], np.int64(0)
            if row:
                first = _number(_row(value, row - 1) + np.uint64(_ID_END_AT))
            begins[document] = texts + np.uint64(first)
            size += _number(_row(value, row) + np.uint64(_ID_END_AT)) - first
            id_ends[document] = size
        begin = ends[batch]
    octets, written = np.empty(size, np.uint8), np.int64(0)
    for document in range(len(at)):
        address = begins[document] - np.uint64(written)
        for octet in range(written, id_ends[document]):
            octets[octet] = word_at(address + np.uint64(octet)) & np.uint64(0xFF)
        written = id_ends[document]
    return octets, id_ends
