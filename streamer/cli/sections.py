"""The list of commands by what a person is about to do."""

import click

SECTIONS = {
    "Filter": ("filter", "run", "clusters"),
    "Ask and undo": ("why", "stories", "verify", "give-back", "dead-letters"),
    "Measure": ("audit", "calibrate", "evaluate", "compare", "idf"),
    "Kafka": ("doctor", "topics", "produce"),
    "Maintain": ("index", "config"),
    "Also": ("demo", "completion", "version"),
}
"""Commands by section, in the order of their first use."""


class SectionedGroup(click.Group):
    """A group that lists its commands by section.

    >>> commands = [click.Command(name, help="Do it.") for names in SECTIONS.values() for name in names]
    >>> with click.Context(SectionedGroup("program", commands=commands)) as context:
    ...     print(context.get_help().partition("Maintain:")[2].partition("Also:")[0].strip())
    index         Do it.
      config        Do it.
    """

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, each with its commands in order."""
        longest = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                width = formatter.width - longest - 6
                rows = [(name.ljust(longest), self.commands[name].get_short_help_str(width)) for name in names]
                formatter.write_dl(rows)
