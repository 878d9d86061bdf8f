"""How long healthy brokers may be silent."""

from streamer.settings.settings import Settings

CHECK_SECONDS = 5.0
"""Interval between looks at the group."""


def silence_ms_max(settings: Settings) -> int:
    """Longest silence of healthy brokers: the wait for the next look, its answer and a read."""
    return int(CHECK_SECONDS * 1000) + settings.kafka.request_timeout_ms + settings.batch.wait_ms
