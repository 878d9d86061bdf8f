"""Every metric's name, type, labels, buckets and meaning."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `merge` selects a gauge's value if several processes set it.

    >>> Definition("neardup_batches_total", "counter", "Batches delivered.").labels
    ()

    livemostrecent  newest value among live processes; see `forget_gauges`
    max             largest value
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Literal["livemostrecent", "max"] = "livemostrecent"


DOCUMENTS = Definition(
    "neardup_documents_total",
    "counter",
    "Delivered records by verdict and reason, counted after the commit.",
    ("verdict", "reason"),
)
REPLAYED = Definition(
    "neardup_replayed_total",
    "counter",
    "Records delivered with a verdict from the journal, decided before a crash or rebalance.",
)
BATCHES = Definition("neardup_batches_total", "counter", "Delivered and committed batches.")
BATCH_RECORDS = Definition(
    "neardup_batch_records",
    "histogram",
    "Records in a delivered batch.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000),
)
BATCH_BYTES = Definition(
    "neardup_batch_bytes",
    "histogram",
    "Size of all record values in a delivered batch.",
    buckets=tuple(4.0**power for power in range(5, 16)),
)
STEP_SECONDS = Definition(
    "neardup_step_seconds",
    "histogram",
    "Seconds that the loop spent at one step of a delivered batch. Read includes the wait for new records. Decode, "
    "fingerprint, decide and route run ahead: their seconds are the loop's remaining wait.",
    ("step",),
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
)
CANDIDATES = Definition(
    "neardup_candidates",
    "histogram",
    "Index entries compared with one document.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
)
DISTANCE = Definition(
    "neardup_distance",
    "histogram",
    "Hamming distance between a duplicate and its original, in bits. SimHash only.",
    buckets=(0, 1, 2, 3, 4, 5, 6, 7),
)
SIMILARITY = Definition(
    "neardup_similarity",
    "histogram",
    "Similarity between a duplicate and its original. MinHash, or a second look at metadata.",
    buckets=(0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1),
)
UNEQUAL_DUPLICATES = Definition(
    "neardup_unequal_duplicates_total",
    "counter",
    "Delivered near duplicates whose fingerprints differ from their originals', so not exact copies.",
)
WITHOUT_HOST = Definition(
    "neardup_documents_without_host_total",
    "counter",
    "Documents without a host; 0 if the index learns no templates, or decode.host_scope is none.",
)
HOST_DOCUMENTS = Definition(
    "neardup_host_documents",
    "gauge",
    "Recent documents of one of the ten worst hosts, by their share of near (not exact) duplicates.",
    ("host",),
)
HOST_SHARE = Definition(
    "neardup_host_unequal_share",
    "gauge",
    "Share of near (not exact) duplicates among the recent documents of one of the ten worst hosts, 0 to 1.",
    ("host",),
)
HOST_BEYOND = Definition(
    "neardup_host_beyond_limits",
    "gauge",
    "1 if one of the ten worst hosts exceeds the guard's limits, else 0.",
    ("host",),
)
HOSTS_BEYOND = Definition(
    "neardup_hosts_beyond_limits",
    "gauge",
    "Hosts that exceed the guard's limits, including those outside the ten worst.",
)
LAG_RECORDS = Definition(
    "neardup_lag_records",
    "gauge",
    "Unread offsets of a partition, as its worker last saw them.",
    ("topic", "partition"),
)
PARTITIONS_UNOWNED = Definition(
    "neardup_partitions_unowned",
    "gauge",
    "Input partitions that no worker of the group reads (no member, or another program); 0 when healthy.",
)
INDEX_ENTRIES = Definition("neardup_index_entries", "gauge", "Documents in the index that can match.")
INDEX_BYTES = Definition("neardup_index_bytes", "gauge", "Bytes in use by the index.")
INDEX_BYTES_MAX = Definition("neardup_index_bytes_max", "gauge", "Maximum size of the index in bytes.")
OFFSETS_SKIPPED = Definition(
    "neardup_offsets_skipped_total",
    "counter",
    "Offsets skipped because a setting allows it: the broker deleted them unread, or they are damaged.",
    ("topic", "partition"),
)
RESTORED = Definition(
    "neardup_restored_total",
    "counter",
    "Documents restored into the index from the output topics, without a new delivery.",
)
RESTORING_OFFSETS = Definition(
    "neardup_restoring_offsets",
    "gauge",
    "Input offsets that the index still lacks while it is being restored; 0 when complete.",
)
RESTORE_GAPS = Definition(
    "neardup_restore_gaps_total",
    "counter",
    "Output partitions with lost records that the index may need, when a setting allows the restore to continue.",
)
WORKER_RESTARTS = Definition("neardup_worker_restarts_total", "counter", "Worker restarts by cause.", ("cause",))
WORKERS = Definition("neardup_workers", "gauge", "Worker processes by state.", ("state",))
WAITING_RECORDS = Definition(
    "neardup_waiting_records",
    "gauge",
    "Records that the part `route` has read and that wait for their verdicts.",
)
LAST_DELIVERY = Definition(
    "neardup_last_delivery_timestamp_seconds",
    "gauge",
    "Unix time of the last delivered batch; 0 before the first.",
    merge="max",
)
BROKER_CONTACT = Definition(
    "neardup_broker_contact_timestamp_seconds",
    "gauge",
    "Unix time of a worker's last response from the brokers; the service's start before the first.",
    ("worker",),
)
BATCH_AGE = Definition(
    "neardup_batch_age_seconds",
    "gauge",
    "Age of a worker's current batch in seconds, since it was read; 0 without a batch.",
    ("worker",),
)
SHADOW = Definition(
    "neardup_shadow", "gauge", "1 if near-duplicates also go to the unique topic (route.shadow), else 0."
)
BUILD_INFO = Definition(
    "neardup_build_info",
    "gauge",
    "Always 1; its labels are the versions of the filter and of Python.",
    ("version", "python"),
)

DEFINITIONS = tuple(value for value in list(globals().values()) if isinstance(value, Definition))
"""Every metric above, in order."""
