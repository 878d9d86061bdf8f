"""Shadow mode over a real broker: nothing is dropped, and `streamer compare` foretells what another threshold does."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support import command_line
from tests.support.services import Started, make_run, wait_until

pytestmark = pytest.mark.kafka

STRICTER = ("--set", "minhash.similarity_min=0.9")


def test_in_shadow_mode_every_document_is_kept_and_what_another_threshold_does_is_foretold(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "batch.records_max=100", "route.shadow=true")
    values = list(documents(160))
    fill(kafka.bootstrap_servers, run.input_topic, values)
    service = start(run)
    wait_until(lambda: run.delivered() >= len(values), timeout_seconds=180)
    assert "neardup_shadow 1.0" in run.metrics()
    assert stop(service.process) == 0
    kept = outputs_of(run, len(values))
    assert {destination for destination, _ in kept} == {"unique", "dead-letter"}
    done = command_line.run(*run.arguments("compare", "--json", *STRICTER)[3:])
    assert done.code == 0, done.err
    foretold = orjson.loads(done.out)
    assert (foretold["documents"], foretold["of_unknown_order"], foretold["left_out"]) == (len(values), 0, {})
    assert foretold["delivered"]["duplicate"] == kept["unique", b"duplicate"] > foretold["other"]["duplicate"] > 0
    (tmp_path / "values.jsonl").write_bytes(b"\n".join(values))
    filtering = [
        "filter",
        tmp_path / "values.jsonl",
        "--out",
        tmp_path / "out",
        "--index",
        tmp_path / "index",
        "--json",
    ]
    filtered = orjson.loads(command_line.run(*filtering, *STRICTER).out)
    for verdict in ("unique", "duplicate", "undecidable"):
        assert foretold["other"][verdict] == filtered[verdict]


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
