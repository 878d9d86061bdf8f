"""Transactions that the broker forgot to end: detected and ended before any write.

A coordinator notes its decision, then marks every partition with records or offsets. Apache Kafka omits the mark of a
partition without a leader, as during a broker restart (4.3.1, KAFKA-20734), and still calls the transaction complete:

    partition   a a a |                       the records stay open: readers of committed records stop
                                              before them; an open offset cannot be fetched
    partition   a a a | b b b COMMIT          the producer id's next mark ends all of it, whatever was decided:
                                              an aborted `a`, delivered again as `b`, comes out twice

So a producer that takes over, or has lost a connection, looks for its id's open transaction: only the last can be open. A
transaction with the same id and exactly the forgotten partitions ends it, in the one way known to be right:

    offsets open        as the coordinator had decided before the new producer asked for an id: no other worker has
                        passed an offset that cannot be fetched
    offsets not open    abort, if a source's committed offset is no later than one of the transaction's first records:
                        then it was not committed. Commit, if all committed offsets are later and the coordinator had
                        decided so. Otherwise another worker may have delivered the records, and a person must look
    neither decides     abort, if the worker's note (`transactions.commit_note`) shows that it never asked for the commit
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, sleep, time

import structlog
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition, errors
from kafka.admin import TransactionDescription, TransactionState

from index import Position, Source
from streamer.errors import DeliveryDoubtful, TransactionHanging
from streamer.records.route import parse_position
from streamer.settings.kafka import Kafka
from streamer.settings.settings import Settings
from streamer.transports.kafka import clients
from streamer.transports.kafka.rights import OFFSETS_TOPIC, is_of_group, transactional_id
from streamer.transports.kafka.topic_reader import first_records
from streamer.transports.kafka.topics import committed_offsets
from streamer.transports.kafka.transactions.commit_note import Unasked, unasked

log = structlog.get_logger(__name__)


DOCUMENTED_AT = "docs/runbook.md, NeardupTransactionHanging"

_COMMITTED: dict[TransactionState, bool] = {
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_ABORT: False,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.PREPARE_EPOCH_FENCE: False,
    # The request for a producer id aborts it.
    TransactionState.ONGOING: False,
}
"""Whether a transaction in each state ends committed. An empty one no longer shows it."""


@dataclass(frozen=True, slots=True)
class Open:
    """One producer's open transaction: its first offset in each partition.

    offsets  of the partition with this group's committed offsets: at most one
    epochs   of the producer, as these partitions have them

    >>> Open(9, {TopicPartition("unique", 0): 70}, {}).all
    {TopicPartition(topic='unique', partition=0): 70}
    """

    producer_id: int
    outputs: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
    epochs: frozenset[int] = frozenset()

    @property
    def all(self) -> dict[TopicPartition, int]:
        """Outputs and offsets together."""
        return {**self.outputs, **self.offsets}


def take_over(
    settings: Settings,
    instance: str,
    admin: KafkaAdminClient,
    topics: Collection[str],
    *,
    by_coordinator: bool = False,
) -> KafkaProducer:
    """Producer with nothing open: its predecessor's transaction has ended.

    topics          the predecessor's outputs
    by_coordinator  end a forgotten transaction by the coordinator's decision: safe without committed offsets

    Raises TransactionHanging without a known or successful end; DeliveryDoubtful and the client's errors.
    """
    identity = transactional_id(settings.kafka, instance)
    last = _state(described(settings, admin, identity))
    deadline = monotonic() + settings.kafka.delivery_timeout_ms / 1000
    commit: bool | None = None
    with ExitStack() as undo:
        producer = _initialised(settings, instance, undo)
        # Repeated if the broker forgets this end too: a new start would no longer know the right end.
        while (forgotten := _find(settings, admin, producer_of(producer)[0], topics)).all:
            if commit is None:
                commit = _how_to_end(settings, instance, forgotten, last, by_coordinator=by_coordinator)
            if commit is None or monotonic() > deadline:
                raise hanging(settings, identity, forgotten)
            log.warning(
                "ending a transaction that the broker forgot",
                transactional_id=identity,
                producer_id=forgotten.producer_id,
                end="commit" if commit else "abort",
                partitions=_shown(forgotten.all),
            )
            _end(settings.kafka, producer, forgotten, commit=commit)
            clients.drop_producer(producer)
            # The next producer gets its id only when all marks are set.
            producer = _initialised(settings, instance, undo)
        undo.pop_all()
    return producer


def require_all_ended(settings: Settings, admin: KafkaAdminClient, producer_id: int, topics: Collection[str]) -> None:
    """Raise DeliveryDoubtful if this producer's last, committed transaction does not get its marks in time.

    Also raises the client's errors.
    """
    deadline = monotonic() + settings.kafka.delivery_timeout_ms / 1000
    while left := _find(settings, admin, producer_id, topics).all:
        if monotonic() > deadline:
            raise DeliveryDoubtful(
                f"the last transaction was committed, but is still open in {', '.join(_shown(left))}"
            )
        sleep(clients.RETRY_SECONDS)


def outcome(
    positions: Sequence[Position | None],
    committed: Mapping[Source, int],
    last: TransactionState | None,
    *,
    offsets_open: bool,
) -> bool | None:
    """True to commit a forgotten transaction, False to abort it; None if neither is certain.

    positions     input position of its first record in each output partition; None for a record without one
    committed     the group's committed offsets, without open ones
    last          transactional id's state at the coordinator before the request for a producer id
    offsets_open  whether this transaction's offsets are open too

    >>> first = Position(Source("topic-id", 0), 70)
    >>> outcome([first], {first.source: 70}, None, offsets_open=False)
    False
    """
    decided = None if last is None else _COMMITTED.get(last)
    if offsets_open:
        return decided
    comparable = [each for each in positions if each is not None and each.source in committed]
    if len(comparable) < len(positions):
        return None
    if any(each.offset >= committed[each.source] for each in comparable):
        return False
    return True if decided else None


def require_offsets_not_hanging(settings: Settings, admin: KafkaAdminClient) -> None:
    """Raise TransactionHanging if an endless transaction hides a group offset.

    It belongs to this group without a coordinator about to end it. Or its id is unknown, and its last write is too old.
    """
    with clients.broker_errors(settings, "looking for what holds the committed offsets open"):
        for at, producer in _open_offsets(settings, admin):
            identity = clients.identity_of(admin, producer.producer_id)
            if identity is None:
                # The only use of a clock: this user may not be allowed to see the id.
                is_over = time() * 1000 - producer.last_timestamp > settings.kafka.transaction_timeout_ms
            else:
                ours = is_of_group(settings.kafka, identity)
                is_over = ours and _state(described(settings, admin, identity)) not in _UNDER_WAY
            # A coordinator has finished once all marks are set: an end between both questions shows now.
            starts = _starts(_open_offsets(settings, admin), producer.producer_id) if is_over else {}
            if starts.get(at) == producer.current_transaction_start_offset:
                raise hanging(settings, identity, Open(producer.producer_id, {}, {at: starts[at]}))


_UNDER_WAY = {
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
}


def hanging(settings: Settings, identity: str | None, forgotten: Open) -> TransactionHanging:
    """Error that names a hanging transaction and the way to end it."""
    named = "of an unknown transactional id" if identity is None else f"of transactional id {identity!r}"
    return TransactionHanging(
        f"group {settings.kafka.group!r} stands still: a transaction {named} (producer id {forgotten.producer_id}) was never "
        f"ended in {', '.join(_shown(forgotten.all))}, and nothing tells how it has to end. Nothing is lost. A person ends it: "
        f"first read {DOCUMENTED_AT}; then {clients.abort_commands(settings.kafka, forgotten.all)}"
    )


def partition_of_group(group: str, partitions: int) -> int:
    """Partition with a group's committed offsets: the absolute value of the name's Java hash, modulo `partitions`.

    >>> partition_of_group("ab", 50)  # 31 * 97 + 98 = 3105
    5
    """
    units = group.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (code >> 31 << 32)
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def _initialised(settings: Settings, instance: str, undo: ExitStack) -> KafkaProducer:
    producer = clients.make_transactional_producer(settings, instance)
    undo.callback(clients.drop_producer, producer)
    producer.init_transactions()
    return producer


def _state(description: TransactionDescription | None) -> TransactionState | None:
    return None if description is None else description.state


def producer_of(producer: KafkaProducer) -> tuple[int, int]:
    """Id and epoch of an initialised producer."""
    identity = producer._transaction_manager.producer_id_and_epoch
    return int(identity.producer_id), int(identity.epoch)


def described(settings: Settings, admin: KafkaAdminClient, identity: str) -> TransactionDescription | None:
    """Coordinator's description of a transactional id; None if unknown or unanswered. Raises the client's errors."""
    try:
        return clients.answered(
            settings.kafka.delivery_timeout_ms, lambda: admin.describe_transactions([identity])[identity]
        )
    except (errors.TransactionalIdNotFoundError, errors.UnsupportedVersionError):
        return None


def _find(settings: Settings, admin: KafkaAdminClient, producer_id: int, topics: Collection[str]) -> Open:

    def look() -> Open:
        outputs, offsets = _open_in(admin, topics, list), _open_offsets(settings, admin)
        epochs = {producer.producer_epoch for _, producer in outputs + offsets if producer.producer_id == producer_id}
        return Open(producer_id, _starts(outputs, producer_id), _starts(offsets, producer_id), frozenset(epochs))

    return clients.answered(settings.kafka.delivery_timeout_ms, look)


def _starts(producers: clients.Producers, producer_id: int) -> dict[TopicPartition, int]:
    return {
        at: producer.current_transaction_start_offset
        for at, producer in producers
        if producer.producer_id == producer_id
    }


def _open_offsets(settings: Settings, admin: KafkaAdminClient) -> clients.Producers:
    """As `_open_in`, for the group's committed offsets. None are open before any group's first commit."""

    def of_group(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(OFFSETS_TOPIC, partition_of_group(settings.kafka.group, len(partitions)))]

    try:
        return _open_in(admin, [OFFSETS_TOPIC], of_group)
    except errors.UnknownTopicOrPartitionError:
        return []


def _open_in(
    admin: KafkaAdminClient,
    topics: Collection[str],
    choose: Callable[[Sequence[TopicPartition]], list[TopicPartition]],
) -> clients.Producers:
    """Producers with an open transaction in the chosen partitions.

    None, with a warning, without the right to ask or with an old broker.
    """
    try:
        return clients.open_producers(admin, choose(_partitions_of(admin, topics)))
    except (errors.TopicAuthorizationFailedError, errors.UnsupportedVersionError) as error:
        log.warning(
            "cannot look for transactions that the broker forgot",
            topics=list(topics),
            reason=str(error),
            remedy="allow this user to read these topics",
        )
        return []


def _partitions_of(admin: KafkaAdminClient, topics: Collection[str]) -> list[TopicPartition]:
    partitions: list[TopicPartition] = []
    for topic in admin.describe_topics(list(topics)):
        # An omitted partition could have the open transaction, so an error never counts as an empty topic.
        if topic["error_code"]:
            raise errors.for_code(topic["error_code"])(topic["name"])
        partitions += [TopicPartition(topic["name"], each["partition_index"]) for each in topic["partitions"]]
    return partitions


def _how_to_end(
    settings: Settings, instance: str, forgotten: Open, last: TransactionState | None, *, by_coordinator: bool
) -> bool | None:
    if by_coordinator:
        return outcome([], {}, last, offsets_open=True)
    records = first_records(settings, forgotten.outputs)
    positions = [None if record is None else parse_position(tuple(record.headers)) for record in records.values()]
    committed = committed_offsets(settings)
    commit = outcome(positions, committed, last, offsets_open=bool(forgotten.offsets))
    if commit is None and never_asked(unasked(settings, instance), forgotten, positions, committed):
        return False
    return commit


def never_asked(
    noted: Unasked | None, forgotten: Open, positions: Sequence[Position | None], committed: Mapping[Source, int]
) -> bool:
    """Whether everything open belongs to the noted transaction, whose commit was never asked for.

    The producer's earlier, committed transaction must not be aborted with it. Its outputs lie below the noted one's first
    records; the noted one's open offsets are not committed yet.
    """
    if noted is None or {(forgotten.producer_id, epoch) for epoch in forgotten.epochs} != {noted.producer}:
        return False
    reached = {source.partition: offset for source, offset in committed.items()}
    settled = all(reached.get(partition, -1) >= offset for partition, offset in noted.before.items())
    return all(map(noted.is_of, positions)) and (settled or not forgotten.offsets)


def _end(kafka: Kafka, producer: KafkaProducer, forgotten: Open, *, commit: bool) -> None:
    producer.begin_transaction()
    for partition in forgotten.outputs:
        producer._transaction_manager.maybe_add_partition_to_transaction(partition)
    # Sends no offset, but adds their partition. The client sends requests in turn: on return, all partitions are added.
    clients.within_timeout(kafka, lambda: producer.send_offsets_to_transaction({}, kafka.group), "offsets")
    step, call = ("commit", producer.commit_transaction) if commit else ("abort", producer.abort_transaction)
    clients.within_timeout(kafka, call, step)


def _shown(starts: Mapping[TopicPartition, int]) -> list[str]:
    return [f"{at.topic}/{at.partition} from offset {start} on" for at, start in sorted(starts.items())]
