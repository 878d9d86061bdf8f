"""The page is told what the metrics say, with the last minutes."""

import orjson
import pytest

from index import HostShare, WatchedHosts
from streamer.ask import status
from streamer.ask.status import SAMPLES_MAX, Status
from streamer.observe import definitions
from streamer.observe.metrics import Metrics


def test_the_page_is_told_what_the_metrics_say(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    measures = Metrics()
    hosts = WatchedHosts([HostShare("a.example", 10, 9, True)], 1)
    shown = Status(measures, lambda: (False, "worker 0 is starting"), lambda: hosts, texts=True)
    assert orjson.loads(shown.as_json())["history"] == []
    shown.sample()
    measures.count(definitions.DOCUMENTS, 3, "duplicate", "similar")
    measures.observe_lags({("news", 1): 7, ("news", 2): 9})
    measures.set(definitions.INDEX_ENTRIES, 12)
    measures.set(definitions.INDEX_BYTES, 4096)
    measures.set(definitions.INDEX_BYTES_MAX, 8192)
    shown.sample()
    now[0] += 5
    shown.sample()
    told = orjson.loads(shown.as_json())
    assert (told["ready"], told["words"], told["texts"]) == (False, "worker 0 is starting", True)
    assert told["documents"]["duplicate"] == 3
    assert told["reasons"] == [{"verdict": "duplicate", "reason": "similar", "documents": 3}]
    assert [each["documents"]["duplicate"] for each in told["history"]] == [0, 3]
    assert [(each["partition"], each["records"]) for each in told["lags"]] == [("2", 9), ("1", 7)]
    assert told["index"] == {"entries": 12, "bytes": 4096, "bytes_max": 8192}
    assert told["hosts"] == [{"host": "a.example", "documents": 10, "unequal": 9, "beyond": True}]
    for _ in range(2 * SAMPLES_MAX):
        now[0] += 5
        shown.sample()
    assert len(orjson.loads(shown.as_json())["history"]) == SAMPLES_MAX


def test_a_day_has_a_sample_every_five_minutes_and_no_more_than_a_day_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(status.time, "time", lambda: now[0])
    shown = Status(Metrics(), lambda: (True, "ok"), lambda: None)
    for now[0] in range(0, 2 * 86_400, 150):
        shown.sample()
    times = [each["time_seconds"] for each in orjson.loads(shown.as_json())["day"]]
    assert times == list(range(172_500 - 86_400, 172_501, 300))
