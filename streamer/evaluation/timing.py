"""What a decision takes over the number of documents in the index: by the index, and by comparing with every document."""

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from index import Index, Parameters, Source
from index.tools import compile_kernels
from streamer.evaluation.scores import entries_of
from streamer.fingerprint.fingerprints import Fingerprints

FIRST = 1_000
"""Documents in the index at the first measurement; the number doubles from one to the next."""

TIMED = 200
"""Documents that are timed at each size: the next ones of the stream."""


class Timing(NamedTuple):
    """Processor time in microseconds a document, with so many documents in the index."""

    documents: int
    with_index_us: float
    without_us: float


def timings(fingerprints: Fingerprints, parameters: Parameters) -> list[Timing]:
    """Times at FIRST, twice FIRST, ... documents, as far as the stream goes; at half of a stream too short for that.

    All documents enter the index. Without it, a document is compared with all fingerprints at once, by the same kernels'
    arithmetic over arrays; what the index does beside comparing (writing, journal) is then left out.
    """
    compile_kernels()
    count = len(fingerprints)
    sizes = [size for size in (FIRST * 2**step for step in range(32)) if size + TIMED <= count] or [count // 2]
    source, found = Source("evaluation", 0), []
    with (
        tempfile.TemporaryDirectory(prefix="evaluation-") as folder,
        Index.open(Path(folder), parameters, map_bytes_max=2**40) as index,
    ):
        done = 0
        for size in sizes:
            for begin in range(done, size, FIRST):
                rows = range(begin, min(begin + FIRST, size))
                index.admit(entries_of(fingerprints, rows, source), {source: rows.stop})
            rows = range(size, min(size + TIMED, count))
            begun = time.process_time()
            index.admit(entries_of(fingerprints, rows, source), {source: rows.stop})
            with_index = time.process_time() - begun
            begun = time.process_time()
            for row in rows:
                one = np.broadcast_to(fingerprints.fingerprints[row], fingerprints.fingerprints[:size].shape)
                _ = parameters.distances(one, fingerprints.fingerprints[:size]).argmin()
            without = time.process_time() - begun
            found.append(Timing(size, with_index / len(rows) * 1e6, without / len(rows) * 1e6))
            done = rows.stop
    return found
