"""The page is told what the metrics say, with the last minutes."""

import orjson
import pytest

from index import HostShare, WatchedHosts
from streamer.ask import status
from streamer.ask.status import SAMPLES_MAX, Sample, Size, Status, growth
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
    assert not told["scopes"]
    assert told["documents"]["duplicate"] == 3
    assert told["reasons"] == [{"verdict": "duplicate", "reason": "similar", "documents": 3}]
    assert [each["documents"]["duplicate"] for each in told["history"]] == [0, 3]
    assert [(each["partition"], each["records"]) for each in told["lags"]] == [("2", 9), ("1", 7)]
    assert told["index"] == {
        "entries": 12,
        "bytes": 4096,
        "bytes_max": 8192,
        "bytes_per_million": None,
        "full_in_days": None,
    }
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


def test_growth_is_told_after_an_hour_by_what_is_left_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(status.time, "time", lambda: now[0])
    measures = Metrics()
    shown = Status(measures, lambda: (True, "ok"), lambda: None)
    shown.sample()
    grown: list[tuple[float | None, float | None]] = []
    # A neighbour on the same disk takes as much as the index does.
    for now[0], used, largest in ((300.0, 100, 1_100), (1_800.0, 150, 1_050), (3_900.0, 300, 900)):
        measures.set(definitions.INDEX_BYTES, used)
        measures.set(definitions.INDEX_BYTES_MAX, largest)
        shown.sample()
        told = orjson.loads(shown.as_json())["index"]
        grown.append((told["bytes_per_million"], told["full_in_days"]))
        measures.count(definitions.DOCUMENTS, 2, "unique", "new")
    assert grown[:2] == [(None, None), (None, None)]
    assert grown[2] == (pytest.approx(200 / 4 * 1e6), pytest.approx(1 / 24 * 600 / 400))


def test_an_index_that_does_not_grow_is_never_full() -> None:
    still = [Sample(at, {"unique": 5}, Size(10, 90)) for at in (0, 86_400)]
    assert growth(still) == (None, None)
