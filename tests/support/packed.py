"""What stands in the segments of an index, read plainly; and that they are sound."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from index.index import Index, internals_of
from index.matching.minhash import HASH_BITS, band_keys
from index.storage import log
from index.storage.codec import Tombstones, unpack_tombstones
from index.storage.documents import Document
from index.storage.layout import COMPACTION_KEY, TOMBSTONE_KEY, Table
from index.storage.parameters import Parameters
from index.storage.segments.compaction_state import HASH_KEY, CompactionState, Level, unpack_compaction
from index.storage.segments.hash_codec import HashKey, unpack_hash_segment
from index.storage.store import Transaction
from tests.support.brute_force_index import Known

Columns = tuple[int, ...]


class Packed(NamedTuple):
    """For every table its entries in order."""

    compaction: CompactionState
    tables: list[list[Columns]]
    segment_sizes: list[int]


def read(transaction: Transaction, parameters: Parameters) -> Packed:
    """Read what stands in either level, which have no entry in common.

    Fails unless every level is ascending without equals, every entry within its segment's bounds.
    """
    levels: dict[tuple[int, int], list[Columns]] = {}
    sizes = []
    for key, value in transaction.walk(Table.SEGMENTS):
        own = HashKey(*HASH_KEY.unpack(key))
        entries = [tuple(entry) for entry in unpack_hash_segment(value).T.tolist()]
        before = levels.setdefault((own.band, own.level), [])
        assert entries, "a segment that is left empty goes"
        assert (own.hashed, own.number) <= entries[0]
        assert not before or before[-1] < (own.hashed, own.number)
        assert all(one < other for one, other in pairwise(entries))
        before += entries
        sizes.append(len(entries))
    now = compaction_state(transaction)
    counts = [
        sum(len(entries) for (_, level), entries in levels.items() if level == which)
        for which in (Level.FIRST, Level.LAST)
    ]
    assert counts == [now.first_entries, now.last_entries]
    tables = []
    for band in range(parameters.blocks):
        first, last, removed = (levels.get((band, level), []) for level in Level)
        assert not set(first) & set(last)
        assert not set(first) & set(removed)
        tables.append(sorted((set(first) | set(last)) - set(removed)))
    return Packed(now, tables, sizes)


def columns_of(parameters: Parameters, table: int, number: int, words: Sequence[int]) -> Columns:
    """An entry as it stands in a table, by the definition."""
    if parameters.banding is None:
        whole, bits = number_of(tuple(words)), 64 * len(words)
        turned = (whole << 16 * table | whole >> bits - 16 * table) & (2**bits - 1)
        return turned >> bits - HASH_BITS << 24, number
    key = int(band_keys(np.array([words], np.uint64), parameters.banding)[0, table])
    return key % 2**HASH_BITS << 24, number


def compaction_state(transaction: Transaction, key: bytes = COMPACTION_KEY) -> CompactionState:
    """State of the compaction of the entries, or of that with another key."""
    return unpack_compaction(transaction.get(Table.META, key))


def packed(index: Index) -> Packed:
    """`read` of an open index."""
    return internals_of(index).store.read(lambda transaction: read(transaction, index.parameters))


def require_packed(index: Index, known: Iterable[Known | Document]) -> None:
    """The segments hold exactly what the compaction state says, each fingerprint once, with its lowest number.

    known  all NEAR entries, of which none ever left
    """
    state, parameters = packed(index), index.parameters
    first_of = {words_of(one.fingerprint, parameters.words): one.number for one in reversed(list(known))}
    for table, entries in enumerate(state.tables):
        entry_of = {columns_of(parameters, table, number, words): number for words, number in first_of.items()}
        merged = {entry for entry, number in entry_of.items() if number < state.compaction.merged_to}
        moved = {entry for entry, number in entry_of.items() if number < state.compaction.frozen_to}
        bound = tuple(np.frombuffer(state.compaction.bound, ">u8").tolist())
        cursor = (state.compaction.table, bound)
        assert set(entries) == {entry for entry in moved if entry in merged or (table, entry) < cursor}


def words_of(fingerprint: int | tuple[int, ...], words: int) -> tuple[int, ...]:
    """A fingerprint in words, also where it comes as one number."""
    if isinstance(fingerprint, tuple):
        return fingerprint
    return tuple(fingerprint >> 64 * place & (2**64 - 1) for place in range(words - 1, -1, -1))


def number_of(fingerprint: int | tuple[int, ...]) -> int:
    """A fingerprint as one number, also where it comes in words."""
    if isinstance(fingerprint, int):
        return fingerprint
    return sum(word << 64 * place for place, word in enumerate(reversed(fingerprint)))


class StoredDocuments(NamedTuple):
    """Numbers, log rows, and fingerprints uint64 [n, words], of n documents."""

    numbers: np.ndarray
    rows: np.ndarray
    fingerprints: np.ndarray


def stored_documents(transaction: Transaction, words: int) -> StoredDocuments:
    """All documents in the log, ascending."""
    batches = list(log.walk(transaction, words))
    columns = [
        (batch.numbers(), batch.rows[batch.entered()], batch.fingerprints.astype(np.uint64)) for batch in batches
    ]
    return StoredDocuments(*map(np.concatenate, zip(*columns, strict=True)))


def tombstones(transaction: Transaction, words: int) -> Iterable[tuple[int, Tombstones]]:
    """The tombstones that wait for compaction, with their numbers, ascending."""
    for key, value in transaction.walk(Table.TOMBSTONES):
        yield TOMBSTONE_KEY.unpack(key)[0], unpack_tombstones(value, words)
