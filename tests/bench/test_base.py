import orjson
from click.testing import CliRunner

from bench.base import main


def test_batches_are_measured_without_and_with_a_base_by_turns() -> None:
    options = ["--entries", "3000", "--live", "500", "--rows", "200", "--batches", "2", "--scheme", "simhash64"]
    result = CliRunner().invoke(main, [*options, "--json"])
    assert result.exit_code == 0, result.output
    told = orjson.loads(result.stdout)
    assert (told["entries"], told["live_entries"], told["rows"]) == (3_000, 500, 200)
    assert told["with_microseconds"] > 0
    assert len(told["added_microseconds"]) == 3
