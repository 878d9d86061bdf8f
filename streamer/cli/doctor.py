"""`streamer doctor`: settings, brokers, rights, topics and this machine, held against each other before a start.

Exit codes: 0 the service can run; 75 a broker does not answer; 78 a person has to change what the table names.
"""

import sys

import click
import orjson
from rich.console import Console

from streamer.cli.options import json_option, pass_settings
from streamer.settings.settings import Settings


@click.command()
@json_option
@pass_settings
def doctor(settings: Settings, as_json: bool) -> None:
    """Say what is wrong with brokers, rights, topics and this machine.

    Changes nothing, and may run beside the service. Exit code 78 where a person has to change something, 75 where a broker
    does not answer.
    """
    from streamer.doctor import report
    from streamer.doctor.doctor import examine
    from streamer.doctor.finding import exit_code
    from streamer.observe.logs import configure_logging

    configure_logging("error", settings.observe.log_format)
    findings = list(examine(settings))
    code = exit_code(findings)
    if as_json:
        click.echo(orjson.dumps(report.as_json(findings, code), option=orjson.OPT_INDENT_2))
    else:
        Console().print(report.table(findings), highlight=False)
    sys.exit(code)
