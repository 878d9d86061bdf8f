"""Lists of words to leave out: each holds the one before, and is measured on every stream."""

from itertools import pairwise
from pathlib import Path

import orjson
from click.testing import CliRunner

from bench import stop_lists
from bench.stop_lists import lists


def test_each_list_holds_the_words_of_the_one_before_and_whole_classes_of_tags() -> None:
    *steps, shipped = lists().values()
    assert steps[0] == []
    assert all(set(one) < set(other) for one, other in pairwise(steps))
    # A particle, a function word, a conjunction, a pronoun, an adverb: each comes with its class.
    for at, word in enumerate(("吗", "the", "因为", "他们", "已经"), 1):
        assert [word in words for words in steps] == [False] * at + [True] * (len(steps) - at)
    # The dictionary has it as a particle, without a count.
    assert "笼罩着" not in steps[-1]
    assert {"的", "了", "the", "们", "們"} <= set(shipped)
    # Two rare interjections aside, what ships begins with the classes that were chosen by these figures.
    assert len(set(steps[2]) - set(shipped)) <= 2


def test_every_list_is_measured_on_every_stream(small_set: Path) -> None:
    done = CliRunner().invoke(stop_lists.main, [str(small_set), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    found = orjson.loads(done.stdout)["results"]
    assert [each["words_left_out"] for each in found] == list(lists())
    assert all((each["false_duplicates"], each["set_name"]) == (0, "tiny") for each in found)
    assert [each["words"] for each in found] == [len(words) for words in lists().values()]
    shown = stop_lists.table([stop_lists.Outcome("nothing", 0, "tiny", 3, 0.5)]).splitlines()
    assert shown[-1] == "| nothing | 0 | 0.500 (3) | 3 |"
