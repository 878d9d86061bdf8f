"""A process of its own that loads a known stream of documents into an index: what tests kill.

    python -m tests.support.loading_process DIRECTORY [KILL_MOMENT KILL_COMMIT]

It loads all of it, from the first row on. At the KILL_COMMIT-th commit it kills itself, `before` or `after` that commit.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from index.entry import Entries, Position, Verdict
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.storage.parameters import Parameters
from index.tools import bulk_load
from index.tools.bulk_load import BulkLoader
from tests.support.entries import ONE, Row, entries_of
from tests.support.index_process import suicide

PARAMETERS = Parameters(64, 3, "unique", {})
SIZES = TreeSizes(memtable_entries=10**6, segment_bytes=256)
BATCH_ROWS = 40
PORTION_ENTRIES = 150
DOCUMENTS = 500


def loaded_entries() -> Entries:
    """Every fifth document equals one before it."""
    generator = np.random.default_rng(3)
    fingerprints = generator.integers(1, 2**63, DOCUMENTS)
    fingerprints[::5] = fingerprints[generator.integers(0, DOCUMENTS, len(fingerprints[::5]))]
    return entries_of([Row(offset, int(each), id=f"id {offset}") for offset, each in enumerate(fingerprints)])


def loaded_batches() -> Iterator[Entries]:
    rows = loaded_entries()
    for begin in range(0, len(rows), BATCH_ROWS):
        yield rows.take(np.arange(begin, min(len(rows), begin + BATCH_ROWS)))


def verdicts_of(entries: Entries) -> tuple[np.ndarray, list[Position | None]]:
    """All unique."""
    return np.full(len(entries), Verdict.UNIQUE, np.uint8), [None] * len(entries)


def main(directory: str, moment: str = "", commit: str = "0") -> None:
    # Every slice that moves on is a commit of its own.
    bulk_load.MOVING_SECONDS = 0.0
    hooks = suicide(moment, int(commit))
    with Index.open(Path(directory), PARAMETERS, map_bytes_max=2**30, sizes=SIZES, hooks=hooks) as index:
        print("open", flush=True)
        load = BulkLoader(index, PORTION_ENTRIES)
        for entries in loaded_batches():
            load.restore(entries, *verdicts_of(entries), {ONE: int(entries.offsets[-1]) + 1})
        load.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
