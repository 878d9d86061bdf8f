"""Transactions without their marks, as a broker leaves them that forgot to end them.

A broker forgets a mark where a partition has no leader when the transaction completes, which cannot be brought about
for certain. So the coordinator is not told of partitions that the transaction writes to; FORGETFUL lets the broker take
that.
"""

from collections.abc import Mapping, Sequence

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.producer.transaction_manager import TxnOffsetCommitHandler
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from index.entry import Source
from streamer.records.route import POSITION, STREAM
from streamer.settings.settings import Settings
from streamer.transports.kafka.clients import drop_producer
from streamer.transports.kafka.rights import transactional_id
from streamer.transports.kafka.transactions.hanging import OFFSETS_TOPIC, partition_of_group

FORGETFUL = {"transaction.partition.verification.enable": "false"}
"""The broker's setting."""


class Predecessor:
    """A worker of instance `instance`, in its only transaction; the broker forgets some of the marks."""

    def __init__(self, settings: Settings, source: Source, instance: str = "0") -> None:
        self._settings, self._source = settings, source
        self.producer = initialised(settings, instance)
        self.producer.begin_transaction()
        # A partition that nothing is written to, so that the coordinator has a transaction to end.
        self._manager = self.producer._transaction_manager
        self._manager.maybe_add_partition_to_transaction(TopicPartition(settings.topics.dead_letter, 0))

    def write(self, values: Sequence[bytes], *, marked: bool, first: int = 0) -> None:
        """Write the values as outputs of the input from offset `first` on; they get their mark, or it is forgotten."""
        if not marked:
            self._manager._partitions_in_transaction.add(TopicPartition(self._settings.topics.unique, 0))
        sent = [
            self.producer.send(
                self._settings.topics.unique,
                value=value,
                headers=[
                    (POSITION, f"{self._settings.topics.input}/{self._source.partition}/{offset}".encode()),
                    (STREAM, self._source.stream.encode()),
                ],
                partition=0,
            )
            for offset, value in enumerate(values, first)
        ]
        self.producer.flush(timeout=10)
        for future in sent:
            future.get(timeout=0)

    def send_offsets(self, offset: int, *, marked: bool) -> None:
        """Send the input's offset; it gets its mark, or it is forgotten."""
        at = TopicPartition(self._settings.topics.input, self._source.partition)
        offsets = {at: OffsetAndMetadata(offset, self._source.stream, -1)}
        if marked:
            self.producer.send_offsets_to_transaction(offsets, self._settings.kafka.group)
            return
        send_unmarked(self._settings, self.producer, offsets)

    def end(self, how: str) -> None:
        """Commit, abort, or do nothing (any other word), and be gone."""
        if how == "commit":
            self.producer.commit_transaction()
        elif how == "abort":
            self.producer.abort_transaction()
        drop_producer(self.producer)


def send_unmarked(
    settings: Settings, producer: KafkaProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Send offsets in a transaction whose coordinator does not learn of them."""
    manager = producer._transaction_manager
    manager._pending_txn_offset_commits.update(offsets)
    group = ConsumerGroupMetadata(settings.kafka.group)
    handler = TxnOffsetCommitHandler(manager, group, manager._pending_txn_offset_commits, None)
    with manager._lock:
        manager._enqueue_request(handler)
    producer._sender.wakeup()
    assert handler.result.wait(10_000)


def initialised(settings: Settings, instance: str) -> KafkaProducer:
    """A producer that has its id, which makes the coordinator forget how the last transaction ended."""
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap_servers,
        transactional_id=transactional_id(settings.kafka, instance),
        transaction_timeout_ms=60_000,
    )
    producer.init_transactions()
    return producer


def abort_what_hangs(settings: Settings) -> None:
    """Ask of the broker what `kafka-transactions.sh abort` asks, for every partition that the message names."""
    with KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers) as admin:
        (offsets,) = admin.describe_topics([OFFSETS_TOPIC])
        number = partition_of_group(settings.kafka.group, len(offsets["partitions"]))
        partitions = [TopicPartition(settings.topics.unique, 0), TopicPartition(OFFSETS_TOPIC, number)]
        for partition, state in admin.describe_producers(partitions).items():
            for each in state.active_producers:
                if each.current_transaction_start_offset >= 0:
                    admin.abort_transaction(
                        AbortTransactionSpec(
                            partition, each.producer_id, each.producer_epoch, max(0, each.coordinator_epoch)
                        )
                    )
