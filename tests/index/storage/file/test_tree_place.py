"""Where values stand, by the tree of the table, against what the client gives."""

import ctypes
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.storage.file.tree_place import value_places
from index.storage.layout import Table
from index.storage.store import Transaction
from tests.support.examples import examples
from tests.support.stores import stores


def require_places(transaction: Transaction, expected: dict[bytes, bytes]) -> None:
    """All keys in order, and under the address of each what was put last, before this transaction."""
    tree = transaction.tree_of(Table.SEGMENTS)
    places = value_places(tree, 4)
    assert places is not None
    assert [key.tobytes() for key in places.keys] == sorted(expected)
    for key, address, size in zip(places.keys, places.addresses(tree).tolist(), places.sizes.tolist(), strict=True):
        value = expected[key.tobytes()]
        assert size == len(value) + 8
        assert ctypes.string_at(address, len(value)) == value


@examples(15)
@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 5)), max_size=400), st.integers(1, 60))
def test_values_stand_where_the_tree_says_in_every_transaction(steps: list[tuple[int, int]], at_once: int) -> None:
    held: dict[bytes, bytes] = {}

    def turn(transaction: Transaction, some: list[tuple[int, int]]) -> None:
        require_places(transaction, held)
        before = dict(held)
        for number, pages in some:
            key = number.to_bytes(4, "big")
            if pages:
                held[key] = np.random.default_rng(number).bytes(4096 * pages - 24)
                transaction.put(Table.SEGMENTS, key, held[key])
            elif held.pop(key, None) is not None:
                transaction.delete(Table.SEGMENTS, key)
        # What it wrote itself is in no page yet.
        require_places(transaction, before)

    with stores() as store:
        for begin in range(0, len(steps) + 1, at_once):
            store.write(partial(turn, some=steps[begin : begin + at_once]))
            store.read(partial(require_places, expected=held))


def test_a_reader_finds_what_stood_there_when_it_began() -> None:
    value = bytes(range(256)) * 15 + bytes(232)
    with stores() as store:
        store.write(lambda transaction: transaction.put(Table.SEGMENTS, b"key1", value))
        with store._environment.begin(buffers=True) as reading:
            old = Transaction(store._environment, reading, store._tables, store._checksums)
            for number in range(9):
                store.write(partial(_overwrite, number=number))
            require_places(old, {b"key1": value})


def _overwrite(transaction: Transaction, number: int) -> None:
    transaction.put(Table.SEGMENTS, b"key1", bytes([number]) * 4072)


def test_small_values_and_keys_of_another_length_are_told() -> None:
    with stores() as store:
        for key, size in ((b"key1", 100), (b"longer", 9_000)):
            store.write(partial(Transaction.put, table=Table.SEGMENTS, key=key, value=bytes(size)))
            assert store.read(lambda transaction: value_places(transaction.tree_of(Table.SEGMENTS), 4)) is None
            store.write(partial(Transaction.delete, table=Table.SEGMENTS, key=key))
