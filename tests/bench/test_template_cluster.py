"""The bench of a template's pages decides on them as their rule does."""

import orjson
from click.testing import CliRunner

from bench.template_cluster import main


def test_the_bench_keeps_the_pages_of_a_cluster_and_says_what_they_cost() -> None:
    done = CliRunner().invoke(main, ["--pages", "2000", "--json"])
    assert done.exit_code == 0, done.output
    first, second = orjson.loads(done.stdout)["steps"]
    assert (first["pages"], second["pages"]) == (1_000, 2_000)
    assert first["dropped"] <= 16
    assert second["dropped"] == 0
    assert second["compared"] < 100
