"""Wait for a service that was just started."""

import subprocess
import time

import click

from deploy.kafka_run import Run


def wait_until_ready(run: Run, process: subprocess.Popen[bytes], timeout_seconds: float = 60) -> None:
    """Return once the service says that it is ready. Raises ClickException where it ended, or is late."""
    deadline = time.monotonic() + timeout_seconds
    while not run.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException(f"{run.name}: the service did not become ready (exit code {process.returncode})")
        time.sleep(0.02)
