"""The stamp in the file: written when the index is created, compared whenever the index is opened."""

import json
import uuid

from index.errors import FormatUnknown
from index.storage.layout import IDENTITY_KEY, STAMP_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction


def stamped(store: Store, asked: Parameters | None, where: str) -> Parameters:
    """Parameters that the index was created with; stamps a new index, and makes all tables usable.

    asked  parameters of the opening; None: whatever the index has
    where  name of the index in messages

    Raises ParametersDiffer, and FormatUnknown, also where nothing is asked of an index without a stamp.
    """
    if store.is_new() and asked is None:
        raise FormatUnknown(f"The index in {where} was never finished being created.")
    store.prepare([Table.META])
    stamp = store.read(_found)
    if stamp is not None:
        stored = Parameters.from_stamp(stamp, where)
        stored.require_equal(asked or stored, where)
        store.prepare(Table)
        return stored
    if asked is None:
        raise FormatUnknown(f"The index in {where} was never finished being created.")
    store.prepare(Table)

    def operation(transaction: Transaction) -> bytes:
        # Another process may have stamped the index meanwhile: the first stamp counts.
        first = transaction.get(Table.META, STAMP_KEY)
        if first is None:
            transaction.put(Table.META, STAMP_KEY, asked.stamp())
        return first or asked.stamp()

    stored = Parameters.from_stamp(store.write(operation), where)
    stored.require_equal(asked, where)
    return stored


def _found(transaction: Transaction) -> bytes | None:
    """The stamp, or None; without the seal that a format before 3 does not have."""
    bare = next((bytes(value) for key, value in transaction.raw(Table.META) if key == STAMP_KEY), b"")
    try:
        json.loads(bare)
    except ValueError:
        return transaction.get(Table.META, STAMP_KEY)
    return bare


def identified(store: Store, *, read_only: bool) -> str:
    """Id of the index, 32 hexadecimal digits; drawn where it has none yet, or "" where nothing may be written."""
    found = store.read(lambda transaction: transaction.get(Table.META, IDENTITY_KEY))
    if found is None and read_only:
        return ""

    def operation(transaction: Transaction) -> bytes:
        # Another process may have drawn one meanwhile: the first counts.
        first = transaction.get(Table.META, IDENTITY_KEY)
        drawn = first or uuid.uuid4().bytes
        if first is None:
            transaction.put(Table.META, IDENTITY_KEY, drawn)
        return drawn

    return (found or store.write(operation)).hex()
