"""The counters of an index: how many documents and journal rows it has, and which numbers come next."""

from index.storage.layout import COUNTERS_KEY, Counters, Table, pack_counters, unpack_counters
from index.storage.store import Transaction


def counters_of(transaction: Transaction) -> Counters:
    """What is counted, as it stands in the file."""
    return unpack_counters(transaction.get(Table.META, COUNTERS_KEY))


def put_counters(transaction: Transaction, counters: Counters) -> None:
    """Keep what is counted."""
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
