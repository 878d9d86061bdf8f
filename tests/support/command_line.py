"""The command line as tests type it."""

from typing import NamedTuple

from click.testing import CliRunner

from index.errors import NeardupIndexError
from streamer.cli.main import cli
from streamer.errors import StreamerError
from streamer.service.wiring import exit_code_of


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def run(*arguments: object, given: str = "") -> Done:
    """The command line in this process, with the exit codes that `streamer.cli.main.main` gives errors."""
    result = CliRunner().invoke(cli, [*map(str, arguments)], input=given)
    if isinstance(result.exception, StreamerError | NeardupIndexError):
        return Done(exit_code_of(result.exception), result.stdout, f"{result.stderr}streamer: {result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)
