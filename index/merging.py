"""Moving the newest entries from the log into chunks, a slice at a time, each in the transaction of some batch.

When the overlay holds enough it freezes: its entries become the frozen run. From then on every batch moves some of it,
table by table and in order, until all tables have all of it. The frozen run is looked up as a whole all the while, so
that it does not matter how far it has moved, nor who moves it on after a crash. Nothing here changes the overlays: they
follow what the next transaction finds in the file.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index import kernels
from index.blocks import BLOCK_BITS
from index.layout import MERGE_KEY, Merge, Table, chunk_entry_bytes, pack_chunk, pack_merge, unpack_chunk, unpack_merge
from index.overlay import Overlay
from index.store import Transaction

GROWTH = 32
"""The overlay freezes at the latest of `run_entries` and this fraction of what is merged: so much is written again."""

AHEAD = 1.25
"""A merge is done when the overlay is full again to 1 / AHEAD."""

SLICES_MAX = 32
"""At most so many slices in one batch: bounds the time that a batch takes, whatever the bound on its rows."""


@dataclass(frozen=True, slots=True)
class Merging:
    """How the newest entries become packed ones. It may differ from one opening to the next.

    run_entries  this many newest entries stay in memory before they move, or more in a large index
    chunk_bytes  the size up to which a chunk grows
    """

    run_entries: int = 2**20
    chunk_bytes: int = 2**20

    def __post_init__(self) -> None:
        if self.run_entries < 1 or self.chunk_bytes < 64:
            raise ValueError("run_entries must be at least 1 and chunk_bytes at least 64")


def state(transaction: Transaction) -> Merge:
    """How far the entries have moved."""
    return unpack_merge(transaction.get(Table.META, MERGE_KEY))


def advance(
    transaction: Transaction, merging: Merging, frozen: Overlay | None, active_count: int, next_number: int, words: int
) -> None:
    """Freeze the overlay when it is full, or move some of the frozen run; at the end of a batch's transaction.

    frozen        the frozen run, where there is one
    active_count  entries in the overlay, this batch's among them
    next_number   behind those of this batch
    """
    now = state(transaction)
    run_entries = max(merging.run_entries, now.merged_to // GROWTH)
    if frozen is None:
        if active_count >= run_entries:
            frozen_now = now._replace(frozen_to=next_number, table=0, bound=bytes(8 * words))
            transaction.put(Table.META, MERGE_KEY, pack_merge(frozen_now))
        return
    blocks = words * 64 // BLOCK_BITS
    due = AHEAD * active_count / run_entries
    for _ in range(SLICES_MAX):
        if now.merged_to == now.frozen_to or _progress(now, blocks) >= due:
            break
        now = _slice(transaction, now, frozen, merging.chunk_bytes, blocks)
    transaction.put(Table.META, MERGE_KEY, pack_merge(now))


def _progress(now: Merge, blocks: int) -> float:
    """How much of the key space of all tables is behind the cursor, 0 to 1."""
    return (now.table + int.from_bytes(now.bound[:2], "big") / (1 << BLOCK_BITS)) / blocks


def _slice(transaction: Transaction, now: Merge, frozen: Overlay, chunk_bytes: int, blocks: int) -> Merge:
    """Move the frozen entries that belong into the chunk at the cursor, or the first of them; the new state."""
    key = _key(now.table, now.bound)
    value = transaction.view(Table.CHUNKS, key)
    above = transaction.key_above(Table.CHUNKS, key)
    end = above[1:] if above is not None and above[0] == now.table else None
    old, old_numbers = _empty(blocks) if value is None else unpack_chunk(value, now.table, blocks)
    capacity = max(1, chunk_bytes // chunk_entry_bytes(now.table, blocks))
    new, new_numbers, end = _moving(frozen, now, end, capacity)

    kept = old.shape[1]
    if end is not None and end != (above or b"")[1:]:
        # There is more for this chunk than one slice moves: cut it, so that the cursor stands at a bound again.
        kept = int(np.searchsorted(old[0], int.from_bytes(end[:2], "big")))
        transaction.put(Table.CHUNKS, _key(now.table, end), pack_chunk(old[:, kept:], old_numbers[kept:]))
    columns, numbers = kernels.merged(
        np.ascontiguousarray(old[:, :kept]), old_numbers[:kept], new, new_numbers[: len(new_numbers) * (now.table == 0)]
    )
    count = columns.shape[1]
    parts = max(1, -(-count // capacity))
    edges = [count * part // parts for part in range(parts + 1)]
    for first, last in pairwise(edges):
        bound = now.bound if first == 0 else columns[:, first].astype(">u2").tobytes()
        transaction.put(Table.CHUNKS, _key(now.table, bound), pack_chunk(columns[:, first:last], numbers[first:last]))
    return _moved_on(now, end, blocks)


def _moving(
    frozen: Overlay, now: Merge, end: bytes | None, capacity: int
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64], bytes | None]:
    """The frozen entries from the cursor to below the bound `end` (None: to the last), or to an earlier bound.

    Ascending as the table orders them: uint16 [blocks, n], their numbers uint64 [n], and the bound they end at. They
    are at most `capacity` and one bucket more.
    """
    values_end = 1 << BLOCK_BITS if end is None else int.from_bytes(end[:2], "big") + 1
    values_begin = int.from_bytes(now.bound[:2], "big")
    fingerprints, numbers, stopped = frozen.of_block(now.table, values_begin, values_end, capacity)
    if stopped < values_end:
        cut = stopped.to_bytes(2, "big").ljust(len(now.bound), b"\0")
        end = cut if end is None else min(cut, end)
    turned = np.roll(kernels.block_values(fingerprints), -now.table, axis=1)
    order = np.lexsort(turned.astype(">u2").view(">u8").astype(np.uint64).T[::-1])
    columns, numbers = np.ascontiguousarray(turned[order].T), numbers[order]
    first = _place_of(columns, now.bound)
    last = columns.shape[1] if end is None else _place_of(columns, end)
    return np.ascontiguousarray(columns[:, first:last]), numbers[first:last], end


def _place_of(columns: npt.NDArray[np.uint16], bound: bytes) -> int:
    """The first of the ascending entries uint16 [blocks, n] that is not below a bound."""
    low, high = 0, columns.shape[1]
    for column, value in zip(columns, np.frombuffer(bound, ">u2").tolist(), strict=True):
        equal = column[low:high]
        low, high = low + int(np.searchsorted(equal, value)), low + int(np.searchsorted(equal, value, side="right"))
    return low


def _moved_on(now: Merge, end: bytes | None, blocks: int) -> Merge:
    """The state behind a slice that ended at this bound."""
    now = now._replace(version=now.version + 1)
    if end is not None:
        return now._replace(bound=end)
    if now.table + 1 < blocks:
        return now._replace(table=now.table + 1, bound=bytes(len(now.bound)))
    return now._replace(merged_to=now.frozen_to, table=0, bound=bytes(len(now.bound)))


def _key(table: int, bound: bytes) -> bytes:
    return bytes([table]) + bound


def _empty(blocks: int) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
    return np.empty((blocks, 0), np.uint16), np.empty(0, np.uint64)
