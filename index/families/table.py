"""Families as they stand in the file: heads, votes and templates, and what pages are filed by that have text of their own."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER
from index.matching.minhash import unpack_bins
from index.matching.template import NO_BIN, OWN_KEYS, Bins, own_bins_needed, own_keys
from index.session import WriteSession
from index.storage.layout import Family, Table, own_key, pack_family, pack_numbers, unpack_family, unpack_numbers
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


def read_postings(transaction: Transaction, head: int, keys: Sequence[int]) -> list[list[int]]:
    """Numbers of the pages of a family that are filed under each key, ascending, at most POSTINGS_MAX."""
    return [
        unpack_numbers(transaction.first_values(Table.OWN, own_key(head, key), POSTINGS_MAX)).tolist() for key in keys
    ]


def add_relatives(transaction: Transaction, numbers: npt.NDArray[np.uint64], heads: npt.NDArray[np.uint64]) -> None:
    """Note documents as relatives of these heads: uint64 [n] twice."""
    for key, value in zip(pack_numbers(numbers), pack_numbers(heads), strict=True):
        transaction.put(Table.RELATIVES, key, value)


def add_postings(transaction: Transaction, keys: Sequence[tuple[int, int]], numbers: npt.NDArray[np.uint64]) -> None:
    """File pages: keys are pairs of a head and a key, one for each of numbers uint64 [n]."""
    if keys:
        transaction.add(Table.OWN, [own_key(*key) for key in keys], pack_numbers(numbers))


def free_keys(keys: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Keys that a page is filed under: of all of its keys those first that few others have; with the pages under each now."""
    free = [key for key, count in zip(keys, counts, strict=True) if count < POSTINGS_MAX]
    return [key for key in free if key != NO_OWN_KEY][:OWN_KEYS] + [key for key in free if key == NO_OWN_KEY]


def keys_of(page: Bins, template: Bins) -> list[int]:
    """Keys of what a page has of its own, those preferred first; NO_OWN_KEY is the last where that is hardly anything."""
    keys = all_keys(page, template)
    return keys if len(keys) - 1 < own_bins_needed(page[None])[0] else keys[:-1]


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
                for own in all_keys(page, family.values):
                    transaction.delete(Table.OWN, own_key(head, own), key)
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
