"""Time per step of a batch, and a delivered batch's figures."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from index import NO_DISTANCE, Decisions, Verdict, minhash
from streamer.records.reason import Reason, label
from streamer.records.record import Batch
from streamer.records.relation import IN_BITS, Measure

STEPS = ("read", "decode", "fingerprint", "decide", "route", "commit")
"""The six verbs, in order, as in metrics, dashboard and documentation."""


@dataclass(slots=True)
class Stopwatch:
    """Wall and CPU seconds per step of one batch. `entered` receives each step's name.

    beside_seconds  CPU time of the prefetch thread so far, which no step pays

    >>> entered = []
    >>> with Stopwatch(entered.append, beside_seconds=lambda: 0.0).step("decode"):
    ...     pass
    >>> entered
    ['decode']
    """

    entered: Callable[[str], None]
    beside_seconds: Callable[[], float]
    wall_seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge the block's time to a step in STEPS."""
        self.entered(name)
        wall, cpu = time.perf_counter(), time.process_time() - self.beside_seconds()
        yield
        self.wall_seconds[name] = time.perf_counter() - wall
        self.cpu_seconds[name] = time.process_time() - self.beside_seconds() - cpu


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Figures of one delivered batch, for metrics, progress bars and tables.

    step_seconds      wall time per step in STEPS, including waits
    step_cpu_seconds  CPU time per step, on any thread
    outcomes          documents by (verdict label, reason label)
    distances         int16 [duplicates], to their originals; empty if the index measures similarity
    similarities      float64 [duplicates]; empty if it measures distance
    news              float64 [duplicates], estimated shares that their originals lack, as far as known
    candidates        int64 [newly decided documents], entries compared with each
    unequal           near but unequal duplicates
    replayed          verdicts from the journal

    >>> BatchReport(records=2, value_bytes=900, step_seconds={}, step_cpu_seconds={}).replayed
    0
    """

    records: int
    value_bytes: int
    step_seconds: Mapping[str, float]
    step_cpu_seconds: Mapping[str, float]
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    distances: npt.NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    similarities: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    news: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    candidates: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    unequal: int = 0
    replayed: int = 0


def report(
    batch: Batch, stopwatch: Stopwatch, decisions: Decisions | None = None, measure: Measure = IN_BITS
) -> BatchReport:
    """A delivered batch's figures. `decisions`: None in a part that decides nothing."""
    figures = BatchReport(
        records=len(batch.records),
        value_bytes=sum([len(record.value) for record in batch.records if record.value]),
        step_seconds=stopwatch.wall_seconds,
        step_cpu_seconds=stopwatch.cpu_seconds,
    )
    if decisions is None:
        return figures
    dropped = decisions.verdicts == Verdict.DUPLICATE
    distances, news = decisions.distances[dropped & (decisions.distances != NO_DISTANCE)], measure.news(decisions)
    # Both are bytes.
    pairs = np.bincount(decisions.verdicts.astype(np.int64) << 8 | decisions.reasons)
    return replace(
        figures,
        outcomes={
            (Verdict(verdict).label, label(Verdict(verdict), Reason(reason))): count
            for verdict, reason, count in (
                (pair >> 8, pair & 255, int(pairs[pair])) for pair in np.flatnonzero(pairs).tolist()
            )
        },
        distances=distances[:0] if measure.by_similarity else distances,
        similarities=minhash.similarities_of(distances if measure.by_similarity else distances[:0]),
        news=news[dropped & ~np.isnan(news)],
        candidates=decisions.candidates[~decisions.replayed],
        unequal=int(np.count_nonzero(distances > 0)),
        replayed=int(decisions.replayed.sum()),
    )
