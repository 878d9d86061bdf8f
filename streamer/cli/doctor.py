"""`streamer doctor`: checks settings, brokers, rights, topics and this machine before a start."""

import sys

import click

from streamer.cli.options import json_option, pass_settings
from streamer.cli.outputs import show
from streamer.settings.settings import Settings


@click.command()
@json_option
@pass_settings
def doctor(settings: Settings) -> None:
    """Check brokers, rights, topics and this machine.

    Changes nothing; the service may run meanwhile. Exit code 78 if a person must change something, 75 if a broker does
    not answer.
    """
    from streamer.doctor import report
    from streamer.doctor.doctor import examine
    from streamer.doctor.finding import exit_code
    from streamer.observe.logs import configure_logging

    configure_logging("error", settings.observe.log_format)
    findings = list(examine(settings))
    code = exit_code(findings)
    show(report.as_json(findings, code), report.table(findings), soft_wrap=False)
    sys.exit(code)
