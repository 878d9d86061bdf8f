"""Warming the JIT cache: compiles all kernels of the index before the first batch needs them.

The cache is the package's folder, or the user's own cache if that is not writable.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from index.entry import Entries, Kind, Position, Source, Verdict
from index.index import Index
from index.lsm.compaction import MemtablePair, TreeSizes
from index.lsm.id_table import IdTable
from index.lsm.lookup import lookup_of
from index.lsm.tree import Tree
from index.matching.frame import FrameRule
from index.matching.minhash import Banding, pack_bins
from index.matching.root import RootRule
from index.session import Longer, Recrawl
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import COUNTERS_KEY, Table, pack_counters, unpack_counters
from index.storage.parameters import Parameters
from index.storage.store import Store, Transaction
from index.tools.bulk_load import SortedPair

SCHEMES = (Parameters(), Parameters(512, banding=Banding(64, 8, 2, 4)))


@contextmanager
def temporary_index(parameters: Parameters, **options: Any) -> Iterator[Index]:
    """Empty index for the length of the context; `options` as for `Index.open`."""
    with tempfile.TemporaryDirectory() as directory, Index.open(Path(directory), parameters, **options) as index:
        yield index


def compile_kernels() -> None:
    """Run every kernel once, on temporary files; compiles only the kernels that the cache lacks."""
    for parameters, new_pair in product(SCHEMES, (MemtablePair, SortedPair)):
        with tempfile.TemporaryDirectory() as directory:
            store = Store(
                Path(directory), map_bytes_initial=2**24, map_bytes_max=2**24, read_only=False, hooks=CommitHooks()
            )
            store.prepare(Table)
            tree = Tree(parameters, TreeSizes(1, 64), new_pair)
            for number in range(4):
                store.write(partial(_enter, tree=tree, parameters=parameters, number=number), tree.committed)
            # The next `follow` takes back uncommitted entries.
            store.write(partial(_enter, tree=tree, parameters=parameters, number=4))
            store.write(tree.follow)
            store.write(_look_up_missing)
            store.close()
    banding = Banding(64, 8, 2, 4)
    _enter_pages(Parameters(512, 9_000, "root", {}, banding, root=RootRule(9_000, 0), frames=FrameRule(1)))
    Longer().exceeded(np.ones(1, np.uint32), np.ones(1, np.uint32))


def compile_first(parameters: Parameters) -> Iterator[None]:
    """Compile the kernels that deciding with these parameters needs and the cache lacks. Yields after those of a first batch."""
    source, count = Source("warm-up", 0), 8
    kinds, zeros = np.full(count, Kind.NEAR, np.uint8), np.zeros(count, np.uint8)
    # Some are equal, others near: row 3 has all bits of row 1 and one more.
    prints = np.repeat(np.array([[3], [3], [5], [7], [2**40], [9], [11], [13]], np.uint64), parameters.words, axis=1)
    numbers, times_ms = np.zeros(count, np.uint32), np.zeros(count, np.int64)
    looks = np.zeros((count, parameters.look_bytes), np.uint8)
    digests, lengths = np.arange(2 * count, dtype=np.uint64).reshape(count, 2), np.full(count, 100, np.uint32)
    rest: dict[str, Any] = {"named": kinds > 0, "looks": looks, "digests": digests, "lengths": lengths}
    with temporary_index(parameters, map_bytes_max=2**24, recrawl=Recrawl("update")) as index:
        for begin, hosts in ((0, None), (count, ["warm-up"] * count)):
            offsets, ids = np.arange(begin, begin + count, dtype=np.uint64), [str(each) for each in range(count)]
            entries = Entries((source,), numbers, offsets, kinds, zeros, prints, times_ms, ids, hosts=hosts, **rest)
            index.admit(entries, {source: begin + count})
            yield


def _enter_pages(parameters: Parameters) -> None:
    """Decide on pages from a host whose frame is known soon, some twice, in two batches; then restore some."""
    banding = parameters.banding
    assert banding is not None
    values = np.ones((8, banding.bins), np.uint8)
    for page in range(len(values)):
        values[page, 8 + 6 * page : 14 + 6 * page] = 2 + page
    source, count = Source("warm-up", 0), len(values)
    kinds, zeros = np.full(count, Kind.NEAR, np.uint8), np.zeros(count, np.uint8)
    with temporary_index(parameters, map_bytes_max=2**24, recrawl=Recrawl("update")) as index:
        for begin in (0, count):
            offsets = np.arange(begin, begin + count, dtype=np.uint64)
            # The second batch repeats pages of the first.
            ids = [str(offset % count) for offset in offsets.tolist()]
            numbers, times_ms = np.zeros(count, np.uint32), np.zeros(count, np.int64)
            signatures, hosts = pack_bins(values, banding.bin_bits), ["warm-up"] * count
            pages = Entries((source,), numbers, offsets, kinds, zeros, signatures, times_ms, ids, hosts=hosts)
            index.admit(pages, {source: begin + count})
            index.check(pages)
            index.judged(pages)
            values[:, 3] = 7
        again = replace(pages, offsets=np.arange(2 * count, 3 * count, dtype=np.uint64))
        verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
        # A duplicate is judged again, for it may be a member.
        verdicts[1] = Verdict.DUPLICATE
        originals = [None, Position(source, 2 * count), *[None] * (count - 2)]
        index.restore(again, verdicts, originals, {source: 3 * count})


def _look_up_missing(transaction: Transaction) -> None:
    transaction.add(Table.EXACT, [b"a" * 8], [bytes(8)])
    transaction.get_many(Table.EXACT, [b"b" * 8])
    ids = IdTable(TreeSizes())
    ids.follow(transaction)
    ids.newest(transaction, ["a"])


def _enter(transaction: Transaction, tree: Tree, parameters: Parameters, number: int) -> None:
    """Add an entry and look one up. By the last call segments hold the first entries."""
    tree.follow(transaction)
    fingerprints = np.full((1, parameters.stored_words), number + 1, np.uint64)
    tree.add(fingerprints, np.array([number], np.uint64))
    lookup = lookup_of(np.ones_like(fingerprints), parameters, parameters.distance_max)
    list(tree.matches(transaction, lookup))
    counters = unpack_counters(None)._replace(next_number=number + 1)
    transaction.put(Table.META, COUNTERS_KEY, pack_counters(counters))
    tree.end_batch(transaction, counters)
