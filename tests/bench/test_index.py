from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from bench.index import main


@pytest.mark.parametrize("scheme", ["simhash64", "simhash128"])
def test_a_small_index_is_measured_in_both_states(scheme: str, tmp_path: Path) -> None:
    arguments = (
        f"--entries 1000 --scheme {scheme} --batch 20 --batches 4 --run-entries 300 --json --directory {tmp_path}"
    )
    result = CliRunner().invoke(main, arguments.split(), catch_exceptions=False)
    found = orjson.loads(result.stdout)
    asked = [
        "decisions_per_second_idle",
        "decisions_per_second_merging",
        "bytes_per_document_blocks",
        "bytes_per_document",
        "batch_ms_p50",
        "batch_ms_p99",
        "batch_ms_max",
        "anonymous_mib",
        "bare_put_ms_p50",
    ]
    assert all(found[name] > 0 for name in asked)
    assert found["batch_ms_p50"] <= found["batch_ms_p99"] <= found["batch_ms_max"]
    assert found["table_bytes"]["chunks"] > 0
    assert found["entries"] == 1_000
    assert list(tmp_path.iterdir()) == []
