"""Segments outside of any store, and where keys stand in them, found the plain way."""

from bisect import bisect_left

import numpy as np

from index.kernels.scan import Spans
from index.storage.codec import pack_segment, unpack_segment

NO_NUMBERS = np.empty(0, np.uint64)


def segment_of(entries: list[tuple[int, ...]]) -> bytes:
    """A segment of these entries, whose columns are values of 16 bits."""
    return pack_segment(np.array(sorted(entries), np.uint16).T, NO_NUMBERS)


def keys_in(segment: bytes) -> list[int]:
    """What the first two columns of the entries say."""
    first, second = unpack_segment(segment, 2, numbered=False)[0][:2].astype(int)
    return (first << 16 | second).tolist()


def spans_of(tables: list[list[bytes]], of_keys: np.ndarray, keys: np.ndarray, breadth: int) -> Spans:
    """Where the keys int [n, k] stand in the segments of the tables int [n, k]; the caller keeps the segments alive.

    A span ends behind the last segment that holds a key less than `breadth` above the one asked for.
    """
    segments = [segment for of_table in tables for segment in of_table]
    edges = np.cumsum([0, *map(len, tables)]).tolist()
    held = [keys_in(segment) for segment in segments]
    begins, ends, places = (np.zeros(keys.shape, np.int64) for _ in range(3))
    for at in np.ndindex(keys.shape):
        table, key = int(of_keys[at]), int(keys[at]) & 0xFFFFFFFF
        of_table = range(edges[table], edges[table + 1])
        named = [segment for segment in of_table if any(key <= each < key + breadth for each in held[segment])]
        if named:
            begins[at], ends[at], places[at] = named[0], named[-1] + 1, bisect_left(held[named[0]], key)
    addresses = [np.frombuffer(segment, np.uint8).__array_interface__["data"][0] for segment in segments]
    return Spans(begins, ends, places, np.array(addresses, np.uint64))
