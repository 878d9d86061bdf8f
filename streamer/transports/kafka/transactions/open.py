"""Waiting for open transactions, which hide all later records.

A worker that died during one must not make an output look empty. So a full read waits until readers of committed
records reach the log's end.
"""

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from typing import Any, TypeVar

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError

from streamer.errors import SettingsError, TransactionHanging
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients
from streamer.transports.kafka.topic_reader import Ranges, TopicReader

log = structlog.get_logger(__name__)

OPEN_MARGIN_SECONDS = 30.0
"""Wait beyond the brokers' limit for transactions: they look for overdue ones every 10 seconds."""

_REPORT_SECONDS = 15.0

Result = TypeVar("Result")


def whole_ranges(
    settings: Settings, reader: TopicReader, partitions: Collection[TopicPartition]
) -> Generator[list[Any], None, Ranges]:
    """Each partition's offsets at the call, once readers of committed records can read them all.

    Yields empty batches meanwhile. Raises BrokerUnavailable, TransactionHanging.
    """
    with closing(TopicReader(settings, committed_only=False)) as everything:
        ends = everything.ends(partitions)
    bound_seconds, waited_since, reported_at = 0.0, None, 0.0
    while hidden := _hidden(reader, ends):
        now = time.monotonic()
        if waited_since is None:
            waited_since = now
            bound_seconds = clients.transaction_ms_max(settings) / 1000 + OPEN_MARGIN_SECONDS
        if now - waited_since > bound_seconds:
            raise _never_ended(settings, hidden, bound_seconds)
        if now >= reported_at:
            reported_at = now + _REPORT_SECONDS
            log.warning(
                "waiting for an open transaction, which hides later records",
                partitions=[f"{at.topic}/{at.partition} from offset {start} on" for at, start in hidden.items()],
                producers=_producers_of(settings, hidden),
                seconds=round(now - waited_since),
                seconds_max=round(bound_seconds),
                remedy="start the program that this transactional id belongs to, which ends it; or wait",
            )
        yield []
        time.sleep(settings.batch.wait_ms / 1000)
    return reader.ranges(partitions, ends)


def awaited(waiting: Generator[list[Any], None, Result]) -> Result:
    """A generator's return value."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            result: Result = end.value
            return result


def _hidden(reader: TopicReader, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """First open offset, per partition with a hidden end."""
    stable = reader.ends(ends)
    return {partition: stable[partition] for partition, end in ends.items() if stable[partition] < end}


def _producers_of(settings: Settings, hidden: Mapping[TopicPartition, int]) -> list[str]:
    try:
        with clients.make_admin(settings) as admin:
            ids = {producer.producer_id for _, producer in clients.open_producers(admin, list(hidden))}
            return [f"{number} of transactional id {clients.identity_of(admin, number)!r}" for number in sorted(ids)]
    except (KafkaError, SettingsError) as error:
        return [f"unknown ({error})"]


def _never_ended(settings: Settings, hidden: Mapping[TopicPartition, int], seconds: float) -> TransactionHanging:
    return TransactionHanging(
        f"the outputs cannot be read to their ends: a transaction has been open for more than {seconds:.0f} s, longer than "
        "the brokers allow, and hides what was delivered after it. Nothing is lost. A person ends it: first read "
        f"docs/runbook.md, NeardupTransactionHanging; then {clients.abort_commands(settings.kafka, hidden)}"
    )
