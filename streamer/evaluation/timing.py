"""Decision time by number of documents, with the index and by brute force, as numbers and as SVG."""

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from index import Index, Parameters, Source
from index.tools import compile_kernels
from streamer.evaluation.scores import entries_of
from streamer.fingerprint.fingerprints import Fingerprints

FIRST = 1_000
"""Documents in the index at the first measurement; doubles each time."""

TIMED = 200
"""Timed documents at each size, the stream's next ones."""


_COLOURS = {"with the index": "#1d4ed8", "without": "#c2410c"}
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 720, 300, 60, 40, 44, 24


class Timing(NamedTuple):
    """Processor time per document in microseconds, by number of indexed documents."""

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
            measured.append(Timing(size, with_index / len(rows) * 1e6, without / len(rows) * 1e6))
            done = rows.stop
    return measured


def drawn(measured: Sequence[Timing]) -> str:
    """SVG with both times on logarithmic axes. Needs a timing."""
    times = [[each.with_index_us for each in measured], [each.without_us for each in measured]]
    # A coarse clock may measure 0.
    lowest, highest = (math.log10(max(bound(map(bound, times)), 0.1)) for bound in (min, max))
    bottom, top = math.floor(lowest), max(math.ceil(highest), math.floor(lowest) + 1)
    first, last = (math.log(measured[place].documents) for place in (0, -1))

    def across(documents: int) -> float:
        return _LEFT + (math.log(documents) - first) / ((last - first) or 1) * (_WIDTH - _LEFT)

    def up(microseconds: float) -> float:
        share = (math.log10(max(microseconds, 10**bottom)) - bottom) / (top - bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f"<svg viewBox='0 0 {_WIDTH + _RIGHT} {_HEIGHT}' role='img' aria-label='time over the number of documents'>"
    ]
    parts.append(f"<path d='M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH}' stroke='#6b7280' fill='none'/>")
    for place, ((name, colour), values) in enumerate(zip(_COLOURS.items(), times, strict=True)):
        points = [
            (across(each.documents), up(value), each.documents, value)
            for each, value in zip(measured, values, strict=True)
        ]
        line = " ".join(f"{'ML'[number > 0]}{x:.1f} {y:.1f}" for number, (x, y, _, _) in enumerate(points))
        parts.append(f"<path d='{line}' stroke='{colour}' stroke-width='1.5' fill='none'/>")
        parts += [
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'><title>{name}, {documents:,} documents: "
            f"{value:,.1f} us</title></circle>"
            for x, y, documents, value in points
        ]
        parts.append(
            f"<text x='{_LEFT + 20 + place * 120}' y='{_TOP - 8}' font-size='11' fill='{colour}'>{name}</text>"
        )
    parts += [
        f"<text x='{across(each.documents):.1f}' y='{_HEIGHT - _BOTTOM + 16}' font-size='11' text-anchor='middle'>"
        f"{each.documents:,}</text>"
        for each in measured
    ]
    parts += [
        f"<text x='{_LEFT - 6}' y='{up(10**decade) + 4:.1f}' font-size='11' text-anchor='end'>{10**decade:,g}</text>"
        for decade in range(bottom, top + 1)
    ]
    parts.append(
        f"<text x='{_WIDTH}' y='{_HEIGHT - 6}' font-size='11' text-anchor='end'>documents in the index; microseconds of "
        "processor time per document</text></svg>"
    )
    return "".join(parts)
