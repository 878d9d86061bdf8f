"""The parts of a service over a real broker, one after the other in this process, each until it has done what is asked for."""

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata

from streamer.fingerprint.scheme import scheme_for
from streamer.observe.batch_report import BatchReport
from streamer.parts.wiring import decide_part, fingerprint_part, route_part
from streamer.records.record import Destination
from streamer.service.loop import Loop
from streamer.service.wiring import build_service, open_index
from streamer.settings.parts import Part, settings_of
from streamer.settings.settings import Index, Recovery, Settings
from streamer.transports.kafka.topics import create_topics, topic_of
from streamer.transports.kafka.transport import KafkaTransport
from tests.support.listening import Listening
from tests.support.memory_service import SENTENCES, document
from tests.support.transport_worlds import Client, make_settings

PATIENCE_SECONDS = 120.0


def values(count: int) -> list[bytes]:
    """Documents, of which every text comes again and again."""
    return [document(f"id-{number}", SENTENCES[number % len(SENTENCES)]) for number in range(count)]


class PartsWorld:
    """Topics, groups and an index of its own."""

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        client: Client = "kafka-python",
        partitions: int = 1,
        **batch: int,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        made = make_settings(bootstrap_servers, client, **batch)
        unique = uuid.uuid4().hex[:8]
        topics = {key: f"{key}-{unique}" for key in ("fingerprints", "verdicts")}
        self.settings = made.model_copy(
            update={
                "topics": made.topics.model_copy(update=topics),
                "index": Index(directory=directory / "index"),
                "fingerprint": made.fingerprint.model_copy(update={"key": "public"}),
            }
        )
        create_topics(self.settings, partitions, 1, parts=True)

    def with_policy(self, **policy: Any) -> None:
        self.settings = self.settings.model_copy(update={"recovery": Recovery(**policy)})

    def write(self, records: Sequence[bytes], topic: str | None = None, partition: int = 0) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers)
        for value in records:
            producer.send(topic or self.settings.topics.input, value=value, partition=partition)
        producer.flush(timeout=30)
        producer.close()

    def run(
        self,
        part: Part | None,
        records: int = 0,
        *,
        until: Callable[[Any], bool] | None = None,
        settings: Settings | None = None,
    ) -> Any:
        """Run a part until it has handed on so many records of its input, or until `until` says so of its transport.

        None: the whole service. Returns the transport.
        """
        chosen = settings or self.settings
        fingerprinter = scheme_for(chosen)
        done = 0
        loop: Loop
        transport: Any
        deadline = time.monotonic() + PATIENCE_SECONDS

        def add(batch: BatchReport) -> None:
            nonlocal done
            done += batch.records

        def look() -> None:
            assert time.monotonic() < deadline, f"{part} has handed on {done} of {records} records"
            if until(transport) if until is not None else done >= records:
                loop.stop()

        listener = Listening(batch=add, progress=look)
        if part == "fingerprint":
            transport, loop = fingerprint_part(chosen, "0", fingerprinter, listener)
            loop.run()
        elif part == "route":
            transport, loop = route_part(chosen, "0", fingerprinter, listener)
            loop.run()
        else:
            with open_index(chosen, fingerprinter) as index:
                if part == "decide":
                    transport, loop = decide_part(chosen, "0", index, fingerprinter, listener)
                else:
                    transport = KafkaTransport(chosen, "0", index.identity)
                    loop = build_service(chosen, transport, index, fingerprinter, listener, chosen.recovery)
                loop.run()
        return transport

    def records(self, topic: str) -> list[ConsumerRecord]:
        """All committed records of a topic, partition after partition."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=None,
        )
        found: list[ConsumerRecord] = []
        for at in [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]:
            consumer.assign([at])
            end = consumer.end_offsets([at])[at]
            while consumer.position(at) < end:
                found += consumer.poll(timeout_ms=100).get(at, [])
        consumer.close()
        return found

    def delivered(self) -> list[tuple[int, str]]:
        """Offset in the input and verdict of every output, in the order of the input."""
        found = []
        for destination in Destination:
            for record in self.records(topic_of(self.settings, destination)):
                headers = dict(record.headers)
                offset = int(headers["neardup.position"].rsplit(b"/", 1)[1])
                found.append((offset, headers["neardup.verdict"].decode()))
        return sorted(found)

    def set_group(self, part: Part, offset: int) -> None:
        """Set the offset of a part's group by hand, as Kafka's own tools do."""
        chosen = settings_of(self.settings, part)
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        group, at = chosen.kafka.group, TopicPartition(chosen.topics.input, 0)
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Refused until the group has noticed that its last member is gone.
        while admin.list_group_offsets({group: None})[group][at][:2] != (offset, ""):
            assert time.monotonic() < deadline, "the offset cannot be set"
            admin.alter_group_offsets(group, {at: OffsetAndMetadata(offset, "", -1)})
        admin.close()

    def delete_before(self, topic: str, offset: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        admin.delete_records({TopicPartition(topic, 0): offset})
        admin.close()
