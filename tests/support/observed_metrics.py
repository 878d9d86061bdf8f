"""One made-up batch, with every verdict and reason, and all else that a worker measures."""

import numpy as np

from index import HostShare, WatchedHosts
from streamer.observe import definitions, metrics
from streamer.observe.batch_report import STEPS, BatchReport
from streamer.records import reason

BATCH_RECORDS = 200


def observe_everything(measures: metrics.Metrics, random: np.random.Generator) -> None:
    """Observe one made-up batch, with every verdict and reason, and all else that a worker measures."""
    pairs = reason.labels()
    measures.observe_batch(
        BatchReport(
            records=BATCH_RECORDS,
            value_bytes=2_000 * BATCH_RECORDS,
            step_seconds={step: float(random.exponential(0.02)) for step in STEPS},
            step_cpu_seconds={},
            outcomes=dict.fromkeys(pairs, BATCH_RECORDS // len(pairs)),
            distances=random.integers(0, 4, size=BATCH_RECORDS // 5).astype(np.int16),
            similarities=random.uniform(0.7, 1, size=BATCH_RECORDS // 5),
            candidates=random.geometric(0.1, size=BATCH_RECORDS),
            unequal=10,
            replayed=1,
        )
    )
    measures.count(definitions.PROTECTED, 3, "evaluation")
    measures.show_hosts(
        WatchedHosts([HostShare("site.example", 200, 190, True), HostShare("b.example", 9, 3, False)], 1)
    )
    for gauge in (definitions.PARTITIONS_UNOWNED, definitions.RESTORING_OFFSETS, definitions.WAITING_RECORDS):
        measures.set(gauge, 0)
    for gauge in (definitions.AUDIT_RECALL, definitions.AUDIT_PRECISION):
        for window in ("hour", "day"):
            for bound, share in (("low", 0.95), ("estimate", 0.97), ("high", 0.99)):
                measures.set(gauge, share, window, bound)
    measures.set(definitions.AUDIT_SAMPLED, 900)
    measures.set(definitions.AUDIT_KEPT_HOSTS, 1)
    measures.set(definitions.BROKER_CONTACT, 1.7e9, 0)
    measures.set(definitions.BATCH_AGE, 0.5, 0)
    measures.observe_lags({("documents", partition): int(random.integers(1, 100)) for partition in range(4)})
    measures.set(definitions.INDEX_ENTRIES, int(random.integers(1_000, 2_000)))
    measures.set(definitions.INDEX_BYTES, int(random.integers(2**20, 2**21)))
    measures.set(definitions.STORIES, int(random.integers(10, 20)))
