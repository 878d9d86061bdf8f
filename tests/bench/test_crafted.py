"""Crafted lines lose no article and hide no copy, by either key, and no more than to rensa."""

import orjson
from click.testing import CliRunner

from bench.crafted import main


def test_no_crafted_line_loses_an_article_or_hides_a_copy() -> None:
    done = CliRunner().invoke(main, ["--articles", "40", "--copies", "15", "--json"])
    assert done.exit_code == 0, done.output
    outcomes = orjson.loads(done.stdout)
    assert {each["by"] for each in outcomes} == {"public", "secret", "rensa"}
    assert all(each["lost"] == each["hidden"] == 0 for each in outcomes)
    recognised = {(each["by"], each["letters"]): each["recognised"] for each in outcomes}
    assert [recognised["public", letters] for letters in (24, 48, 132)] == [40] * 3
    # A line of Latin letters without a blank is a string, and counts as 24 letters.
    assert not any(recognised["public", letters] for letters in (72, 141, 393))
    assert not any(count for (by, _), count in recognised.items() if by == "secret")
