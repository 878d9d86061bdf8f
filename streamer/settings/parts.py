"""Parts of a service: the topics and the group that each reads, and the topics that it writes."""

from typing import get_args

from streamer.settings.settings import Part as Part
from streamer.settings.settings import Settings

PARTS: tuple[Part, ...] = get_args(Part)

DOCUMENTS_A_BATCH = 256
"""Most documents in a record between the parts."""


def settings_of(settings: Settings, part: Part) -> Settings:
    """Settings for a part's reading and commits: its group, its input and the size of its batches.

    Each part has its own group: <kafka.group>.fingerprint, <kafka.group>.decide. `route` reads under `kafka.group` itself, so
    that a committed offset in that group means "delivered", in parts or not.
    """
    batch, group = settings.batch, {"group": f"{settings.kafka.group}.{part}"}
    if part == "decide":
        records_max = max(1, batch.records_max // DOCUMENTS_A_BATCH)
        topics = {"input": settings.topics.fingerprints}
        return settings.for_part(part, kafka=group, topics=topics, batch={"records_max": records_max})
    if part == "fingerprint":
        wait_ms = batch.wait_ms if batch.idle_ms is None else min(batch.wait_ms, batch.idle_ms)
        return settings.for_part(part, kafka=group, batch={"wait_ms": wait_ms})
    return settings.for_part(part)


def input_key(settings: Settings) -> str:
    """Setting key for the input topic of the service, or of the part that the settings are for."""
    return "topics.fingerprints" if settings.part == "decide" else "topics.input"


def outputs_of(settings: Settings) -> dict[str, str]:
    """Topics that the service writes, or the part that the settings are for, by setting key."""
    topics, part = settings.topics, settings.part
    if part == "fingerprint":
        return {"topics.fingerprints": topics.fingerprints}
    if part == "decide":
        return {"topics.verdicts": topics.verdicts}
    feeds = {} if part is not None else {"topics.stories": topics.stories, "topics.protected": topics.protected}
    return {
        "topics.unique": topics.unique,
        "topics.duplicate": topics.duplicate,
        "topics.dead_letter": topics.dead_letter,
        **{key: topic for key, topic in feeds.items() if topic is not None},
    }
