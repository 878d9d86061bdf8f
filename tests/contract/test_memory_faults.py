"""The faults of the broker in memory do what they say; the tests that use them rely on this."""

from collections.abc import Sequence

import pytest

from index.entry import Source
from tests.support.memory_broker import Crash, Crashed, CrashPoint, MemoryBroker, MemoryTransport, Stored
from tests.support.transport_worlds import begin, make_settings, only, read_batch, routed

SETTINGS = make_settings(records_max=2)


def prepared(items: Sequence[bytes | Crash]) -> MemoryBroker:
    broker = MemoryBroker()
    broker.create_for(SETTINGS)
    broker.write(SETTINGS.topics.input, 0, items)
    return broker


def deliver_until_crash(broker: MemoryBroker) -> bool:
    """Run one life of a process that copies what it reads. Returns whether it died."""
    transport = MemoryTransport(broker, SETTINGS, "0")
    source = only(begin(transport))
    try:
        while transport.lags()[source]:
            batch = read_batch(transport)
            transport.deliver(batch, [routed(record) for record in batch.records])
    except Crashed:
        return True
    return False


def delivered(broker: MemoryBroker) -> list[bytes | None]:
    return [record.value for record in broker.records(SETTINGS.topics.unique)]


def committed(broker: MemoryBroker) -> int | None:
    source = Source(broker.topics[SETTINGS.topics.input].id, 0)
    return broker.group(SETTINGS.kafka.group).committed.get(source)


@pytest.mark.parametrize(
    ("point", "outputs", "offset"),
    [(CrashPoint.BEFORE_DELIVER, 2, 2), (CrashPoint.BEFORE_COMMIT, 2, 2), (CrashPoint.AFTER_COMMIT, 4, 4)],
)
def test_a_crash_strikes_once_and_leaves_what_its_point_says(point: CrashPoint, outputs: int, offset: int) -> None:
    broker = prepared([b"a", b"b", Crash(point), b"c", b"d", b"e"])
    assert deliver_until_crash(broker)
    assert (len(delivered(broker)), committed(broker)) == (outputs, offset)
    assert not deliver_until_crash(broker)
    assert delivered(broker) == [b"a", b"b", b"c", b"d", b"e"]
    assert committed(broker) == 5


def test_several_crashes_before_one_record_strike_one_life_after_the_other() -> None:
    broker = prepared([Crash(), Crash(CrashPoint.BEFORE_COMMIT), Crash(CrashPoint.AFTER_COMMIT), b"a"])
    lives = [deliver_until_crash(broker) for _ in range(4)]
    assert lives == [True, True, True, False]
    assert delivered(broker) == [b"a"]


def test_a_copy_that_commits_on_its_own_is_caught() -> None:
    """Negative control: outputs and offsets in separate transactions do deliver twice under these faults."""
    broker = prepared([b"a", Crash(), b"b"])
    outputs: list[bytes | None] = []
    for _ in range(2):
        transport = MemoryTransport(broker, SETTINGS, "0")
        begin(transport)
        batch = read_batch(transport)
        outputs += [record.value for record in batch.records]
        try:
            transport.deliver(batch, [])
        except Crashed:
            continue
    assert outputs == [b"a", b"b", b"a", b"b"]


def test_outputs_keep_key_time_and_headers() -> None:
    broker = prepared([])
    broker.write(SETTINGS.topics.input, 0, [Stored(b"k", None, 7, (("h", None),))])
    assert not deliver_until_crash(broker)
    (found,) = broker.records(SETTINGS.topics.unique)
    assert (found.key, found.value, found.timestamp_ms, found.headers[0]) == (b"k", None, 7, ("h", b""))
    assert MemoryTransport(broker, SETTINGS, "0").committed([]) == {}
