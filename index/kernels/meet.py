"""Rows of a batch that meet: chains of rows by hash, which grow as the walk goes on."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, inner
from index.kernels.scan import Probes


class Chains(NamedTuple):
    """Rows in chains by each of their hashes.

    hashes     uint64 [n, tables], as `Shape.hashes`; an EXACT row has a hash of its fingerprint in every table
    joins      bool [n], rows that others may meet
    meets      bool [n], rows that meet others
    heads      int32 [tables, slots], each chain's last row, or -1; slots is a power of two
    following  int32 [n, tables], the chain's next row, or -1
    seen_by    int64 [n], last row that met this one
    met        int64 [n], rows that `meet` reached last
    end        int64 [1], end of the rows in the chains
    tables     int64 [k], as in `Probes`
    flips      uint64 [k], as in `Probes`
    compared   uint64, the hash bits that must be equal
    """

    hashes: npt.NDArray[np.uint64]
    joins: npt.NDArray[np.bool_]
    meets: npt.NDArray[np.bool_]
    heads: npt.NDArray[np.int32]
    following: npt.NDArray[np.int32]
    seen_by: npt.NDArray[np.int64]
    met: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]
    flips: npt.NDArray[np.uint64]
    compared: np.uint64


def chains_of(
    hashes: npt.NDArray[np.uint64], joins: npt.NDArray[np.bool_], meets: npt.NDArray[np.bool_], probes: Probes
) -> Chains:
    """Empty chains for rows with these hashes, uint64 [n, tables]; joins, meets: as in `Chains`."""
    count, tables = hashes.shape
    # More than twice as many slots as rows, a power of two: 5 rows, 16 slots.
    heads = np.full((tables, 1 << (2 * count).bit_length()), -1, np.int32)
    reached = np.full(count, -1, np.int64), np.empty(count, np.int64), np.zeros(1, np.int64)
    following = np.empty(hashes.shape, np.int32)
    return Chains(hashes, joins, meets, heads, following, *reached, probes.tables, probes.flips, ~probes.free)


def no_chains(count: int) -> Chains:
    """Chains in which none of so many rows meets another."""
    nobody, nothing = np.zeros(count, np.bool_), np.empty(0, np.uint64)
    probes = Probes(np.empty(0, np.int64), nothing, np.uint64(0), np.empty(0, np.int64), 0)
    return chains_of(np.empty((count, 0), np.uint64), nobody, nobody, probes)


@inner
def _slot(value: Any, slots: int) -> Any:
    """Slot for a hash in a table with `slots` slots, a power of two: int64."""
    return np.int64((value >> np.uint64(48)) & np.uint64(slots - 1))


@compiled
def meet(row: int, chains: Chains, entering: npt.NDArray[np.bool_]) -> int:
    """Put earlier entries that share a probed hash with a row into `met`; returns their number. entering: bool [n]."""
    tables, slots = chains.heads.shape
    for other in range(chains.end[0], row):
        if chains.joins[other] and entering[other]:
            for table in range(tables):
                slot = _slot(chains.hashes[other, table], slots)
                chains.following[other, table] = chains.heads[table, slot]
                chains.heads[table, slot] = other
    chains.end[0] = row
    count = 0
    for probe in range(len(chains.tables)):
        table = chains.tables[probe]
        wanted = chains.hashes[row, table] ^ chains.flips[probe]
        place = np.int64(chains.heads[table, _slot(wanted, slots)])
        while place >= 0:
            if (chains.hashes[place, table] ^ wanted) & chains.compared == 0 and chains.seen_by[place] != row:
                chains.seen_by[place] = row
                chains.met[count] = place
                count += 1
            place = np.int64(chains.following[place, table])
    return count
