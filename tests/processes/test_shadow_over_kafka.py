"""Shadow mode over a real broker: nothing is dropped, and `streamer compare` foretells what another service does."""

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.services import Started, make_run, wait_until

pytestmark = pytest.mark.kafka

STRICTER = "minhash.similarity_min=0.9"


def compared(run: Run, *settings: str) -> dict[str, Any]:
    """Result of `streamer compare --json` with more settings."""
    chosen = [part for each in settings for part in ("--set", each)]
    done = subprocess.run(run.arguments("compare", "--json", *chosen), capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found


def outputs_of(run: Run, count: int) -> Counter[tuple[str, bytes]]:
    """Documents by destination and verdict."""
    outputs = Outputs(run)
    assert outputs.wait_for(count, timeout_seconds=60)
    outputs.close()
    return Counter(
        (destination, dict(headers)["neardup.verdict"])
        for seen in outputs.by_position.values()
        for destination, _, headers in seen
    )


def test_in_shadow_mode_every_document_is_kept_and_what_another_threshold_does_is_foretold(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    shadow = make_run(kafka.bootstrap_servers, tmp_path, "batch.records_max=100", "route.shadow=true")
    other = make_run(kafka.bootstrap_servers, tmp_path, "batch.records_max=100", STRICTER)
    other = replace(other, input_topic=shadow.input_topic)
    values = list(documents(160))
    fill(kafka.bootstrap_servers, shadow.input_topic, values)
    services = [start(shadow), start(other)]
    for service in services:
        wait_until(lambda run=service.run: run.delivered() >= len(values), timeout_seconds=180)  # type: ignore[misc]
    assert "neardup_shadow 1.0" in shadow.metrics()
    assert [stop(service.process) for service in services] == [0, 0]
    kept, filtered = outputs_of(shadow, len(values)), outputs_of(other, len(values))
    assert kept["unique", b"duplicate"] > filtered["duplicate", b"duplicate"] > 0
    assert "duplicate" not in {destination for destination, _ in kept}
    foretold = compared(shadow, STRICTER)
    assert (foretold["documents"], foretold["of_unknown_order"], foretold["left_out"]) == (len(values), 0, {})
    assert foretold["delivered"]["duplicate"] == kept["unique", b"duplicate"]
    assert foretold["other"]["duplicate"] == filtered["duplicate", b"duplicate"]
    assert foretold["other"]["unique"] == filtered["unique", b"unique"]
