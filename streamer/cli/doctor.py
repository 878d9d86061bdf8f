"""`streamer doctor`: checks settings, brokers, rights, topics and this machine before a start."""

import sys

import click

from streamer.cli.options import log_as_set, settings_and_json
from streamer.cli.outputs import show
from streamer.settings.settings import Settings


@click.command()
@settings_and_json
def doctor(settings: Settings) -> None:
    """Check brokers, rights, topics and this machine.

    Changes nothing; the service may run meanwhile. Exit code 78 if a person must change something, 75 if a broker does
    not answer.
    """
    from streamer.doctor import report
    from streamer.doctor.doctor import examine
    from streamer.doctor.finding import exit_code

    log_as_set(settings, "error")
    findings = list(examine(settings))
    code = exit_code(findings)
    show(report.as_json(findings, code), report.table(findings), soft_wrap=False)
    sys.exit(code)
