"""The log: decided batches in order, one value each. It holds all data on documents."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import Entries, naming_originals
from index.kernels import log_rows
from index.kernels.scan import address_of
from index.matching.frame import without_frames
from index.matching.host_sketch import host_keys
from index.storage import codec
from index.storage.layout import LOG_KEY, Filing, Table, unpack_text
from index.storage.store import Transaction

_LAST = 2**64 - 1

_TEXTS_MANY = 32
"""From this number on, ASCII texts are decoded as a whole and then cut."""

_KNOWN = "batches of the log"
"""Key in `Transaction.kept`."""


def key_of(number: int, rows: int) -> bytes:
    """A batch's key: next document number and journal rows, both as before the batch."""
    return LOG_KEY.pack(number, rows)


def rows_before(key: bytes) -> int:
    """Journal rows before a batch's, by its key."""
    rows: int = LOG_KEY.unpack(key)[1]
    return rows


def host_digests(entries: Entries) -> npt.NDArray[np.uint32]:
    """Digest of each row's host, uint32 [n]; 0 without a host."""
    if entries.host_digests is not None:
        return entries.host_digests
    return host_keys(entries.hosts or [None] * len(entries)).astype(np.uint32)


NO_RATIOS = np.zeros((), np.uint16)
"""Unknown ratios, for any number of rows."""


