"""Families as they stand in the file: heads, votes and templates, and what pages are filed by that have text of their own."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.matching.minhash import unpack_bins
from index.matching.template import NO_BIN, Bins, own_keys
from index.session import WriteSession
from index.storage.codec import pack_families, unpack_families
from index.storage.layout import (
    Family,
    Table,
    pack_family,
    pack_numbers,
    pack_own_keys,
    unpack_family,
    unpack_numbers,
)
from index.storage.store import Transaction

POSTINGS_MAX = 32
"""Pages filed under one key, at most: a value that many pages of a template share tells nothing."""

NO_OWN_KEY = NO_BIN << 8
"""Key of pages that have hardly anything of their own."""


def heads_of(
    transaction: Transaction, numbers: npt.NDArray[np.uint64], roots: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Head of the family that each document belongs to: numbers and their roots, uint64 [n] twice -> uint64 [n]."""
    heads = roots.copy()
    if transaction.count(Table.RELATIVES):
        both = np.union1d(numbers, roots)
        found = transaction.get_many(Table.RELATIVES, pack_numbers(both))
        named = unpack_numbers([key for key, _ in found])
        of_both = np.full(len(both), NO_NUMBER, np.uint64)
        of_both[np.searchsorted(both, named)] = unpack_numbers([value for _, value in found])
        for documents in (roots, numbers):
            of_documents = of_both[np.searchsorted(both, documents)]
            heads = np.where(of_documents != NO_NUMBER, of_documents, heads)
    return heads


class StoredFamilies(NamedTuple):
    """Families as the file holds them.

    places  int64 [m], which of those that were asked for, or that there are
    known   bool [m], whether the template is known
    counts  int64 [m, 5]: voters, dropped, relatives, made_unique, own_bins, as `layout.Family` has them
    values  uint8 [m, bins]
    leads   uint8 [m, bins]; zeros where the template is known
    """

    places: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]
    values: Bins
    leads: npt.NDArray[np.uint8]


def stored_families(transaction: Transaction, heads: npt.NDArray[np.uint64], bins: int) -> StoredFamilies | None:
    """Families of these heads, uint64 [n], ascending and distinct; heads without unequal pages have none.

    None where there is no family at all.
    """
    if not len(heads) or not transaction.count(Table.FAMILIES):
        return None
    found = transaction.get_many(Table.FAMILIES, pack_numbers(heads))
    places = np.searchsorted(heads, unpack_numbers([key for key, _ in found]))
    return StoredFamilies(places, *unpack_families([value for _, value in found], bins))


def write_families(transaction: Transaction, heads: npt.NDArray[np.uint64], families: StoredFamilies) -> None:
    """Store families of these heads, uint64 [m], ascending."""
    _, known, counts, values, leads = families
    transaction.put_all(Table.FAMILIES, pack_numbers(heads), pack_families(known, counts, values, leads))


def read_families(transaction: Transaction, heads: Iterable[int]) -> dict[int, Family]:
    """Families of these heads, by head; heads without unequal pages have none."""
    if not transaction.count(Table.FAMILIES):
        return {}
    keys = pack_numbers(np.array(sorted(heads), np.uint64))
    found = transaction.get_many(Table.FAMILIES, keys)
    numbers = unpack_numbers([key for key, _ in found]).tolist()
    return {head: unpack_family(value) for head, (_, value) in zip(numbers, found, strict=True)}


def write_family(transaction: Transaction, head: int, family: Family) -> None:
    """Store a family."""
    transaction.put(Table.FAMILIES, pack_numbers(np.array([head], np.uint64))[0], pack_family(family))


def read_postings(
    transaction: Transaction, heads: npt.NDArray[np.uint64], keys: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Pages filed under keys of families: how many under each, int64 [n], and their numbers, key by key, uint64 [m].

    heads, keys  uint64 [n] and int64 [n], distinct pairs, ascending
    """
    counts, values = transaction.all_values(Table.OWN, pack_own_keys(heads, keys))
    numbers = unpack_numbers([values])
    if (counts > POSTINGS_MAX).any():
        at = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers, counts = numbers[at < POSTINGS_MAX], np.minimum(counts, POSTINGS_MAX)
    return counts, numbers


def add_relatives(transaction: Transaction, numbers: npt.NDArray[np.uint64], heads: npt.NDArray[np.uint64]) -> None:
    """Note documents that have just entered as relatives of these heads: uint64 [n] twice."""
    transaction.add(Table.RELATIVES, pack_numbers(numbers), pack_numbers(heads))


def add_postings(
    transaction: Transaction,
    heads: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint64],
) -> None:
    """File pages, uint64 [n], each under a key of the family of a head: uint64 [n] and int64 [n]."""
    # LMDB takes ascending keys twice as fast.
    order = np.lexsort((numbers, keys, heads))
    transaction.add(Table.OWN, pack_own_keys(heads[order], keys[order]), pack_numbers(numbers[order]))


def leave(session: WriteSession, numbers: npt.NDArray[np.uint64], fingerprints: npt.NDArray[np.uint64]) -> None:
    """Let NEAR documents that are retired leave their families; a family goes with the last of its documents.

    numbers, fingerprints  uint64 [n] and [n, words], distinct
    """
    transaction, banding = session.transaction, session.parameters.banding
    if banding is None or not transaction.count(Table.FAMILIES):
        return
    order = np.argsort(numbers)
    keys = pack_numbers(numbers[order])
    head_of = dict(transaction.get_many(Table.RELATIVES, keys))
    heads = {key: int(unpack_numbers([head])[0]) for key, head in head_of.items()}
    families = read_families(transaction, {*heads.values(), *numbers.tolist()})
    pages = unpack_bins(fingerprints[order], banding.bin_bits)
    for key, page in zip(keys, pages, strict=True):
        head = heads.get(key)
        if head is not None and head in families:
            family = families[head]
            if family.is_known:
                own = np.array(all_keys(page, family.values))
                for each in pack_own_keys(np.full(len(own), head, np.uint64), own):
                    transaction.delete(Table.OWN, each, key)
            families[head] = family._replace(relatives=family.relatives - 1)
            transaction.delete(Table.RELATIVES, key)
    visible = session.visibility.are(transaction, np.array(sorted(families), np.uint64))
    for head, is_visible in zip(sorted(families), visible.tolist(), strict=True):
        if families[head].relatives == 0 and not is_visible:
            transaction.delete(Table.FAMILIES, pack_numbers(np.array([head], np.uint64))[0])
        elif head in heads.values():
            write_family(transaction, head, families[head])


def all_keys(page: Bins, template: Bins) -> list[int]:
    """Every key that a page may be filed under, those preferred first; NO_OWN_KEY is the last."""
    return [*own_keys(page, template).tolist(), NO_OWN_KEY]
