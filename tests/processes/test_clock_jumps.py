"""A service whose clock jumps by a year, forth and back, while it runs: nothing that it does goes by that clock."""

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.paths import ROOT
from tests.support.services import Started, ask, make_run, require_every_position_once, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

YEAR_SECONDS = 365 * 24 * 3600
COUNT = 100


def set_clock(file: Path, offset_seconds: int) -> None:
    """Let the clock that reads this file go wrong by so many seconds at once."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(offset_seconds))
    fresh.replace(file)


def last_delivery_seconds(run: Run) -> float:
    (line,) = re.findall(r"^neardup_last_delivery_timestamp_seconds(?:{[^}]*})? (\S+)$", run.metrics(), re.MULTILINE)
    return float(line)


def test_a_clock_that_jumps_moves_neither_retention_nor_timeouts(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    set_clock(clock, 0)
    monkeypatch.setenv("CHAOS_CLOCK", str(clock))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "bench" / "chaos" / "inside"))
    run = make_run(kafka.bootstrap_servers, tmp_path, "index.age_max_hours=1")
    values = list(documents(COUNT))
    outputs = Outputs(run)
    service = start(run)
    wait_until(run.ready)
    for times, jump_seconds in enumerate((YEAR_SECONDS, -YEAR_SECONDS, 0), start=1):
        set_clock(clock, jump_seconds)
        fill(kafka.bootstrap_servers, run.input_topic, values)
        wait_until(lambda expected=times * COUNT: outputs.poll(50) >= expected)
        assert ask(run, "/readyz")[1].strip() == "ok"
        # Control: the service does live in that time, as what it shows to people proves.
        assert abs(last_delivery_seconds(run) - time.time() - jump_seconds) < YEAR_SECONDS / 2
    # What stopping takes is the machine's.
    assert "worker killed" not in service.log.read_text()
    assert stop(service.process) == 0
    verdicts = Counter(
        dict(headers)["neardup.verdict"] for seen in outputs.by_position.values() for _, _, headers in seen
    )
    require_every_position_once(outputs, 3 * COUNT)
    first = {at: seen for at, seen in outputs.by_position.items() if int(at.rpartition("/")[2]) < COUNT}
    uniques = sum(dict(headers)["neardup.verdict"] == b"unique" for ((_, _, headers),) in first.values())
    assert verdicts[b"unique"] == uniques, "an entry expired by a clock"
