"""The walk through the page names what it misses; `make page-check` takes it in a real Chromium."""

from typing import Any

import pytest

from deploy import page_walk
from deploy.debian_packages import CheckFailed
from deploy.page_check import QUOTED
from deploy.page_walk import BROKEN_WORDS, COMMANDS, steps, walked, words_of

SOUND = "streamer give-back -- 'a page'"


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_walk, "STEP_SECONDS", 0)


def page(missing: str = "", command: str = SOUND, broken: tuple[str, ...] = ()) -> Any:
    """A page on which everything is there but the one expectation `missing`."""
    shown = {COMMANDS: [command], BROKEN_WORDS: list(broken)}
    return lambda expression: shown.get(expression, expression != missing)


def test_a_page_with_all_its_parts_has_no_problem() -> None:
    assert walked(page(), "a host", "a page") == []


@pytest.mark.parametrize("step", steps("a host", "a page"), ids=lambda step: step.problem)
def test_each_missing_part_is_named(step: page_walk.Step) -> None:
    found = walked(page(missing=step.expected), "a host", "a page")
    assert len(found) == 1
    assert found[0].startswith(
        "on a phone: it overflows" if "overflows" in step.problem else f"on a phone: {step.problem}"
    )


def test_a_click_that_fails_is_a_problem() -> None:
    def without_links(expression: str) -> bool:
        if ".click()" in expression:
            raise CheckFailed("it is undefined")
        return True

    assert "it is undefined" in walked(without_links, "a host", "a page")[0]


def test_a_broken_word_is_named() -> None:
    assert walked(page(broken=("harbour",)), "a host", "a page") == ["on a phone: the word 'harbour' is broken"]


def test_a_command_that_a_shell_takes_apart_is_a_problem() -> None:
    assert "a shell reads" in walked(page(command="streamer give-back -- a page"), "a host", "a page")[0]


def test_a_real_shell_reads_the_commands_words() -> None:
    quoted = QUOTED.replace("'", "'\\''")
    assert words_of(f"streamer give-back -- '{quoted}'") == ["streamer", "give-back", "--", QUOTED]
    assert words_of(r"streamer $'a\\b\'\342\200\256'") == ["streamer", "a\\b'\u202e"]
