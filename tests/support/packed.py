"""What stands in the chunks of an index, read plainly; and that they are sound."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from index.admission import Index
from index.documents import Document
from index.layout import MERGE_KEY, Merge, Table, unpack_chunk, unpack_merge
from index.store import Transaction
from tests.support.brute_force_index import Known


class Packed(NamedTuple):
    """For every table its entries in order, as numbers of bits; for table 0 also their document numbers."""

    merge: Merge
    tables: list[list[int]]
    numbers: list[int]
    chunk_sizes: list[int]


def packed(index: Index) -> Packed:
    """Read all chunks. Fails unless every table is ascending without equals, and every entry within its chunk's bounds."""
    return index._store.read(lambda transaction: read(transaction, index.parameters.bits))


def read(transaction: Transaction, bits: int) -> Packed:
    blocks = bits // 16
    tables: list[list[int]] = [[] for _ in range(blocks)]
    bounds: list[list[int]] = [[] for _ in range(blocks)]
    numbers: list[int] = []
    sizes = []
    for key, value in transaction.walk(Table.CHUNKS):
        table, bound = key[0], int.from_bytes(key[1:], "big")
        columns, own_numbers = unpack_chunk(value, table, blocks)
        rotated = [int.from_bytes(column.astype(">u2").tobytes(), "big") for column in columns.T]
        if not bounds[table]:
            assert bound == 0, "a table's first chunk begins at 0"
        assert all(bound <= one for one in rotated)
        assert not tables[table] or tables[table][-1] < bound
        assert np.all(np.array(rotated[1:], object) > np.array(rotated[:-1], object))
        bounds[table].append(bound)
        tables[table] += rotated
        numbers += own_numbers.tolist()
        sizes.append(len(rotated))
    turned = [[turn(one, -16 * table, bits) for one in entries] for table, entries in enumerate(tables)]
    assert len(numbers) == len(tables[0])
    return Packed(unpack_merge(transaction.get(Table.META, MERGE_KEY)), turned, numbers, sizes)


def require_packed(index: Index, known: Sequence[Known | Document]) -> None:
    """The chunks hold exactly what the state of the merge says, each fingerprint once, with its lowest number.

    known  all NEAR entries
    """
    state = packed(index)
    merge, blocks = state.merge, index.parameters.bits // 16
    first_of = {number_of(one.fingerprint): one.number for one in reversed(known)}
    merged = {fingerprint for fingerprint, number in first_of.items() if number < merge.merged_to}
    moving = {fingerprint for fingerprint, number in first_of.items() if merge.merged_to <= number < merge.frozen_to}
    assert dict(zip(state.tables[0], state.numbers, strict=True)).items() <= first_of.items()
    for table, entries in enumerate(state.tables):
        assert len(entries) == len(set(entries))
        assert merged <= set(entries) <= merged | moving
        if merge.merged_to == merge.frozen_to or table > merge.table:
            assert set(entries) == merged
        elif table < merge.table:
            assert set(entries) == merged | moving
    assert 0 <= merge.table < blocks


def number_of(fingerprint: int | tuple[int, ...]) -> int:
    """A fingerprint as one number, also where it comes in words."""
    if isinstance(fingerprint, int):
        return fingerprint
    return sum(word << 64 * place for place, word in enumerate(reversed(fingerprint)))


def turn(fingerprint: int, left: int, bits: int) -> int:
    """A fingerprint rotated to the left by so many bits, to the right by negative ones."""
    left %= bits
    return (fingerprint << left | fingerprint >> bits - left) & ((1 << bits) - 1)
