"""Indexes of other programs, in memory, for `bench.index`: fingerprints in, decisions out, by processor time.

Each index is filled with random fingerprints, all unique. Then it decides further ones, one after the other: it looks for
a near-duplicate, and keeps the fingerprint if there is none. The making of the fingerprints is not counted. rensa takes
whole batches.
"""

import time
from collections.abc import Callable

import numpy as np

from index.matching.minhash import similarity_of
from index.storage.parameters import Parameters

MEASURED_ROWS = 2_000
TOKENS = 64
BANDS = 16
"""rensa cuts a signature into bands of equal length."""

Decide = Callable[[int, int], None]


def peers_for(parameters: Parameters, entries: int) -> dict[str, float]:
    """Decisions per processor second of every peer with this scheme, at `entries` entries in memory."""
    if parameters.banding is not None:
        return {
            "datasketch_decisions_per_processor_second": _rate(_datasketch(parameters, entries), entries),
            "rensa_decisions_per_processor_second": _rate(_rensa(parameters, entries), entries),
        }
    return {"simhash_decisions_per_processor_second": _rate(_simhash(parameters, entries), entries)}


def _rate(decide: Decide, entries: int) -> float:
    decide(0, entries)
    begin = time.process_time()
    decide(entries, entries + MEASURED_ROWS)
    return MEASURED_ROWS / (time.process_time() - begin)


def _simhash(parameters: Parameters, entries: int) -> Decide:
    """The `simhash` package: blocks of distance_max + 1, Python sets of text."""
    import simhash

    octets = np.random.default_rng(2).bytes((entries + MEASURED_ROWS) * parameters.bits // 8)
    size = parameters.bits // 8
    made = [
        simhash.Simhash(int.from_bytes(octets[at : at + size], "big"), parameters.bits)
        for at in range(0, len(octets), size)
    ]
    index = simhash.SimhashIndex([], parameters.bits, parameters.distance_max)

    def decide(begin: int, end: int) -> None:
        for row in range(begin, end):
            if not index.get_near_dups(made[row]):
                index.add(str(row), made[row])

    return decide


def _datasketch(parameters: Parameters, entries: int) -> Decide:
    """`datasketch.MinHashLSH` with the filter's bands; values of 8 bytes where the filter's have one."""
    import datasketch

    assert parameters.banding is not None
    bins, banding = parameters.banding.bins, parameters.banding
    values = np.random.default_rng(2).integers(0, 2**32, (entries + MEASURED_ROWS, bins), dtype=np.uint64)
    made = [datasketch.MinHash(num_perm=bins, hashvalues=row, scheme="legacy") for row in values]
    index = datasketch.MinHashLSH(num_perm=bins, params=(banding.bands, banding.rows))

    def decide(begin: int, end: int) -> None:
        for row in range(begin, end):
            if not index.query(made[row]):
                index.insert(row, made[row])

    return decide


def _rensa(parameters: Parameters, entries: int) -> Decide:
    """`rensa.RMinHashLSH`, a thousand at a time; values of 4 bytes where the filter's have one."""
    import rensa

    assert parameters.banding is not None
    bins, similarity = parameters.banding.bins, similarity_of(parameters.distance_max)
    tokens = np.random.default_rng(2).integers(0, 2**63, ((entries + MEASURED_ROWS), TOKENS)).tolist()
    index = rensa.RMinHashLSH(similarity, bins, BANDS)
    made = [
        rensa.RMinHash.digest_matrix_from_token_hash_sets(tokens[at : at + 1000], bins, 42)
        for at in range(0, len(tokens), 1000)
    ]

    def decide(begin: int, end: int) -> None:
        for at in range(begin, end, 1000):
            index.insert_matrix_and_query_duplicate_flags(made[at // 1000], at)

    return decide
