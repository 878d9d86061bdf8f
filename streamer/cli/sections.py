"""The list of commands by what a person is about to do."""

import click

SECTIONS = {
    "Filter": ("filter", "run", "protect", "clusters"),
    "Ask and undo": ("why", "stories", "verify", "give-back", "dead-letters"),
    "Measure": ("audit", "calibrate", "evaluate", "compare", "idf"),
    "Kafka": ("doctor", "topics"),
    "Maintain": ("index", "config"),
}
"""Commands by section, in the order of their first use."""

RARE = ("demo", "completion", "version")
"""Commands in the last line of the list."""

FORMER = {
    "streamer produce": "`streamer topics produce` is its name now",
    "streamer index verify": "`streamer index check` is its name now",
    "streamer index import": "`streamer index rebuild DIRECTORY --export FILE` enters an export into the index in DIRECTORY, or "
    "makes one there",
}
"""Commands that are gone, with what does their work."""


class RememberingGroup(click.Group):
    """A group that knows its former commands.

    >>> group = RememberingGroup("index")
    >>> with click.Context(group) as context:
    ...     group.resolve_command(context, ["verify"])
    Traceback (most recent call last):
    click.exceptions.UsageError: `streamer index verify` is gone: `streamer index check` is its name now
    """

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word. Raises UsageError for a former one."""
        former = " ".join(("streamer", *([] if self.name == "cli" else [self.name or ""]), words[0]))
        if former in FORMER:
            raise click.UsageError(f"`{former}` is gone: {FORMER[former]}")
        return super().resolve_command(context, words)


class SectionedGroup(RememberingGroup):
    """A group that lists its commands by section.

    >>> commands = [click.Command(name, help="Do it.") for names in (*SECTIONS.values(), RARE) for name in names]
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
        formatter.write_paragraph()
        formatter.write_text(f"Also: {', '.join(RARE)}.")
