"""Counters of an index: documents and journal rows so far, and the numbers that come next."""

from index.storage.layout import COUNTERS_KEY, LOG_KEY, Counters, Table, pack_counters, unpack_counters
from index.storage.store import Transaction


def counters_of(transaction: Transaction) -> Counters:
    """The counters as they stand in the file."""
    return unpack_counters(transaction.get(Table.META, COUNTERS_KEY))


def next_log_key(counters: Counters) -> bytes:
    """The key in the log of the batch that comes next."""
    return LOG_KEY.pack(counters.next_number, counters.journal_rows)


def put_counters(transaction: Transaction, counters: Counters) -> None:
    """Store the counters."""
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
