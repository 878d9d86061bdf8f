"""An input topic that is made anew under an idle reader, on a real broker: the reading ends, and nobody is misled.

The broker drops the group's offsets with the topic. Its partitions may be assigned anew, or nothing may happen at all.
"""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from streamer.errors import DeliveryDoubtful
from streamer.transports.kafka import ownership
from streamer.transports.transport import Assigned
from tests.support.transport_worlds import KafkaWorld, begin, patiently


@pytest.fixture
def world(kafka: SimpleNamespace) -> Iterator[KafkaWorld]:
    made = KafkaWorld(kafka.bootstrap_servers)
    made.set_up(partitions=2)
    yield made
    made.tear_down()


@pytest.mark.parametrize("pause_seconds", [0.0, 0.05, 0.2])
def test_an_idle_reader_ends_however_fast_its_topic_is_made_anew_and_plans_nothing_for_the_former_one(
    world: KafkaWorld, kafka: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, pause_seconds: float
) -> None:
    monkeypatch.setattr(ownership, "CHECK_SECONDS", 1.0)
    transport = world.transport()
    assigned = begin(transport)
    transport.commit_start(dict.fromkeys(assigned.sources, 0))
    make_anew(kafka.bootstrap_servers, world.settings.topics.input, pause_seconds)

    def goes_on() -> bool:
        event = transport.read()
        if isinstance(event, Assigned):
            # What recovery asks for, in its order.
            transport.committed(event.sources)
            transport.first_offsets(event.sources)
            transport.end_offsets(event.sources)
            raise AssertionError("a plan would be made of offsets of two topics")
        return False

    with pytest.raises(DeliveryDoubtful, match="deleted"):
        patiently(goes_on)


def make_anew(bootstrap_servers: str, topic: str, pause_seconds: float) -> None:
    wanted = {topic: {"num_partitions": 2, "replication_factor": 1}}
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.delete_topics([topic])
        time.sleep(pause_seconds)

        def is_made() -> bool:
            try:
                admin.create_topics(wanted)
            except TopicAlreadyExistsError:
                return False
            return True

        patiently(is_made)
