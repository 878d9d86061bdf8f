"""All that stands in the tables, read from one end to the other: what verifying, exporting and looking up by id share.

These few functions and `forgetting.remove` are all that the tools know of how the tables are laid out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from index import documents
from index.blocks import Buckets, bucket_count
from index.documents import Document
from index.layout import (
    COUNTERS_KEY,
    JOURNAL_KEY,
    JOURNAL_ROW,
    NUMBER_KEY,
    SOURCE_KEY,
    Counters,
    Table,
    bucket_value_bytes,
    pack_bucket_keys,
    pack_numbers,
    unpack_applied,
    unpack_buckets,
    unpack_counters,
    unpack_documents,
    unpack_numbers,
    unpack_stream,
)
from index.matching import CANDIDATES_MAX
from index.store import Transaction

PORTION_ROWS = 8_192
"""Documents read at once."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Some consecutive documents, row i of each column belonging together.

    numbers  uint64 [n], ascending
    columns  structured [n]: root, offset, time_ms, stream, partition, kind, fingerprint (uint64 [words])
    ids      n document ids
    """

    numbers: npt.NDArray[np.uint64]
    columns: npt.NDArray[np.void]
    ids: list[str]


def counters(transaction: Transaction) -> Counters:
    """What is counted up and never down."""
    return unpack_counters(transaction.get(Table.META, COUNTERS_KEY))


def portion(transaction: Transaction, words: int, first: int) -> Stored | None:
    """The next PORTION_ROWS documents from number `first` on; None behind the last."""
    (key,) = pack_numbers(np.array([first], np.uint64))
    pairs = list(islice(transaction.walk_from(Table.DOCUMENTS, key), PORTION_ROWS))
    if not pairs:
        return None
    columns, ids = unpack_documents([value for _, value in pairs], words)
    return Stored(unpack_numbers([key for key, _ in pairs]), columns, ids)


def stored(transaction: Transaction, words: int) -> Iterator[Stored]:
    """All documents, ascending by number."""
    first = 0
    while (found := portion(transaction, words, first)) is not None:
        yield found
        first = int(found.numbers[-1]) + 1


def as_documents(transaction: Transaction, words: int, numbers: npt.NDArray[np.uint64]) -> list[Document]:
    """The documents that have these numbers, in the order asked. All must exist."""
    found = documents.read(transaction, numbers, words)
    return [found[number] for number in numbers.tolist()]


def forgotten(transaction: Transaction) -> npt.NDArray[np.uint64]:
    """The numbers of the forgotten documents, ascending."""
    return unpack_numbers([key for key, _ in transaction.walk(Table.FORGOTTEN)])


def filed(transaction: Transaction, words: int) -> Iterator[Buckets]:
    """What stands in the block tables, ascending by key; every bucket whole."""
    keys_in_all = bucket_count(words)
    keys_at_once = max(1, CANDIDATES_MAX // (1 + transaction.count(Table.BUCKETS) // keys_in_all))
    for begin in range(0, keys_in_all, keys_at_once):
        keys = np.arange(begin, min(begin + keys_at_once, keys_in_all), dtype=np.uint32)
        rows = transaction.get_all_values(Table.BUCKETS, pack_bucket_keys(keys), bucket_value_bytes(words))
        yield unpack_buckets(rows, words)


def filed_count(transaction: Transaction) -> int:
    """How many places there are in the block tables, whatever keys they stand under."""
    return transaction.count(Table.BUCKETS)


def exact(transaction: Transaction, words: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Fingerprints uint64 [n, words] and numbers uint64 [n] of the table of EXACT entries, ascending by its keys."""
    pairs = list(transaction.walk(Table.EXACT))
    fingerprints = np.frombuffer(b"".join(key for key, _ in pairs), "<u8").astype(np.uint64).reshape(-1, words)
    return fingerprints, unpack_numbers([value for _, value in pairs])


def journals(transaction: Transaction) -> Iterator[tuple[int, int, int, npt.NDArray[np.void]]]:
    """The journal's values: stream number, partition, the first offset that the key names, and rows JOURNAL_ROW [n]."""
    for key, value in transaction.walk(Table.JOURNAL):
        stream, partition, first = JOURNAL_KEY.unpack(key)
        yield stream, partition, first, np.frombuffer(value, JOURNAL_ROW)


def journal_of(transaction: Transaction, stream: int, partition: int) -> Iterator[npt.NDArray[np.void]]:
    """The rows JOURNAL_ROW of one source, value by value, ascending by offset."""
    source = SOURCE_KEY.pack(stream, partition)
    for key, value in transaction.walk_from(Table.JOURNAL, source):
        if not key.startswith(source):
            return
        yield np.frombuffer(value, JOURNAL_ROW)


def journaled_sources(transaction: Transaction) -> list[tuple[int, int]]:
    """Stream number and partition of every source that has a row in the journal."""
    found: list[tuple[int, int]] = []
    key = transaction.key_above(Table.JOURNAL, b"\0")
    while key is not None:
        stream, partition, _ = JOURNAL_KEY.unpack(key)
        found.append((stream, partition))
        key = transaction.key_above(Table.JOURNAL, JOURNAL_KEY.pack(stream, partition, 2**64 - 1))
    return found


def numbered_streams(transaction: Transaction) -> dict[int, tuple[str, str]]:
    """Stream and name by the stream's number, ascending."""
    return {NUMBER_KEY.unpack(key)[0]: unpack_stream(value) for key, value in transaction.walk(Table.STREAMS)}


def applied_offsets(transaction: Transaction) -> dict[tuple[int, int], int]:
    """The applied offset by stream number and partition, for every source that has one."""
    found = {}
    for key, value in transaction.walk(Table.APPLIED):
        stream, partition = SOURCE_KEY.unpack(key)
        found[stream, partition] = unpack_applied(value)[0]
    return found
