"""Stamp, identity and secret in the file: written when the index is created; the stamp is compared at every opening."""

import json
import uuid

from index.errors import FormatUnknown, IndexDamaged
from index.storage.data_file import WAY_OUT
from index.storage.file.checksums import CHECKSUM, is_of_older_format
from index.storage.layout import IDENTITY_KEY, SECRET_KEY, STAMP_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction

SECRET_BYTES = 16


def stamped(store: Store, asked: Parameters | None, where: str) -> Parameters:
    """Parameters to decide by: those of the index's creation, or stricter ones (`Parameters.deciding`).

    Stamps a new index, and makes all tables usable.

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
        deciding = stored if asked is None else stored.deciding(asked, where)
        store.prepare(Table)
        return deciding
    if asked is None:
        raise FormatUnknown(f"The index in {where} was never finished being created.")
    store.prepare(Table)

    def operation(transaction: Transaction) -> bytes:
        # Another process may have stamped the index meanwhile: the first stamp counts.
        first = transaction.get(Table.META, STAMP_KEY)
        if first is None:
            transaction.put(Table.META, STAMP_KEY, asked.stamp())
            transaction.put(Table.META, IDENTITY_KEY, uuid.uuid4().bytes)
        return first or asked.stamp()

    return Parameters.from_stamp(store.write(operation), where).deciding(asked, where)


def secret_of(store: Store, where: str, new: bytes | None) -> bytes | None:
    """The secret that the index keeps for its caller, SECRET_BYTES; None where it keeps none.

    new  an index without a stamp keeps this one, unless another process was first; None: it gets none

    Raises FormatUnknown.
    """
    if store.is_new() and new is None:
        return None
    store.prepare([Table.META])
    stamp = store.read(_found)
    if stamp is not None:
        Parameters.from_stamp(stamp, where)
        return store.read(lambda transaction: transaction.get(Table.META, SECRET_KEY))
    if new is None:
        return None

    def operation(transaction: Transaction) -> bytes | None:
        secret = transaction.get(Table.META, SECRET_KEY)
        if secret is None and _found(transaction) is None:
            secret = new
            transaction.put(Table.META, SECRET_KEY, secret)
        return secret

    return store.write(operation)


def identified(store: Store, where: str) -> str:
    """Id of a stamped index, 32 hexadecimal digits. Raises IndexDamaged."""
    identity = store.read(lambda transaction: transaction.get(Table.META, IDENTITY_KEY))
    if identity is None:
        raise IndexDamaged(f"The index in {where} is damaged: it has a stamp and no identity. {WAY_OUT}")
    return identity.hex()


def _found(transaction: Transaction) -> bytes | None:
    """The stamp, or None. The checksum of an older format is XXH3, and formats before 3 have none."""
    bare = next((bytes(value) for key, value in transaction.raw(Table.META) if key == STAMP_KEY), b"")
    if is_of_older_format(Table.META, STAMP_KEY, bare):
        return bare[: -CHECKSUM.size]
    try:
        json.loads(bare)
    except ValueError:
        return transaction.get(Table.META, STAMP_KEY)
    return bare
