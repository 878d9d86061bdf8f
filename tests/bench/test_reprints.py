"""One article in the frames of many hosts is one story, and each host's own pages are kept."""

import orjson
from click.testing import CliRunner

from bench.incident import LONGER_DROPPED, POLICIES
from bench.reprints import main


def outcomes(*arguments: str) -> dict[str, list[dict[str, float]]]:
    """Outcomes by policy."""
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found = orjson.loads(done.stdout)
    return {policy: [each for each in found if each["policy"] == policy] for policy in (*POLICIES, LONGER_DROPPED)}


def test_an_article_in_small_frames_is_kept_once() -> None:
    by_policy = outcomes("--articles", "5", "--hosts", "40", "--frames", "0.05,0.12")
    assert [each["kept"] <= 1.3 for each in by_policy["templates"]] == [True] * 4


def test_an_article_in_large_frames_is_kept_once_where_the_frames_are_known() -> None:
    """Without frames nobody sees that these pages have an article in common."""
    by_policy = outcomes("--articles", "4", "--hosts", "20", "--frames", "0.4", "--known", "20")
    assert all(each["kept"] <= 2 and each["lost"] == 0 for each in by_policy["templates"])
    assert all(each["kept"] >= 19 for each in by_policy["root"] + by_policy["unique"])


def test_frames_that_vary_cost_copies_where_they_are_unknown_and_more_of_them_if_longer_versions_pass() -> None:
    asked = ("--articles", "5", "--hosts", "30", "--frames", "0.12", "--frames-vary")
    unknown, known = (outcomes(*asked, "--known", pages) for pages in ("0", "12"))
    for passing, dropped in zip(unknown["templates"], unknown[LONGER_DROPPED], strict=True):
        assert passing["kept"] > dropped["kept"] > 1
    assert all(each["kept"] < 2 for each in known["templates"])


def test_files_know_the_default_policy_alone_and_keep_an_article_once() -> None:
    by_policy = outcomes("--articles", "3", "--hosts", "12", "--frames", "0.05", "--over", "files")
    assert [each["kept"] for each in by_policy.pop("templates")] == [1, 1]
    assert not any(by_policy.values())
