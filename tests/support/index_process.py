"""A process of its own that admits a known stream of documents: what tests kill, and run two of at once.

    python -m tests.support.index_process DIRECTORY PARTITION BATCHES [KILL_MOMENT KILL_COMMIT]

It goes on behind the applied offset of its source, admits batch after batch and prints the offset behind each. At the
KILL_COMMIT-th commit it kills itself with SIGKILL, either `before` or `after` that commit.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from index.entry import Source
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.storage.file.commit_hooks import CommitHooks
from index.storage.parameters import Parameters
from tests.support.entries import Row, clustered_fingerprints, ends_of, entries_of

PARAMETERS = Parameters(64, 3, "unique", {})
MAP_BYTES_MAX = 2**30
MAP_BYTES_INITIAL = 2**20
BATCH_ROWS = 50
SIZES = TreeSizes(memtable_entries=120, segment_bytes=256)
"""So small that almost every batch moves entries, and runs freeze and end again and again."""
DOCUMENTS = 2_000


def source_of(partition: int) -> Source:
    return Source("stream", partition)


def rows_of(partition: int) -> list[Row]:
    """The stream: the same fingerprints in every partition, in odd ones from the other end."""
    fingerprints = clustered_fingerprints(np.random.default_rng(7), DOCUMENTS, 64, centres=200)
    if partition % 2:
        fingerprints.reverse()
    source = source_of(partition)
    return [Row(offset, fingerprint, source, id=f"{offset} " * 100) for offset, fingerprint in enumerate(fingerprints)]


def suicide(moment: str, commit: int) -> CommitHooks:
    commits = 0

    def hook_of(own_moment: str) -> Callable[[], None]:
        def hook() -> None:
            nonlocal commits
            commits += own_moment == "before"
            if own_moment == moment and commits == commit:
                os.kill(os.getpid(), signal.SIGKILL)

        return hook

    return CommitHooks(hook_of("before"), hook_of("after"))


def main(directory: str, partition: str, batches: str, moment: str = "", commit: str = "0") -> None:
    rows, source = rows_of(int(partition)), source_of(int(partition))
    hooks = suicide(moment, int(commit))
    options = {
        "map_bytes_max": MAP_BYTES_MAX,
        "map_bytes_initial": MAP_BYTES_INITIAL,
        "hooks": hooks,
        "sizes": SIZES,
    }
    with Index.open(Path(directory), PARAMETERS, **options) as index:  # type: ignore[arg-type]
        print("open", flush=True)
        sys.stdin.readline()
        at = index.applied()[source].offset if source in index.applied() else 0
        for _ in range(int(batches)):
            part = rows[at : at + BATCH_ROWS]
            if not part:
                break
            index.admit(entries_of(part), ends_of(part))
            at += len(part)
            print(at, flush=True)
            # LMDB's lock is not fair: whoever has it would take it again before a waiting process wakes up.
            time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
