"""A worker process's body for its supervisor, which starts it without loading what only a worker needs."""

from pathlib import Path

from streamer.service.heartbeat import Heartbeats
from streamer.settings.parts import Part
from streamer.settings.settings import Settings


def work(
    settings: Settings, number: int, heartbeats: Heartbeats, metrics_directory: Path, part: Part | None = None
) -> None:
    """See `streamer.service.worker.work`."""
    from streamer.service import worker

    worker.work(settings, number, heartbeats, metrics_directory, part)
