"""Every metric: name, type, labels, buckets and meaning."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `merge` says which process's value of a gauge is shown where several have one.

    livemostrecent  the newest, of the processes that live; see `forget_gauges`
    max             the largest, of all that ever lived
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
    "Records delivered, by verdict and reason. Counted after the delivery is committed.",
    ("verdict", "reason"),
)
REPLAYED = Definition(
    "neardup_replayed_total",
    "counter",
    "Records delivered with a verdict from the journal: they were decided before a crash or a rebalance.",
)
BATCHES = Definition("neardup_batches_total", "counter", "Batches delivered and committed.")
BATCH_RECORDS = Definition(
    "neardup_batch_records",
    "histogram",
    "Records in a delivered batch.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000),
)
BATCH_BYTES = Definition(
    "neardup_batch_bytes",
    "histogram",
    "Bytes of record values in a delivered batch.",
    buckets=tuple(4.0**power for power in range(5, 16)),
)
STEP_SECONDS = Definition(
    "neardup_step_seconds",
    "histogram",
    "Seconds that the loop was at one step of one delivered batch. The step read includes the wait for new records. "
    "Decode, fingerprint, decide and route are taken ahead: theirs is what the loop then had left to wait for.",
    ("step",),
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100),
)
CANDIDATES = Definition(
    "neardup_candidates",
    "histogram",
    "Entries of the index that one document was compared with.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
)
DISTANCE = Definition(
    "neardup_distance",
    "histogram",
    "Hamming distance of one duplicate to its original, in bits. SimHash only.",
    buckets=(0, 1, 2, 3, 4, 5, 6, 7),
)
SIMILARITY = Definition(
    "neardup_similarity",
    "histogram",
    "Similarity of one duplicate to its original. MinHash, or a second look at metadata.",
    buckets=(0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1),
)
UNEQUAL_DUPLICATES = Definition(
    "neardup_unequal_duplicates_total",
    "counter",
    "Duplicates delivered that are near but unequal to their original: no copies of it, as far as fingerprints tell.",
)
WITHOUT_HOST = Definition(
    "neardup_documents_without_host_total",
    "counter",
    "Documents read that name no host. 0 where no templates of sites are learnt, or decode.host_scope is none.",
)
HOST_DOCUMENTS = Definition(
    "neardup_host_documents",
    "gauge",
    "Recent documents of one of the ten worst hosts: those with the largest share of near but unequal duplicates.",
    ("host",),
)
HOST_SHARE = Definition(
    "neardup_host_unequal_share",
    "gauge",
    "Share of near but unequal duplicates among the recent documents of one of the ten worst hosts, 0 to 1.",
    ("host",),
)
HOST_BEYOND = Definition(
    "neardup_host_beyond_limits",
    "gauge",
    "Whether one of the ten worst hosts is beyond the limits of the guard: 1, else 0.",
    ("host",),
)
HOSTS_BEYOND = Definition(
    "neardup_hosts_beyond_limits", "gauge", "Hosts beyond the limits of the guard, also those that are not shown."
)
LAG_RECORDS = Definition(
    "neardup_lag_records",
    "gauge",
    "Unread offsets of a partition, as last seen by the worker that owns the partition.",
    ("topic", "partition"),
)
PARTITIONS_UNOWNED = Definition(
    "neardup_partitions_unowned",
    "gauge",
    "Partitions of the input that no worker of the group reads: no member, or another program. As last seen by any worker; 0 in "
    "health.",
)
INDEX_ENTRIES = Definition("neardup_index_entries", "gauge", "Documents that the index compares with.")
INDEX_BYTES = Definition("neardup_index_bytes", "gauge", "Bytes that the index uses.")
INDEX_BYTES_MAX = Definition("neardup_index_bytes_max", "gauge", "Bytes that the index never exceeds.")
OFFSETS_SKIPPED = Definition(
    "neardup_offsets_skipped_total",
    "counter",
    "Offsets that a setting allowed to skip: the broker deleted them before they were read, or they are damaged.",
    ("topic", "partition"),
)
RESTORED = Definition(
    "neardup_restored_total",
    "counter",
    "Documents that entered the index again from the output topics. Nothing is delivered for them.",
)
RESTORING_OFFSETS = Definition(
    "neardup_restoring_offsets",
    "gauge",
    "Offsets of the input by which the index is behind and is being restored; 0 when it is whole.",
)
RESTORE_GAPS = Definition(
    "neardup_restore_gaps_total",
    "counter",
    "Partitions of output topics that had lost records the index may have needed, where a setting allowed to go on.",
)
WORKER_RESTARTS = Definition(
    "neardup_worker_restarts_total", "counter", "Restarts of workers, by the cause of their end.", ("cause",)
)
WORKERS = Definition("neardup_workers", "gauge", "Worker processes by state.", ("state",))
WAITING_RECORDS = Definition(
    "neardup_waiting_records",
    "gauge",
    "Records that the part `route` has read and whose verdicts are not told yet.",
)
LAST_DELIVERY = Definition(
    "neardup_last_delivery_timestamp_seconds",
    "gauge",
    "Time of the last delivery of a batch, in seconds since 1970; 0 before the first.",
    merge="max",
)
BROKER_CONTACT = Definition(
    "neardup_broker_contact_timestamp_seconds",
    "gauge",
    "Time of the last answer that a worker had from the brokers, in seconds since 1970; before the first, the service's start.",
    ("worker",),
)
BATCH_AGE = Definition(
    "neardup_batch_age_seconds",
    "gauge",
    "Seconds that the batch under way in a worker has taken since it was read; 0 where none is.",
    ("worker",),
)
SHADOW = Definition(
    "neardup_shadow", "gauge", "Whether near-duplicates go to the unique topic too, by route.shadow: 1, else 0."
)
BUILD_INFO = Definition(
    "neardup_build_info",
    "gauge",
    "Always 1; the labels tell the version of the filter and of Python.",
    ("version", "python"),
)

DEFINITIONS = (
    DOCUMENTS,
    REPLAYED,
    BATCHES,
    BATCH_RECORDS,
    BATCH_BYTES,
    STEP_SECONDS,
    CANDIDATES,
    DISTANCE,
    SIMILARITY,
    UNEQUAL_DUPLICATES,
    WITHOUT_HOST,
    HOST_DOCUMENTS,
    HOST_SHARE,
    HOST_BEYOND,
    HOSTS_BEYOND,
    LAG_RECORDS,
    PARTITIONS_UNOWNED,
    INDEX_ENTRIES,
    INDEX_BYTES,
    INDEX_BYTES_MAX,
    OFFSETS_SKIPPED,
    RESTORED,
    RESTORING_OFFSETS,
    RESTORE_GAPS,
    WORKER_RESTARTS,
    WORKERS,
    WAITING_RECORDS,
    LAST_DELIVERY,
    BROKER_CONTACT,
    BATCH_AGE,
    SHADOW,
    BUILD_INFO,
)
