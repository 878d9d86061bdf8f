"""The benchmark of `streamer verify`: the same records for the same seed, and one run over a small folder."""

import orjson
import pytest
from click.testing import CliRunner

from bench import verify
from bench.verify import records


def test_records_repeat_themselves_and_a_share_of_them_is_like_an_earlier_one() -> None:
    made = [orjson.loads(line) for line in records(3_000, 0.25)]
    assert made == [orjson.loads(line) for line in records(3_000, 0.25)]
    assert len({each["id"] for each in made}) == 3_000
    earlier: list[set[str]] = []
    like = 0
    for each in made:
        words = set(each["text"].split())
        like += any(len(words & other) >= 12 for other in earlier[-1_000:])
        earlier.append(words)
    assert like == pytest.approx(750, abs=75)


def test_a_folder_is_made_verified_and_measured() -> None:
    arguments = ["--count", "1500", "--count", "500", "--json"]
    done = CliRunner().invoke(verify.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    larger, smaller = orjson.loads(done.stdout)["results"]
    assert (larger["records"], smaller["records"]) == (1_500, 500)
    assert 0 < smaller["duplicates"] < larger["duplicates"]
    assert all(0 < each["anonymous_mib"] <= each["resident_mib"] for each in (larger, smaller))
