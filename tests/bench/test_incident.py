"""The bench of a template site counts what each policy keeps of it."""

import orjson
from click.testing import CliRunner

from bench.incident import POLICIES, main


def test_the_bench_shows_what_each_policy_keeps() -> None:
    done = CliRunner().invoke(main, ["--own-shares", "0.1", "--others", "60", "--json"])
    assert done.exit_code == 0, done.output
    outcomes = orjson.loads(done.stdout)
    assert [each["policy"] for each in outcomes] == [*POLICIES] * 2
    by_policy = {policy: [each for each in outcomes if each["policy"] == policy] for policy in POLICIES}
    assert all(each["kept"] >= 485 and each["found"] >= 198 for each in by_policy["templates"])
    assert all(each["kept"] <= 5 and each["by_template"] == 0 for each in by_policy["root"] + by_policy["unique"])
    assert all(each["changed"] == 0 for each in outcomes)
