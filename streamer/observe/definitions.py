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


def counter(name: str, meaning: str, *labels: str) -> Definition:
    """Define a counter."""
    return Definition(name, "counter", meaning, labels)


def gauge(
    name: str, meaning: str, *labels: str, merge: Literal["livemostrecent", "max"] = "livemostrecent"
) -> Definition:
    """Define a gauge."""
    return Definition(name, "gauge", meaning, labels, merge=merge)


def histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Definition:
    """Define a histogram."""
    return Definition(name, "histogram", meaning, labels, buckets)


DOCUMENTS = counter(
    "neardup_documents_total", "Delivered records by verdict and reason, counted after the commit.", "verdict", "reason"
)
REPLAYED = counter(
    "neardup_replayed_total", "Records delivered with a verdict from the journal, decided before a crash or rebalance."
)
BATCHES = counter("neardup_batches_total", "Delivered and committed batches.")
BATCH_RECORDS = histogram(
    "neardup_batch_records",
    "Records in a delivered batch.",
    (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000),
)
BATCH_BYTES = histogram(
    "neardup_batch_bytes",
    "Size of all record values in a delivered batch.",
    tuple(4.0**power for power in range(5, 16)),
)
STEP_SECONDS = histogram(
    "neardup_step_seconds",
    "Seconds that the loop spent at one step of a delivered batch. Read includes the wait for new records. Decode, "
    "fingerprint, decide and route run ahead: their seconds are the loop's remaining wait.",
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
    "step",
)
CANDIDATES = histogram(
    "neardup_candidates",
    "Index entries compared with one document.",
    (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
)
DISTANCE = histogram(
    "neardup_distance",
    "Hamming distance between a duplicate and its original, in bits. SimHash only.",
    (0, 1, 2, 3, 4, 5, 6, 7),
)
SIMILARITY = histogram(
    "neardup_similarity",
    "Similarity between a duplicate and its original. MinHash, or a second look at metadata.",
    (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1),
)
NEW_SHARE = histogram(
    "neardup_new_share",
    "Estimated share in a duplicate's text that its original lacks. MinHash only.",
    (0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
)
UNEQUAL_DUPLICATES = counter(
    "neardup_unequal_duplicates_total",
    "Delivered near duplicates whose fingerprints differ from their originals', so not exact copies.",
)
PROTECTED = counter(
    "neardup_protected_matches_total",
    "Delivered documents that resemble an entry in a protected set (index.protected), whatever their verdict.",
    "set",
)
WITHOUT_HOST = counter(
    "neardup_documents_without_host_total",
    "Documents without a host; 0 if the index learns no templates, or decode.host_scope is none.",
)
ODD_TIMES = counter(
    "neardup_odd_times_total",
    "Documents whose time (decode.time) was not understood, so that their record's timestamp counts.",
)
WITHOUT_SCOPE = counter(
    "neardup_documents_without_scope_total",
    "Documents without a scope (decode.scope), which are compared with each other; 0 if the setting is unset.",
)
HOST_DOCUMENTS = gauge(
    "neardup_host_documents",
    "Recent documents of one of the ten worst hosts, by their share of near (not exact) duplicates.",
    "host",
)
HOST_SHARE = gauge(
    "neardup_host_unequal_share",
    "Share of near (not exact) duplicates among the recent documents of one of the ten worst hosts, 0 to 1.",
    "host",
)
HOST_BEYOND = gauge(
    "neardup_host_beyond_limits", "1 if one of the ten worst hosts exceeds the guard's limits, else 0.", "host"
)
HOSTS_BEYOND = gauge(
    "neardup_hosts_beyond_limits", "Hosts that exceed the guard's limits, including those outside the ten worst."
)
LAG_RECORDS = gauge(
    "neardup_lag_records", "Unread offsets of a partition, as its worker last saw them.", "topic", "partition"
)
PARTITIONS_UNOWNED = gauge(
    "neardup_partitions_unowned",
    "Input partitions that no worker of the group reads (no member, or another program); 0 when healthy.",
)
INDEX_ENTRIES = gauge("neardup_index_entries", "Documents in the index that can match.")
INDEX_BYTES = gauge("neardup_index_bytes", "Bytes in use by the index.")
INDEX_BYTES_MAX = gauge(
    "neardup_index_bytes_max",
    "Size that the index file can reach: index.map_bytes_max, or less if its disk is full before.",
)
INDEX_DISK_FREE_BYTES = gauge("neardup_index_disk_free_bytes", "Free bytes on the file system that holds the index.")
STORIES = gauge("neardup_stories", "Stories in the index: kept documents with duplicates. 0 without topics.stories.")
STORY_DOCUMENTS = histogram(
    "neardup_story_documents",
    "Documents in a story, at each writing of its value.",
    (1, 2, 4, 9, 19, 49, 99, 199, 499, 999, 1_999, 4_999, 9_999),
)
OFFSETS_SKIPPED = counter(
    "neardup_offsets_skipped_total",
    "Offsets skipped because a setting allows it: the broker deleted them unread, or they are damaged.",
    "topic",
    "partition",
)
RESTORED = counter(
    "neardup_restored_total", "Documents restored into the index from the output topics, without a new delivery."
)
RESTORING_OFFSETS = gauge(
    "neardup_restoring_offsets", "Input offsets that the index still lacks while it is being restored; 0 when complete."
)
RESTORE_GAPS = counter(
    "neardup_restore_gaps_total",
    "Output partitions with lost records that the index may need, when a setting allows the restore to continue.",
)
WORKER_RESTARTS = counter("neardup_worker_restarts_total", "Worker restarts by cause.", "cause")
WORKERS = gauge("neardup_workers", "Worker processes by state.", "state")
WAITING_RECORDS = gauge(
    "neardup_waiting_records", "Records that the part `route` has read and that wait for their verdicts."
)
LAST_DELIVERY = gauge(
    "neardup_last_delivery_timestamp_seconds", "Unix time of the last delivered batch; 0 before the first.", merge="max"
)
BROKER_CONTACT = gauge(
    "neardup_broker_contact_timestamp_seconds",
    "Unix time of a worker's last response from the brokers; the service's start before the first.",
    "worker",
)
BATCH_AGE = gauge(
    "neardup_batch_age_seconds",
    "Age of a worker's current batch in seconds, since it was read; 0 without a batch.",
    "worker",
)
AUDIT_RECALL = gauge(
    "neardup_audit_recall",
    "Of sampled documents with a near-duplicate that was kept before, the share dropped or named: the estimate over the last "
    "hour and day, and the bounds of its 95 % interval. NaN while too little was seen.",
    "window",
    "bound",
)
AUDIT_PRECISION = gauge(
    "neardup_audit_precision",
    "Of sampled duplicates, the share that exact counting confirms; as neardup_audit_recall.",
    "window",
    "bound",
)
AUDIT_SAMPLED = gauge("neardup_audit_sampled", "Documents that the audit has sampled within a day.")
AUDIT_KEPT_HOSTS = gauge(
    "neardup_audit_kept_hosts", "Most hosts from which one article was kept within a day, by the audit's sample."
)
SHADOW = gauge("neardup_shadow", "1 if near-duplicates also go to the unique topic (route.shadow), else 0.")
BUILD_INFO = gauge(
    "neardup_build_info", "Always 1; its labels are the versions of the filter and of Python.", "version", "python"
)

DEFINITIONS = tuple(value for value in list(globals().values()) if isinstance(value, Definition))
"""Every metric above, in order."""
