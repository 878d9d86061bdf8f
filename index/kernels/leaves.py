"""Walk through an LMDB tree: locates large values without reading them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import array_at, compiled, pointer_at

_HEADER = 16
_LEAF = 2
_IN_OVERFLOW = 1
_DEPTH_MAX = 32


@compiled
def _bytes_at(address: Any, count: Any) -> npt.NDArray[np.uint8]:
    octets: npt.NDArray[np.uint8] = array_at(pointer_at(address), count >> 1).view(np.uint8)
    return octets


@compiled
def _value(octets: npt.NDArray[np.uint8], at: Any, count: int) -> Any:
    """A little-endian number of `count` bytes: int64."""
    value = np.int64(0)
    for place in range(count - 1, -1, -1):
        value = value << 8 | np.int64(octets[at + place])
    return value


@compiled
def copied(address: Any, count: Any) -> npt.NDArray[np.uint8]:
    """Copy of the bytes at an address, uint8 [count]; count: even."""
    return _bytes_at(address, count).copy()


@compiled
def large_values(
    base: Any,
    page_bytes: Any,
    root: int,
    keys: npt.NDArray[np.uint8],
    pages: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> int:
    """Fill in all keys, uint8 [n, key bytes], ascending, with each value's first page and bytes, int64 [n] each.

    base  address of page 0, uint64
    root  page of the tree's root

    Returns how many were filled in: fewer than n if a key has another length, or the leaf itself holds a small value.
    """
    count, depth = 0, 0
    path, nodes = np.empty(_DEPTH_MAX, np.int64), np.zeros(_DEPTH_MAX, np.int64)
    # Depth-first: `path` has the pages from the root down, `nodes` each one's next child.
    path[0] = root
    while depth >= 0:
        page = _bytes_at(base + np.uint64(path[depth]) * np.uint64(page_bytes), page_bytes)
        lower, flags = _value(page, 12, 2), _value(page, 10, 2)
        node = nodes[depth]
        # A page begins with its own number. Another number, or no further node: back to the parent.
        if _value(page, 0, 8) != path[depth] or node >= (lower - _HEADER) >> 1:
            depth -= 1
            continue
        nodes[depth] += 1
        at = _value(page, _HEADER + 2 * node, 2)
        if not flags & _LEAF:
            if depth + 1 == _DEPTH_MAX:
                return count
            depth += 1
            path[depth], nodes[depth] = _value(page, at, 6), 0
            continue
        key_bytes = _value(page, at + 6, 2)
        if key_bytes != keys.shape[1] or not _value(page, at + 4, 2) & _IN_OVERFLOW or count == len(keys):
            return count
        for place in range(key_bytes):
            keys[count, place] = page[at + 8 + place]
        # A large value leaves only its first page's number after the key.
        pages[count], sizes[count] = _value(page, at + 8 + key_bytes, 8), _value(page, at, 4)
        count += 1
    return count
