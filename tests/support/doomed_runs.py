"""Groups whose processes die at every point: the whole service, and its parts."""

import uuid
from pathlib import Path

from deploy.kafka_run import DESTINATIONS, Outputs, Run, create_topics
from deploy.planted_stories import committed_records, latest
from streamer.settings.parts import Part
from tests.support.doomed_part import live_part
from tests.support.doomed_worker import live
from tests.support.lives import exit_code_of
from tests.support.memory_service import SENTENCES, document
from tests.support.transport_worlds import Client

BATCH_RECORDS = 8
NEVER = 10_000


def values() -> list[bytes]:
    """Every sentence, with one more full stop, once more, and changed; an undecidable one and dead letters."""
    originals = [document(f"base-{number}", text) for number, text in enumerate(SENTENCES)]
    copies = [document(f"copy-{number}", text + "。") for number, text in enumerate(SENTENCES)]
    again = [document(f"again-{number}", text) for number, text in enumerate(SENTENCES)]
    changed = [document(f"base-{number}", f"{text} 最新消息。") for number, text in enumerate(SENTENCES)]
    return [
        *originals[:3],
        b"{",
        *copies[:3],
        document("empty", "…"),
        *originals[3:],
        *copies[3:],
        *again,
        *changed,
        b"",
    ][:32]


STORIES = "the last value of every story"
"""A service in parts counts none."""


class Filter:
    """One group with its topics and its index, over a shared input topic of one partition."""

    def __init__(
        self, bootstrap_servers: str, input_topic: str, directory: Path, client: Client = "kafka-python"
    ) -> None:
        self._client = client
        self.run = Run(f"kill-{uuid.uuid4().hex[:8]}", bootstrap_servers, input_topic, directory, 0)
        create_topics(bootstrap_servers, [self.run.topic(each) for each in (*DESTINATIONS, "stories")])

    def live(self, point: str, passage: int, *, count: int, journal: bool = True) -> int:
        """Run one life of a worker. Returns its exit code, negative where a signal ended it."""
        overrides = [one for one in self.run.arguments() if "=" in one]
        chosen = [
            f"kafka.client={self._client}",
            "fingerprint.features_min=1",
            f"batch.records_max={BATCH_RECORDS}",
            f"topics.stories={self.run.topic('stories')}",
            *overrides,
        ]
        return exit_code_of(live, point, passage, count, journal, chosen)

    def outputs(self, count: int) -> dict[str, object]:
        seen = Outputs(self.run)
        seen.wait_for(count, timeout_seconds=120)
        seen.close()
        stories = latest(committed_records(self.run.bootstrap_servers, [self.run.topic("stories")]))
        assert stories, "some documents are copies"
        return {**seen.by_position, STORIES: stories}


class Parts:
    """One group with its topics and its index, over a shared input topic of one partition."""

    def __init__(
        self, bootstrap_servers: str, input_topic: str, directory: Path, client: Client = "kafka-python"
    ) -> None:
        self._client = client
        self.run = Run(f"parts-{uuid.uuid4().hex[:8]}", bootstrap_servers, input_topic, directory, 0)
        between = [f"{self.run.name}-fingerprints", f"{self.run.name}-verdicts"]
        create_topics(bootstrap_servers, [*(self.run.topic(each) for each in DESTINATIONS), *between])
        self.overrides = [
            *(one for one in self.run.arguments() if "=" in one),
            f"kafka.client={client}",
            "fingerprint.features_min=1",
            f"batch.records_max={BATCH_RECORDS}",
            f"topics.fingerprints={between[0]}",
            f"topics.verdicts={between[1]}",
        ]

    def live(
        self, part: Part, point: str = "after-read", passage: int = NEVER, *, count: int, journal: bool = True
    ) -> int:
        """Run one life of a part. Returns its exit code, negative where a signal ended it."""
        return exit_code_of(live_part, part, point, passage, count, journal, self.overrides)

    def outputs(self, count: int) -> dict[str, object]:
        seen = Outputs(self.run)
        seen.wait_for(count, timeout_seconds=120)
        seen.close()
        return dict(seen.by_position)
