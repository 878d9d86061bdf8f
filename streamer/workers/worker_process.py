"""A worker process's body for its supervisor, which starts it without loading what only a worker needs."""

from pathlib import Path

from streamer.observe.logs import configure_logging
from streamer.observe.process_start import ended_by_imports
from streamer.settings.parts import Part
from streamer.settings.settings import Settings
from streamer.workers.heartbeat import Heartbeats


def work(
    settings: Settings, number: int, heartbeats: Heartbeats, metrics_directory: Path, part: Part | None = None
) -> None:
    """See `streamer.workers.worker.work`."""
    configure_logging(settings.observe.log_level, settings.observe.log_format, worker=number, part=part)
    with ended_by_imports("worker ends"):
        from streamer.workers import worker

        worker.work(settings, number, heartbeats, metrics_directory, part)
