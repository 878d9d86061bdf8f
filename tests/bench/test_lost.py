"""The bench of lost sentences: its counts over a tiny set."""

from pathlib import Path

import orjson
from click.testing import CliRunner

from bench.lost import main


def test_a_row_a_program_counts_what_only_dropped_documents_hold(small_set: Path) -> None:
    done = CliRunner().invoke(main, [str(small_set), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    rows = orjson.loads(done.stdout)
    assert [row["program"] for row in rows] == ["filter", "rensa"]
    for row in rows:
        assert row["documents"] == 6
        # The second text has one sentence more than the first.
        assert (row["dropped"], row["lost"], row["distinct"]) == (2, 1, 84)
    shown = CliRunner().invoke(main, [str(small_set), "--peer", "rensa"], catch_exceptions=False)
    assert "per_10_000" in shown.stdout
