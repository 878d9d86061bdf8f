"""State of the service for the page: metrics as JSON, with the latest deliveries."""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from index import WatchedHosts
from streamer.observe import definitions
from streamer.observe.metrics import Metrics

SAMPLE_SECONDS = 5.0

SAMPLES_MAX = 120
"""Ten minutes."""

DAY_SECONDS_BETWEEN = 300.0

DAY_SAMPLES_MAX = 289
"""A day between the first and the last sample."""

GROWTH_SECONDS_MIN = 3_600.0
"""Shorter spans say little on growth: the file grows by leaps, with compactions."""


class Size(NamedTuple):
    """An index's bytes in use, and those that its file can still grow by.

    >>> Size(used_bytes=4096, room_bytes=8192).room_bytes
    8192
    """

    used_bytes: float
    room_bytes: float


class Sample(NamedTuple):
    """The service at one moment.

    documents  delivered ones by verdict
    size       the index's size; None before a worker has opened it

    >>> Sample(12.0, {"unique": 3}, size=None).documents
    {'unique': 3}
    """

    time_seconds: float
    documents: dict[str, int]
    size: Size | None


class Growth(NamedTuple):
    """How an index grows.

    bytes_per_million  bytes in use that a million delivered documents added
    full_in_days       days until no room is left, at the pace so far. None: it does not shrink, or an hour has
                       not passed

    >>> growth([Sample(0, {}, Size(0, 9e9)), Sample(86_400, {"unique": 10**6}, Size(4e8, 8e9))])
    Growth(bytes_per_million=400000000.0, full_in_days=8.0)
    """

    bytes_per_million: float | None
    full_in_days: float | None


def growth(samples: Iterable[Sample]) -> Growth:
    """Growth from the first to the last sample that knows the index."""
    sizes = [(each.time_seconds, sum(each.documents.values()), each.size) for each in samples if each.size is not None]
    if not sizes or sizes[-1][0] - sizes[0][0] < GROWTH_SECONDS_MIN:
        return Growth(None, None)
    (begin_seconds, documents_before, before), (end_seconds, documents_after, after) = sizes[0], sizes[-1]
    documents, shrunk_bytes = documents_after - documents_before, before.room_bytes - after.room_bytes
    days = (end_seconds - begin_seconds) / 86_400
    return Growth(
        1e6 * (after.used_bytes - before.used_bytes) / documents if documents > 0 else None,
        days * after.room_bytes / shrunk_bytes if shrunk_bytes > 0 else None,
    )


@dataclass
class Status:
    """State of the service. One thread calls `sample`, others `as_json`.

    >>> status = Status(Metrics(), ready=lambda: (False, "no worker runs"), hosts=lambda: None)
    >>> orjson.loads(status.as_json())["words"]
    'no worker runs'
    """

    _measures: Metrics
    ready: Callable[[], tuple[bool, str]]
    hosts: Callable[[], WatchedHosts | None]
    texts: bool = False
    scopes: bool = False

    def __post_init__(self) -> None:
        self._due_seconds = self._day_due_seconds = 0.0
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._day: deque[Sample] = deque(maxlen=DAY_SAMPLES_MAX)

    def sample(self) -> None:
        """Record the delivered documents every SAMPLE_SECONDS, and every DAY_SECONDS_BETWEEN for the day."""
        now_seconds = time.monotonic()
        if now_seconds >= self._due_seconds:
            self._due_seconds = now_seconds + SAMPLE_SECONDS
            sampled = _sample(self._measures.seen())
            self._samples.append(sampled)
            if now_seconds >= self._day_due_seconds:
                self._day_due_seconds = now_seconds + DAY_SECONDS_BETWEEN
                self._day.append(sampled)

    def as_json(self) -> bytes:
        """JSON object, as in docs/api.md."""
        seen = self._measures.seen()
        is_ready, message = self.ready()
        watched = self.hosts()
        now = _sample(seen)
        grown = growth([*list(self._day), now])
        reasons = [{**labels, "documents": int(value)} for labels, value in seen[definitions.DOCUMENTS.name] if value]
        lags = [{**labels, "records": int(value)} for labels, value in seen[definitions.LAG_RECORDS.name]]
        return orjson.dumps(
            {
                "time_seconds": now.time_seconds,
                "ready": is_ready,
                "words": message,
                "documents": now.documents,
                "reasons": sorted(reasons, key=lambda each: -each["documents"]),
                "history": _history(self._samples),
                "day": _history(self._day),
                "lags": sorted(lags, key=lambda each: -each["records"]),
                "last_delivery_seconds": _one(seen[definitions.LAST_DELIVERY.name]),
                "index": {
                    "entries": _one(seen[definitions.INDEX_ENTRIES.name]),
                    "bytes": _one(seen[definitions.INDEX_BYTES.name]),
                    "bytes_max": _one(seen[definitions.INDEX_BYTES_MAX.name]),
                    "bytes_per_million": grown.bytes_per_million,
                    "full_in_days": grown.full_in_days,
                },
                "hosts": [] if watched is None else [each._asdict() for each in watched.worst],
                "hosts_beyond": 0 if watched is None else watched.beyond,
                "texts": self.texts,
                "scopes": self.scopes,
            }
        )


def _history(samples: Collection[Sample]) -> list[dict[str, object]]:
    return [{"time_seconds": each.time_seconds, "documents": each.documents} for each in list(samples)]


def _sample(seen: dict[str, list[tuple[dict[str, str], float]]]) -> Sample:
    used, largest = _one(seen[definitions.INDEX_BYTES.name]), _one(seen[definitions.INDEX_BYTES_MAX.name])
    # Gauges stand at zero before a worker has opened the index.
    size = None if not used or largest is None else Size(used, largest - used)
    return Sample(time.time(), _by_verdict(seen), size)


def _by_verdict(seen: dict[str, list[tuple[dict[str, str], float]]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for labels, value in seen[definitions.DOCUMENTS.name]:
        counts[labels["verdict"]] += int(value)
    return dict(counts)


def _one(series: list[tuple[dict[str, str], float]]) -> float | None:
    return series[0][1] if series else None
