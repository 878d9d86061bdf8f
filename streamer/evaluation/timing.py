"""Decision time by number of documents, with the index and by brute force, as numbers and as SVG."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from index import Parameters, Source
from index.tools import compile_kernels, temporary_index
from streamer.evaluation.chart import Chart
from streamer.evaluation.scores import entries_of
from streamer.fingerprint.fingerprints import Fingerprints

FIRST = 1_000
"""Documents in the index at the first measurement; doubles each time."""

TIMED = 200
"""Timed documents at each size, the stream's next ones."""


class Timing(NamedTuple):
    """Processor time per document in microseconds, by number of indexed documents.

    >>> one = Timing(documents=1_000_000, with_index_us=95.0, without_us=80.0)
    >>> one.with_index_us - one.without_us
    15.0
    """

    documents: int
    with_index_us: float
    without_us: float


def timings(fingerprints: Fingerprints, parameters: Parameters) -> list[Timing]:
    """Measure at FIRST, 2 FIRST, 4 FIRST, ... documents; a shorter stream at its half.

    Brute force compares with all fingerprints in arrays, and writes nothing.
    """
    compile_kernels()
    count = len(fingerprints)
    sizes = [size for size in (FIRST * 2**step for step in range(32)) if size + TIMED <= count] or [count // 2]
    source, measured = Source("evaluation", 0), []
    with temporary_index(parameters, map_bytes_max=2**40) as index:
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
            measured.append(Timing(size, with_index / len(rows) * 1e6, without / len(rows) * 1e6))
            done = rows.stop
    return measured


def drawn(measured: Sequence[Timing]) -> str:
    """SVG with both times on logarithmic axes. Needs a timing."""
    series = {
        "with the index": [each.with_index_us for each in measured],
        "without": [each.without_us for each in measured],
    }
    # A coarse clock may measure 0.
    lowest, highest = (math.log10(max(bound(map(bound, series.values())), 0.1)) for bound in (min, max))
    bottom, top = math.floor(lowest), max(math.ceil(highest), math.floor(lowest) + 1)
    first, last = (math.log(measured[place].documents) for place in (0, -1))
    across = [(math.log(each.documents) - first) / ((last - first) or 1) for each in measured]
    chart = Chart("time over the number of documents")
    for name, times in series.items():
        up = [(math.log10(max(time_us, 10**bottom)) - bottom) / (top - bottom) for time_us in times]
        titles = [
            f"{name}, {each.documents:,} documents: {time_us:,.1f} us"
            for each, time_us in zip(measured, times, strict=True)
        ]
        chart.dots(name, zip(across, up, titles, strict=True))
    chart.marks_across((place, f"{each.documents:,}") for place, each in zip(across, measured, strict=True))
    chart.marks_up(((decade - bottom) / (top - bottom), f"{10**decade:,g}") for decade in range(bottom, top + 1))
    return chart.svg("documents in the index; microseconds of processor time per document")
