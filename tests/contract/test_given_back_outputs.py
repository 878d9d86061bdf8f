"""Sending once more over a real broker: what stands in the output is the truth, and only the newest sender may add to it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from index.entry import Position, Source, Verdict
from streamer.errors import DeliveryDoubtful
from streamer.records.record import Decision, Destination, Outgoing, Record
from streamer.records.route import Router, given_back
from streamer.settings.settings import Settings
from streamer.transports.kafka import changelog
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.kafka.transport import KafkaTransport
from streamer.transports.output_log import GIVE_BACK
from tests.support.memory_broker import Stored
from tests.support.transport_worlds import KafkaWorld, begin, impatient, only, read_batch

START_MS = 1_700_000_000_000
COUNT = 20

Delivered = tuple[Settings, KafkaTransport, Source]


@pytest.fixture
def delivered(kafka: SimpleNamespace, open_transport: Callable[[Settings], KafkaTransport]) -> Delivered:
    """Records of one source, every fourth of them dropped."""
    world = KafkaWorld(kafka.bootstrap_servers)
    world.set_up()
    world.write(Stored(b"key", b"document %d" % number, START_MS + number, (("h", b"1"),)) for number in range(COUNT))
    transport = open_transport(world.settings)
    source = only(begin(transport))
    batch = read_batch(transport)
    assert len(batch.records) == COUNT
    transport.deliver(batch, [decided(record) for record in batch.records])
    return world.settings, transport, source


def decided(record: Record) -> Outgoing:
    position = f"{record.topic}/0/0"
    decision = Decision(Verdict.UNIQUE, "no-match", f"id {record.offset}")
    if record.offset % 4 == 3:
        decision = Decision(
            Verdict.DUPLICATE,
            "similar",
            f"id {record.offset}",
            None,
            1,
            "id 0",
            position,
            original_stream=record.source.stream,
        )
    (outgoing,) = Router(connector_name="neardup", task_id="0").route([record], [decision])
    return outgoing


@pytest.fixture
def output_log(delivered: Delivered) -> Iterator[Callable[..., KafkaOutputLog]]:
    made: list[KafkaOutputLog] = []

    def opened(instance: str = "0") -> KafkaOutputLog:
        made.append(KafkaOutputLog(impatient(delivered[0], instance=instance)))
        made[-1].open(GIVE_BACK)
        return made[-1]

    yield opened
    for each in made:
        each.close()


def dropped(output_log: KafkaOutputLog, since_ms: int | None = None) -> list[Record]:
    records = [each.record for found in output_log.outputs([Destination.DUPLICATE], since_ms) for each in found]
    return [replace(record, headers=given_back(record.headers)) for record in records if record is not None]


def sent(output_log: KafkaOutputLog, since_ms: int | None = None) -> list[int]:
    return sorted(
        each.record.offset
        for found in output_log.outputs([Destination.UNIQUE], since_ms)
        for each in found
        if each.record is not None and each.headers.verdict is Verdict.GIVEN_BACK
    )


def test_what_was_sent_is_seen_by_the_next_and_found_from_its_own_time_on(
    delivered: Delivered, output_log: Callable[..., KafkaOutputLog]
) -> None:
    first = output_log()
    assert [record.offset for record in dropped(first)] == [3, 7, 11, 15, 19]
    assert [record.offset for record in dropped(first, START_MS + 11)] == [11, 15, 19]
    assert sent(first) == []
    first.append(dropped(first)[:3])
    assert {claim.offset for claim in first.claims().values()} == {COUNT}
    second = output_log(instance="of-another-host")
    assert sent(second) == [3, 7, 11]
    # At least those that are not before: they stand behind others, and behind ends of transactions, which have a time of now.
    assert sent(second, START_MS + 7)[-2:] == [7, 11]
    # The newcomer has taken over: the first can send no more, and nothing of what it tries arrives.
    with pytest.raises(DeliveryDoubtful, match="Run the command again"):
        first.append(dropped(first)[3:])
    second.append(dropped(second)[3:4])
    assert sent(second) == [3, 7, 11, 15]
    assert list(second.claims()) == [delivered[2]]


def test_what_was_given_back_does_not_hide_what_a_lost_index_needs(
    delivered: Delivered, output_log: Callable[..., KafkaOutputLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, transport, source = delivered
    giving = output_log()
    giving.append(dropped(giving)[:2])
    # The search back from the end looks at a few records at a time, and those given back come from before every range.
    monkeypatch.setattr(changelog, "SEARCH_OFFSETS", 2)
    found = [
        each for records in transport.changelog({source: range(10, COUNT)}, [Destination.UNIQUE]) for each in records
    ]
    assert [record.offset for record in found if dict(record.headers)["neardup.verdict"] == b"unique"] == [
        *(10, 12, 13, 14, 16, 17, 18)
    ]
    assert [Position(each.source, each.offset) for each in found if each.offset < 10] == [
        Position(source, 3),
        Position(source, 7),
    ]