class Origin(NamedTuple):
    """A duplicate's original, as the duplicate's batch names it; `stream` is the stream's number in the index.

    >>> origins = {7: Origin("a", stream=1, partition=3, offset=17)}
    >>> origins[7][1:]
    (1, 3, 17)
    """

    id: str
    stream: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Batch:
    """A log batch. Valid until its transaction writes; `copied` makes one that stays valid.

    first_number  document number of the first row that entered
    value         its bytes
    words         64-bit words per fingerprint

    >>> rows = np.zeros(3, codec.LOG_ROW)
    >>> rows["filing"] = Filing.BLOCKS, Filing.NOTHING, Filing.BLOCKS
    >>> parts = np.zeros(1, codec.LOG_SOURCE), rows, np.zeros((2, 1), np.uint64), ["a", "b", "c"]
    >>> value = codec.pack_batch(*parts, np.zeros(0, codec.LOG_ORIGINAL), [])
    >>> Batch(key_of(10, 0), first_number=10, value=memoryview(value), words=1).entered()
    array([0, 2])
    """

    key: bytes
    first_number: int
    value: memoryview
    words: int

    @cached_property
    def lines(self) -> codec.Lines:
        """All parts."""
        return codec.unpack_batch(self.value)

    @cached_property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """uint64 [entered, words]."""
        stored = self.lines.fingerprints
        return stored if stored.shape[1] == self.words else without_frames(stored, self.words)

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """Structured LOG_ROW [n]."""
        return self.lines.rows

    @property
    def sources(self) -> npt.NDArray[np.void]:
        """Structured LOG_SOURCE [s]."""
        return self.lines.sources

    @property
    def end_number(self) -> int:
        """One above the last document number."""
        return self.first_number + codec.row_counts(self.value)[1]

    def entered(self) -> npt.NDArray[np.int64]:
        """Rows that entered, int64 [entered], ascending; the i-th has the number first_number + i."""
        return np.flatnonzero(self.rows["filing"])

    def numbers(self) -> npt.NDArray[np.uint64]:
        """Document numbers, uint64 [entered]."""
        return np.arange(self.first_number, self.end_number, dtype=np.uint64)

    def filed(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Fingerprints uint64 [n, words] and numbers uint64 [n], for the rows filed by blocks."""
        by_blocks = self.rows["filing"][self.entered()] == Filing.BLOCKS
        return self.fingerprints[by_blocks].astype(np.uint64), self.numbers()[by_blocks]

    def ids(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Ids for rows, int64 [m]."""
        return _texts(self.lines.ids, self.rows["id_end"], rows)

    def origins(self, rows: npt.NDArray[np.int64]) -> list[Origin]:
        """Originals that rows, int64 [m], name; every row must name one."""
        places = self._places_of_originals(rows)
        originals = self.lines.originals[places]
        ids = _texts(self.lines.original_ids, self.lines.originals["id_end"], places)
        columns = (originals["stream"].tolist(), originals["partition"].tolist(), originals["offset"].tolist())
        return [Origin(*origin) for origin in zip(ids, *columns, strict=True)]

    def ratios(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
        """Ratios, as in `Decisions`, for rows int64 [m]; every row must name an original."""
        ratios: npt.NDArray[np.uint16] = self.lines.originals["ratio"][self._places_of_originals(rows)]
        return ratios

    def _places_of_originals(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(np.flatnonzero(naming_originals(self.rows["verdict"])), rows)


def write(
    transaction: Transaction,
    key: bytes,
    entries: Entries,
    sources: npt.NDArray[np.void],
    columns: dict[str, npt.NDArray[np.generic]],
    origins: Sequence[Origin],
    ratios: npt.NDArray[np.uint16] = NO_RATIOS,
) -> None:
    """Append decided rows as a batch.

    sources  LOG_SOURCE [s], `entries.sources` by the index's numbers
    columns  number, distance, verdict, filing, returns and strangers for every row, as in `layout`; a missing column is zero
    origins  originals for the duplicate rows, in order
    ratios   uint16 [n], or one for all rows
    """
    rows = np.zeros(len(entries), codec.LOG_ROW)
    rows["offset"], rows["time_ms"], rows["source"] = entries.offsets, entries.times_ms, entries.source_numbers
    rows["reason"], rows["kind"] = entries.reasons, entries.kinds
    if entries.digests is not None:
        rows["text"], rows["substance"] = entries.digests.T
    rows["host"], rows["length"] = host_digests(entries), codec.pack_lengths(entries.letters)
    for name, column in columns.items():
        rows[name] = column
    entered = rows["filing"] != Filing.NOTHING
    originals = np.zeros(len(origins), codec.LOG_ORIGINAL)
    originals["ratio"] = np.broadcast_to(ratios, len(rows))[naming_originals(rows["verdict"])]
    original_ids: Sequence[str] = ()
    if origins:
        original_ids, originals["stream"], originals["partition"], originals["offset"] = zip(*origins, strict=True)
    looks = None if entries.looks is None else entries.looks[entered]
    value = codec.pack_batch(sources, rows, entries.fingerprints[entered], entries.ids, originals, original_ids, looks)
    transaction.put(Table.LOG, key, value)


def read(transaction: Transaction, key: bytes, words: int) -> Batch:
    """The batch of a key that the journal names. Raises IndexDamagedError if it is missing."""
    return _batch(key, transaction.existing(Table.LOG, key), words)


def values_of(transaction: Transaction, keys: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """Addresses of batches' values, and how many rows they have: uint64 [2, n]; both 0 if one is missing."""
    values = [transaction.view(Table.LOG, key) for key in keys]
    pairs = [(0, 0) if value is None else (address_of(value), codec.row_counts(value)[0]) for value in values]
    return np.array(pairs, np.uint64).reshape(-1, 2).T


def rows_at(
    values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Rows LOG_ROW [n] of batches, by address and place, and their sources LOG_SOURCE [n]. Copies: they stay valid."""
    rows, sources = log_rows.rows(values, at)
    return rows.astype("<u8", copy=False).view(_ROW_IN_WORDS)[:, 0], sources.astype("<u8", copy=False).view(
        codec.LOG_SOURCE
    )


def ids_at(values: npt.NDArray[np.uint64], at: npt.NDArray[np.int64]) -> list[str]:
    """Ids of rows, as `rows_at`."""
    octets, ends = log_rows.ids(values, at)
    return _texts(octets.data, ends, np.arange(len(ends)))


def copied(transaction: Transaction, key: bytes, words: int) -> Batch:
    """As `read`, but the batch stays valid when its transaction writes."""
    return _batch(key, memoryview(bytes(transaction.existing(Table.LOG, key))), words)


def walk(transaction: Transaction, words: int, begin: bytes = b"") -> Iterator[Batch]:
    """Batches from this key on, ascending."""
    for key, value in transaction.walk(Table.LOG, begin):
        yield _batch(key, value, words)


def backwards(transaction: Transaction, words: int) -> Iterator[Batch]:
    """All batches, the last one first."""
    below = transaction.floor(Table.LOG, LOG_KEY.pack(_LAST, _LAST))
    while below is not None:
        yield _batch(*below, words)
        before = int.from_bytes(below[0], "big") - 1
        below = None if before < 0 else transaction.floor(Table.LOG, before.to_bytes(LOG_KEY.size, "big"))


def since(transaction: Transaction, number: int, words: int) -> Iterator[Batch]:
    """Batches with documents from `number` on, ascending; the first batch may begin with earlier documents."""
    below = transaction.floor(Table.LOG, LOG_KEY.pack(number, _LAST))
    yield from walk(transaction, words, b"" if below is None else below[0])


def holding(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[Batch, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Batches that hold documents with these numbers, uint64 [n], ascending and distinct.

    Yields a batch, its documents' places int64 [m] among those that entered, and their numbers' places int64 [m] in
    `numbers`. Omits numbers never given, and numbers whose batch has left the log.
    """
    for batch, begin, end in _batches(transaction, numbers, words):
        yield batch, (numbers[begin:end] - np.uint64(batch.first_number)).astype(np.int64), np.arange(begin, end)


class _Known(NamedTuple):
    """Batches with known places in memory, until their transaction writes.

    firsts, ends  uint64 [b] each, ascending: first document number, and one above the last
    values        uint64 [b], value addresses
    """

    firsts: npt.NDArray[np.uint64]
    ends: npt.NDArray[np.uint64]
    values: npt.NDArray[np.uint64]


_NONE_KNOWN = _Known(*np.empty((3, 0), np.uint64))


_ROW_IN_WORDS = np.dtype([*codec.LOG_ROW.descr, ("after", f"V{8 * log_rows.ROW_WORDS - codec.LOG_ROW.itemsize}")])


class Documents:
    """Columns of n documents by number: zeros, and ids "", for those outside the log. Valid until their transaction writes.

    there  bool [n], whether each is in the log

    >>> opened.store.read(lambda transaction: documents(transaction, np.array([7], np.uint64), 1).there)
    array([False])
    """

    def __init__(self, transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> None:
        """Use `documents`."""
        # Many numbers may name few documents: each is read once.
        self._in_order = bool((numbers[1:] > numbers[:-1]).all())
        self._numbers, self._inverse = numbers, np.arange(len(numbers))
        if not self._in_order:
            self._numbers, self._inverse = np.unique(numbers, return_inverse=True)
        self._transaction, self._words = transaction, words
        known = _known(transaction, self._numbers, words)
        batches = log_rows.batches_of(self._numbers, known.firsts, known.ends)
        self._there = batches >= 0
        batches = batches[self._there]
        self._values, self._firsts = known.values[batches], known.firsts[batches]
        self._entered_places = (self._numbers[self._there] - self._firsts).astype(np.int64)
        self.there: npt.NDArray[np.bool_] = self._there[self._inverse]

    def _spread(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of the distinct documents in the log, for all n."""
        if not len(column):
            return np.zeros((len(self._inverse), *column.shape[1:]), column.dtype)
        if len(column) == len(self._numbers):
            return column if len(column) == len(self._inverse) and self._in_order else column[self._inverse]
        wide = np.zeros((len(self._numbers), *column.shape[1:]), column.dtype)
        wide[self._there] = column
        return wide[self._inverse]

    @cached_property
    def _at(self) -> npt.NDArray[np.int64]:
        return log_rows.places(self._values, self._firsts, self._entered_places)

    @cached_property
    def _rows(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        return rows_at(self._values, self._at)

    @cached_property
    def rows(self) -> npt.NDArray[np.void]:
        """Each document's row, LOG_ROW [n]. A copy: it stays valid."""
        return self._spread(self._rows[0])

    @property
    def sources(self) -> npt.NDArray[np.void]:
        """Each document's source, LOG_SOURCE [n]. A copy: it stays valid."""
        return self._spread(self._rows[1])

    @property
    def lengths(self) -> npt.NDArray[np.uint32]:
        """Each document's length, uint32 [n]; 0 if unknown."""
        return codec.unpack_lengths(self.rows["length"])

    @cached_property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """uint64 [n, words]."""
        return self._spread(log_rows.fingerprints(self._values, self._entered_places, self._words))

    def looks(self, look_bytes: int) -> npt.NDArray[np.uint8]:
        """uint8 [n, look_bytes]. Reads nothing if looks have no bytes."""
        looks = np.zeros((len(self._numbers), look_bytes), np.uint8)
        for batch, documents, places in holding(self._transaction, self._numbers, self._words) if look_bytes else ():
            looks[places] = batch.lines.looks[documents]
        return looks[self._inverse]

    @property
    def ids(self) -> list[str]:
        """Each document's id."""
        places, texts = np.cumsum(self._there) - 1, [*ids_at(self._values, self._at), ""]
        places[~self._there] = -1
        return [texts[place] for place in places[self._inverse].tolist()]


def documents(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> Documents:
    """Documents with these numbers, uint64 [n], in any order: a few columns of many batches."""
    return Documents(transaction, numbers, words)


def _known(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> _Known:
    """The places of all batches that are known to hold documents, uint64 [n] ascending and distinct among them."""
    known: _Known = transaction.kept.get(_KNOWN, _NONE_KNOWN)
    unknown = numbers[log_rows.batches_of(numbers, known.firsts, known.ends) < 0]
    if len(unknown):
        read = [
            (batch.first_number, batch.end_number, int(address_of(batch.value)))
            for batch, _, _ in _batches(transaction, unknown, words)
        ]
        both = np.concatenate([np.array(known), np.array(read, np.uint64).reshape(-1, 3).T], axis=1)
        known = transaction.kept[_KNOWN] = _Known(*both[:, np.argsort(both[0])])
    return known


def sources_of(streams: npt.NDArray[np.uint32], partitions: npt.NDArray[np.uint32]) -> npt.NDArray[np.void]:
    """A batch's sources, by the index's numbers: uint32 [s] each -> LOG_SOURCE [s]."""
    sources = np.empty(len(streams), codec.LOG_SOURCE)
    sources["stream"], sources["partition"] = streams, partitions
    return sources


def _batch(key: bytes, value: memoryview, words: int) -> Batch:
    return Batch(key, LOG_KEY.unpack(key)[0], value, words)


def _batches(transaction: Transaction, numbers: npt.NDArray[np.uint64], words: int) -> Iterator[tuple[Batch, int, int]]:
    """Batches that hold documents, uint64 [n], ascending, with the begin and end of their numbers in `numbers`."""
    wanted, at = numbers.tolist(), 0
    while at < len(wanted):
        # Only the last batch with this first number can have entered documents.
        key = LOG_KEY.pack(wanted[at], _LAST)
        below = transaction.floor(Table.LOG, key)
        batch = None if below is None else _batch(*below, words)
        if batch is not None and batch.end_number > wanted[at]:
            begin, at = at, bisect_left(wanted, batch.end_number, at)
            yield batch, begin, at
            continue
        # The log has a gap here: go on at the first document of the next batch.
        above = transaction.key_above(Table.LOG, key)
        at = len(wanted) if above is None else max(at + 1, bisect_left(wanted, LOG_KEY.unpack(above)[0], at))


def _texts(
    joined: memoryview, ends: npt.NDArray[np.uint32] | npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> list[str]:
    begins = np.where(places > 0, ends[places - 1], 0).tolist()
    if len(begins) >= _TEXTS_MANY and (whole := bytes(joined)).isascii():
        text = whole.decode("ascii")
        return [text[begin:end] for begin, end in zip(begins, ends[places].tolist(), strict=True)]
    return [unpack_text(bytes(joined[begin:end])) for begin, end in zip(begins, ends[places].tolist(), strict=True)]
