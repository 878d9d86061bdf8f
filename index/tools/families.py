"""Families in exports: what an index has learnt of templates, and which documents belong to them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.families.table import add_relatives, write_family
from index.session import ReadSession, WriteSession
from index.storage.layout import Family, Table, unpack_family, unpack_numbers

Numbers = npt.NDArray[np.uint64]


class ExportedFamily(NamedTuple):
    """A family of a sequence of records.

    head       number of its head, which may have left the sequence
    family     what is told of it
    relatives  uint64 [n], numbers of the documents that are noted as of this family
    """

    head: int
    family: Family
    relatives: Numbers


def exported_families(session: ReadSession) -> Iterator[ExportedFamily]:
    """All families, ascending by head."""
    pairs = [(key, bytes(value)) for key, value in session.transaction.walk(Table.RELATIVES)]
    numbers, heads = unpack_numbers([key for key, _ in pairs]), unpack_numbers([value for _, value in pairs])
    order = np.argsort(heads, kind="stable")
    numbers, heads = numbers[order], heads[order]
    for key, value in session.transaction.walk(Table.FAMILIES):
        head = unpack_numbers([key])[0]
        begin, end = np.searchsorted(heads, head), np.searchsorted(heads, head, side="right")
        yield ExportedFamily(int(head), unpack_family(bytes(value)), numbers[begin:end])


def enter_family(session: WriteSession, exported: ExportedFamily, here: Callable[[Numbers], Numbers]) -> None:
    """Enter a family; here: numbers in the sequence to numbers in this index, NO_NUMBER for what did not enter.

    A head that is gone is no more than a name: then the first of the relatives gives its own.
    """
    relatives = here(exported.relatives)
    relatives = np.sort(relatives[relatives != NO_NUMBER])
    head = here(np.array([exported.head], np.uint64))[0]
    if head == NO_NUMBER:
        if not len(relatives):
            return
        head, relatives = relatives[0], relatives[1:]
    write_family(session.transaction, int(head), exported.family._replace(relatives=len(relatives)))
    add_relatives(session.transaction, relatives, np.full(len(relatives), head, np.uint64))
