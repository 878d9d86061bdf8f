"""Value places in the file, as page numbers: computed without reading the values.

LMDB's client reads every page of a value. A lookup needs a few pages from each of a thousand segments, so it uses
addresses, valid during the transaction: LMDB never overwrites the last commit's pages.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import leaves
from index.kernels.scan import address_of
from index.storage.data_file import NO_ROOT, TREE

_PAGE_NUMBER = struct.Struct("<Q")
HEADER_BYTES = 16


class TreePlace(NamedTuple):
    """A table in the file at one commit.

    base  address of the first page in memory
    root  page number of the tree's root; None: the table is empty

    >>> value_places(TreePlace(base=0, page_bytes=4096, root=None, entries=0), key_bytes=18).pages
    array([], dtype=int64)
    """

    base: int
    page_bytes: int
    root: int | None
    entries: int


class ValuePlaces(NamedTuple):
    """Places of a table's values.

    keys   uint8 [n, key bytes], ascending
    pages  int64 [n], each value's first page
    sizes  int64 [n], each value's bytes, checksum included

    >>> places = ValuePlaces(np.zeros((1, 18), np.uint8), pages=np.array([3]), sizes=np.array([8000]))
    >>> places.addresses(TreePlace(base=2**20, page_bytes=4096, root=2, entries=1)) - np.uint64(2**20)
    array([12304], dtype=uint64)
    """

    keys: npt.NDArray[np.uint8]
    pages: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    def addresses(self, tree: TreePlace) -> npt.NDArray[np.uint64]:
        """Addresses of the values, uint64 [n]."""
        return (tree.base + self.pages * tree.page_bytes + HEADER_BYTES).astype(np.uint64)


def tree_place(record: memoryview | bytes, page_bytes: int) -> TreePlace:
    """A table's place, from LMDB's record: a view of a page in the map."""
    *_, entries, root = TREE.unpack(record)
    address = int(address_of(record))
    page = address - address % page_bytes
    number = _PAGE_NUMBER.unpack(_bytes_at(page, _PAGE_NUMBER.size))[0]
    return TreePlace(page - number * page_bytes, page_bytes, None if root == NO_ROOT else root, entries)


def value_places(tree: TreePlace, key_bytes: int) -> ValuePlaces | None:
    """Places of all values in a table; None if a value is small, or a key has another length."""
    places = ValuePlaces(
        np.empty((tree.entries, key_bytes), np.uint8),
        np.empty(tree.entries, np.int64),
        np.empty(tree.entries, np.int64),
    )
    if tree.root is None:
        return places
    count = leaves.large_values(np.uint64(tree.base), tree.page_bytes, tree.root, *places)
    return places if count == tree.entries else None


def _bytes_at(address: int, count: int) -> bytes:
    return leaves.copied(np.uint64(address), count).tobytes()
