"""Counters of an index, and its size, read from a few pages."""

from collections.abc import Mapping
from typing import NamedTuple

from index.storage.layout import COUNTERS_KEY, Counters, Table, pack_counters, unpack_counters
from index.storage.store import Transaction
from index.storage.visibility import Visibility


def counters_of(transaction: Transaction) -> Counters:
    """The stored counters."""
    return unpack_counters(transaction.get(Table.META, COUNTERS_KEY))


def put_counters(transaction: Transaction, counters: Counters) -> None:
    """Store the counters."""
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))


class Statistics(NamedTuple):
    """An index's size at one moment.

    entries        NEAR entries
    exact_entries  EXACT entries
    expired_below  documents below this number have expired
    forgotten      further documents, retired one by one
    journal_rows   decided positions
    used_bytes     file bytes ever used, free pages included
    map_bytes      map size: a larger file needs a larger map
    table_bytes    bytes by table; free pages belong to none
    stories        stories with a row

    >>> from index import Index, Parameters
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     index.statistics().entries, index.statistics().map_bytes
    (0, 16777216)
    """

    entries: int
    exact_entries: int
    expired_below: int
    forgotten: int
    journal_rows: int
    used_bytes: int
    map_bytes: int
    table_bytes: Mapping[str, int]
    stories: int


def statistics_of(transaction: Transaction, words: int) -> Statistics:
    """This snapshot's statistics."""
    counters = counters_of(transaction)
    return Statistics(
        entries=counters.near_entries,
        exact_entries=transaction.count(Table.EXACT),
        expired_below=Visibility(transaction, words).horizon.number,
        forgotten=transaction.count(Table.RETIRED),
        journal_rows=counters.journal_rows,
        used_bytes=transaction.used_bytes(),
        map_bytes=transaction.map_bytes(),
        table_bytes={table.name.lower(): transaction.page_bytes(table) for table in Table},
        stories=transaction.count(Table.STORIES),
    )
