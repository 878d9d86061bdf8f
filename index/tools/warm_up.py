"""Make the machine code of all kernels of the index before it is needed. The code is kept beside the package, or, where
that is not writable, in the cache of the user who runs this.
"""

import tempfile
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from index.lsm.compaction import Merging, Run
from index.lsm.exact_lookup import equals_of
from index.lsm.tree import Search, wanted
from index.matching.minhash import Banding
from index.storage.layout import COUNTERS_KEY, Table, pack_counters, unpack_counters
from index.storage.parameters import Parameters
from index.storage.store import CommitHooks, Store, Transaction
from index.tools.bulk_load import SortedRun

SCHEMES = (Parameters(), Parameters(512, banding=Banding(64, 8, 2, 4)))


def compile_kernels() -> None:
    """Run every kernel once, in files that are thrown away. Compiles what no process of this user has compiled yet."""
    for parameters, new_run in product(SCHEMES, (Run, SortedRun)):
        with tempfile.TemporaryDirectory() as directory:
            store = Store(
                Path(directory), map_bytes_initial=2**24, map_bytes_max=2**24, read_only=False, hooks=CommitHooks()
            )
            store.prepare(Table)
            search = Search(parameters, Merging(1, 64), new_run)
            for number in range(4):
                enter = partial(_enter, search=search, parameters=parameters, number=number)
                store.write(enter, search.committed)
            # What is not committed is taken back.
            store.write(partial(_enter, search=search, parameters=parameters, number=4))
            store.write(search.follow)
            store.close()


def _enter(transaction: Transaction, search: Search, parameters: Parameters, number: int) -> None:
    """Add an entry and look one up. The first ones stand in chunks when the last ones are looked up."""
    search.follow(transaction)
    fingerprints = np.full((1, parameters.words), number + 1, np.uint64)
    search.add(fingerprints, np.array([number], np.uint64))
    search.nearest(transaction, equals_of(fingerprints, parameters))
    look_up = wanted(np.ones_like(fingerprints), parameters, parameters.distance_max)
    look_up.pairs(nearest_only=True)
    search.nearest(transaction, look_up)
    counters = unpack_counters(None)._replace(next_number=number + 1)
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
    search.advance(transaction, number + 1, 0)
