"""Stamp, identity and secret of an index: written at creation; every opening compares the stamp."""

import json
import uuid

from index.errors import FormatUnknownError, IndexDamagedError
from index.storage.data_file import WAY_OUT
from index.storage.file.checksums import CHECKSUM, is_of_older_format
from index.storage.layout import IDENTITY_KEY, SECRET_KEY, STAMP_KEY, Table
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction

SECRET_BYTES = 16


def stamped(store: Store, asked: Parameters | None, where: str) -> Parameters:
    """Parameters for deciding: those from the index's creation, or stricter ones (`Parameters.deciding`).

    Stamps a new index, and makes all tables usable. Raises ParametersDifferError, and FormatUnknownError, also for an index
    without a stamp if `asked` is None.

    asked  parameters for this opening; None: those in the index
    where  the index's name in messages
    """
    if store.is_new() and asked is None:
        raise FormatUnknownError(f"The index in {where} was never finished being created.")
    store.prepare([Table.META])
    stamp = store.read(_found)
    if stamp is not None:
        stored = Parameters.from_stamp(stamp, where)
        deciding = stored if asked is None else stored.deciding(asked, where)
        store.prepare(Table)
        return deciding
    if asked is None:
        raise FormatUnknownError(f"The index in {where} was never finished being created.")
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
    """The secret that the index stores for its caller, SECRET_BYTES, or None. Raises FormatUnknownError.

    new  secret for an index without a stamp, unless another process was first; None: no secret
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
    """A stamped index's id, 32 hexadecimal digits. Raises IndexDamagedError."""
    identity = store.read(lambda transaction: transaction.get(Table.META, IDENTITY_KEY))
    if identity is None:
        raise IndexDamagedError(f"The index in {where} is damaged: it has a stamp and no identity. {WAY_OUT}")
    return identity.hex()


def _found(transaction: Transaction) -> bytes | None:
    """The stamp, or None. An older format's checksum is XXH3; formats before 3 have none."""
    bare = next((bytes(value) for key, value in transaction.raw(Table.META) if key == STAMP_KEY), b"")
    if is_of_older_format(Table.META, STAMP_KEY, bare):
        return bare[: -CHECKSUM.size]
    try:
        json.loads(bare)
    except ValueError:
        return transaction.get(Table.META, STAMP_KEY)
    return bare
