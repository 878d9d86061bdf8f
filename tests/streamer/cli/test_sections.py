"""Help lists every command once, by what a person is about to do."""

import pytest

from streamer.cli.main import cli
from streamer.cli.sections import FORMER, RARE, SECTIONS
from tests.support.command_line import run


def test_every_command_stands_in_one_section_or_in_the_last_line() -> None:
    listed = [name for names in (*SECTIONS.values(), RARE) for name in names]
    assert sorted(listed) == sorted(cli.commands)


def test_help_shows_the_sections_in_order_with_a_line_a_command() -> None:
    lines = run("--help").out.splitlines()
    begin, last = lines.index("Filter:"), lines.pop()
    titles = [line for line in lines[begin:] if line and not line.startswith(" ")]
    assert titles == [f"{title}:" for title in SECTIONS]
    shown = [line.split()[0] for line in lines[begin:] if line.startswith("  ")]
    assert shown == [name for names in SECTIONS.values() for name in names]
    assert last == f"Also: {', '.join(RARE)}."


@pytest.mark.parametrize("former", sorted(FORMER))
def test_a_former_command_says_what_does_its_work(former: str) -> None:
    done = run(*former.split()[1:], "FILE")
    assert done.code == 2
    assert f"`{former}` is gone: `streamer " in done.err
    now = FORMER[former].split("`")[1].split()[1:]
    assert run(*now[:2], "--help").code == 0
