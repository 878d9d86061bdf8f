"""Partitions with a backlog take turns, over a real broker: none stands still while a worker works off another."""

import random
from types import SimpleNamespace

import pytest

from tests.support.transport_worlds import KafkaWorld, begin, deliver_all, read_batch

RECORDS, PORTION, VALUE_BYTES = 600, 20, 500


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_partitions_with_a_backlog_take_turns_every_few_batches(kafka: SimpleNamespace, client: str) -> None:
    world = KafkaWorld(kafka.bootstrap_servers, client)  # type: ignore[arg-type]
    world.set_up(partitions=3, records_max=20)
    for partition in range(3):
        # In small portions, as a crawler sends them: a broker divides none. Nor does compression make them smaller.
        for _ in range(RECORDS // PORTION):
            world.write([random.randbytes(VALUE_BYTES) for _ in range(PORTION)], partition)
    transport = world.transport()
    begin(transport)
    turns: list[set[int]] = []
    for _ in range(3 * RECORDS // 20):
        batch = read_batch(transport)
        turns.append({record.source.partition for record in batch.records})
        deliver_all(transport, batch)
    # In the first half nothing is at its end.
    half = turns[: len(turns) // 2]
    longest = max(longest_absence(half, partition) for partition in range(3))
    assert longest <= 20, f"a partition waited for {longest} batches"
    world.tear_down()


def longest_absence(turns: list[set[int]], partition: int) -> int:
    longest = absent = 0
    for turn in turns:
        absent = 0 if partition in turn else absent + 1
        longest = max(longest, absent)
    return longest
