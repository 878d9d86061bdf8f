"""Help lists every command once, by what a person is about to do."""

from streamer.cli.main import cli
from streamer.cli.sections import SECTIONS
from tests.support.command_line import run


def test_every_command_stands_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(cli.commands)


def test_help_shows_the_sections_in_order_with_a_line_a_command() -> None:
    lines = run("--help").out.splitlines()
    begin = lines.index("Filter:")
    titles = [line for line in lines[begin:] if line and not line.startswith(" ")]
    assert titles == [f"{title}:" for title in SECTIONS]
    shown = [line.split()[0] for line in lines[begin:] if line.startswith("  ")]
    assert shown == [name for names in SECTIONS.values() for name in names]
