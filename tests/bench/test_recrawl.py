"""Counters and dates make no update, and every fact does."""

import orjson
from click.testing import CliRunner

from bench.recrawl import main
from index.kernels.versions import RETURNS_MAX


def test_counters_make_no_update_and_facts_always_do() -> None:
    done = CliRunner().invoke(main, ["--pages", "12", "--crawls", "4", "--turns", "60", "--json"])
    assert done.exit_code == 0, done.output
    delivered = {
        (each["language"], each["kind"]): (each["delivered"], each["again"]) for each in orjson.loads(done.stdout)
    }
    for language in ("en", "zh"):
        assert delivered[language, "counters"] == (0, 36)
        assert delivered[language, "turns"] == (RETURNS_MAX, 58)
        for kind in ("digit", "facts", "mirror", "stolen"):
            assert delivered[language, kind] == (12, 12), kind
