"""State of the service for the page: metrics as JSON, with the latest deliveries."""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

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

    def __post_init__(self) -> None:
        self._due_seconds = self._day_due_seconds = 0.0
        self._samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=SAMPLES_MAX)
        self._day: deque[tuple[float, dict[str, int]]] = deque(maxlen=DAY_SAMPLES_MAX)

    def sample(self) -> None:
        """Record the delivered documents every SAMPLE_SECONDS, and every DAY_SECONDS_BETWEEN for the day."""
        now_seconds = time.monotonic()
        if now_seconds >= self._due_seconds:
            self._due_seconds = now_seconds + SAMPLE_SECONDS
            sampled = time.time(), _by_verdict(self._measures.seen())
            self._samples.append(sampled)
            if now_seconds >= self._day_due_seconds:
                self._day_due_seconds = now_seconds + DAY_SECONDS_BETWEEN
                self._day.append(sampled)

    def as_json(self) -> bytes:
        """JSON object, as in docs/api.md."""
        seen = self._measures.seen()
        is_ready, message = self.ready()
        watched = self.hosts()
        reasons = [{**labels, "documents": int(value)} for labels, value in seen[definitions.DOCUMENTS.name] if value]
        lags = [{**labels, "records": int(value)} for labels, value in seen[definitions.LAG_RECORDS.name]]
        return orjson.dumps(
            {
                "time_seconds": time.time(),
                "ready": is_ready,
                "words": message,
                "documents": _by_verdict(seen),
                "reasons": sorted(reasons, key=lambda each: -each["documents"]),
                "history": _history(self._samples),
                "day": _history(self._day),
                "lags": sorted(lags, key=lambda each: -each["records"]),
                "last_delivery_seconds": _one(seen[definitions.LAST_DELIVERY.name]),
                "index": {
                    "entries": _one(seen[definitions.INDEX_ENTRIES.name]),
                    "bytes": _one(seen[definitions.INDEX_BYTES.name]),
                    "bytes_max": _one(seen[definitions.INDEX_BYTES_MAX.name]),
                },
                "hosts": [] if watched is None else [each._asdict() for each in watched.worst],
                "hosts_beyond": 0 if watched is None else watched.beyond,
                "texts": self.texts,
            }
        )


def _history(samples: Collection[tuple[float, dict[str, int]]]) -> list[dict[str, object]]:
    return [{"time_seconds": at, "documents": counts} for at, counts in list(samples)]


def _by_verdict(seen: dict[str, list[tuple[dict[str, str], float]]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for labels, value in seen[definitions.DOCUMENTS.name]:
        counts[labels["verdict"]] += int(value)
    return dict(counts)


def _one(series: list[tuple[dict[str, str], float]]) -> float | None:
    return series[0][1] if series else None
