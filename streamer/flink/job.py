"""The job on Apache Flink, which provides state, time and channels. The only importer of pyflink.

    fingerprints ─KafkaSource─► order ─► [frame] ─► claim, [versions] ─► [recall ─► verify] ─► resolve ─► name ─► join
    ─KafkaSink─► verdicts

1. Event time is the broker's time of a record. Each partition's watermark follows it, and no partition counts as idle: a late
record would be decided out of order.
2. An operator's messages wait in its state until the watermark reaches their slot's end.
3. Checkpoints contain state and timers. After a failure Flink returns to one, and repeats the same verdicts.
4. So the sink writes at least once. `route` drops repeated offsets.

Run as `flink run --python streamer/flink/job.py`, in an environment with this package (docs/flink.md).
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.serialization import ByteArraySchema
from pyflink.datastream import DataStream, KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.state import MapStateDescriptor
from pyflink.table import DataTypes, Schema, StatementSet, StreamTableEnvironment, TableDescriptor

from index.dataflow import KEPT_AT_ONCE, Dataflow, Decided, Floor, Message, Stage
from streamer.flink.batches import arrival, floor_batch, heartbeat, partition_of, verdict_batch
from streamer.flink.carried import dataflow_of
from streamer.flink.client_properties import client_properties
from streamer.flink.partition_keys import partition_keys
from streamer.flink.taking_in import job_name
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import partitions_between, seed_topic

SENDERS = {
    Stage.FRAME: (Stage.ORDER,),
    Stage.CLAIM: (Stage.ORDER, Stage.FRAME),
    Stage.VERSIONS: (Stage.ORDER,),
    Stage.RECALL: (Stage.ORDER, Stage.FRAME, Stage.CLAIM, Stage.VERSIONS),
    Stage.VERIFY: (Stage.ORDER, Stage.FRAME, Stage.RECALL),
    Stage.RESOLVE: (Stage.ORDER, Stage.CLAIM, Stage.VERIFY),
    Stage.NAME: (Stage.ORDER, Stage.CLAIM, Stage.RESOLVE),
    Stage.JOIN: (Stage.ORDER, Stage.NAME),
}
"""Senders of each operator; a sender has one output per receiver."""


SHARDS = 64
"""Each takes CLAIM a step in every slot. Fewer than tasks leave tasks idle."""

DECIDER = "flink"
"""Decider named in verdicts."""

HEARTBEATS_PER_SECOND = 10
"""Heartbeats per partition."""


def tag_of(stage: Stage) -> OutputTag:
    """Output tag of messages to an operator."""
    return OutputTag(stage.name.lower(), Types.PICKLED_BYTE_ARRAY())


def keyed_record() -> Any:
    """A record's type, with a key."""
    return Types.ROW_NAMED(["k", "v"], [Types.PRIMITIVE_ARRAY(Types.BYTE())] * 2)


def floors_tag() -> OutputTag:
    """Output tag for floors, as records for the fingerprint topic."""
    return OutputTag("floors", keyed_record())


def _map_state(runtime_context: RuntimeContext, name: str) -> Any:
    """The current key's state."""
    kind = Types.PICKLED_BYTE_ARRAY()
    return runtime_context.get_map_state(MapStateDescriptor(name, kind, kind))


class KeyTask:
    """The current key's state, as `index.dataflow.Task`."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.get, self.put_all = state.get, state.put_all

    def remove_all(self, names: Sequence[bytes]) -> None:
        """See `Task`."""
        for name in names:
            self._state.remove(name)


class OrderFunction(KeyedProcessFunction):  # type: ignore[misc]
    """ORDER: bytes of batches in, messages out."""

    def __init__(self, flow: Dataflow, topic: str) -> None:
        self._flow, self._topic = flow, topic

    def open(self, runtime_context: RuntimeContext) -> None:
        """See `KeyedProcessFunction`."""
        self._order = self._flow.order()
        self._tags = {stage: tag_of(stage) for stage in Stage}
        self._task = KeyTask(_map_state(runtime_context, "state"))

    def process_element(self, value: bytes, ctx: Any) -> Iterator[Any]:
        """See `KeyedProcessFunction`."""
        for message in self._order.arrive(self._task, arrival(bytes(value), ctx.timestamp(), self._topic)):
            yield self._tags[message.stage], tuple(message)


class StageFunction(KeyedProcessFunction):  # type: ignore[misc]
    """Any operator after ORDER: messages in, messages or verdicts out."""

    def __init__(self, flow: Dataflow, stage: Stage, keys: Sequence[bytes]) -> None:
        self._flow, self._stage, self._keys = flow, stage, keys

    def open(self, runtime_context: RuntimeContext) -> None:
        """See `KeyedProcessFunction`."""
        # Flink takes state back only with a new function, so what an operator remembers of it never is of a later state.
        self._operator: Any = self._flow.operators()[self._stage]
        self._tags, self._floors = {stage: tag_of(stage) for stage in Stage}, floors_tag()
        self._task = KeyTask(_map_state(runtime_context, "state"))
        self._waiting = _map_state(runtime_context, "waiting")
        # Number of waiting messages by key and slot, for messages since the start.
        self._counts: dict[tuple[int, int], int] = {}

    def process_element(self, value: tuple[Any, ...], ctx: Any) -> Sequence[Any]:
        """See `KeyedProcessFunction`."""
        message = Message(*value)
        if message.slot <= ctx.timer_service().current_watermark():
            raise AssertionError(f"{self._stage.name}: a message came after its slot {message.slot} was complete")
        if (self._stage, message.kind) in KEPT_AT_ONCE:
            self._operator.keep(self._task, message)
            return ()
        at = message.key, message.slot
        count = self._counts.get(at)
        if count is None:
            count = len(self._waiting_messages(message.slot))
            ctx.timer_service().register_event_time_timer(message.slot)
        self._waiting.put((message.slot, count), value)
        self._counts[at] = count + 1
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        """See `KeyedProcessFunction`."""
        messages = self._waiting_messages(timestamp)
        for number in range(len(messages)):
            self._waiting.remove((timestamp, number))
        self._counts.pop((ctx.get_current_key(), timestamp), None)
        for product in self._operator.complete(self._task, timestamp, messages):
            if isinstance(product, Decided):
                yield Row(self._keys[product.partition], verdict_batch(product, DECIDER))
            elif isinstance(product, Floor):
                yield self._floors, Row(self._keys[product.partition], floor_batch(product))
            else:
                yield self._tags[product.stage], tuple(product)

    def _waiting_messages(self, slot: int) -> list[Message]:
        messages: list[Message] = []
        while True:
            value = self._waiting.get((slot, len(messages)))
            if value is None:
                return messages
            messages.append(Message(*value))


def build(
    environment: StreamExecutionEnvironment,
    settings: Settings,
    partitions: int,
    *,
    shards: int = SHARDS,
    seeding: bool = False,
    incomplete: bool = False,
    epoch_minutes: float | None = None,
) -> None:
    """Wire the job into an environment.

    partitions          count in both topics
    shards, incomplete  see `Dataflow`
    epoch_minutes       see `dataflow_of`
    seeding             only take in an index's entries, for a later job
    """
    flow = dataflow_of(
        settings,
        incomplete=incomplete,
        epoch_minutes=epoch_minutes,
        shards=shards,
    )
    keys = partition_keys(partitions)
    topic, uid = (seed_topic(settings), "seeds") if seeding else (settings.topics.fingerprints, "source")
    source = (
        KafkaSource.builder()
        .set_properties(client_properties(settings.kafka))
        .set_topics(topic)
        .set_group_id(f"{settings.kafka.group}.flink")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(ByteArraySchema())
        .set_property("isolation.level", "read_committed")
        .set_property("partition.discovery.interval.ms", "-1")
        .build()
    )
    arrived = environment.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), topic).uid(uid)
    ordered = (
        arrived.key_by(lambda content: partition_of(bytes(content)), key_type=Types.INT())
        .process(OrderFunction(flow, topic), output_type=Types.PICKLED_BYTE_ARRAY())
        .uid("order")
        .name("order")
    )
    outputs: dict[Stage, DataStream] = {Stage.ORDER: ordered}
    for stage in flow.stages[1:]:
        streams = [outputs[sender].get_side_output(tag_of(stage)) for sender in SENDERS[stage] if sender in outputs]
        kind = keyed_record() if stage is Stage.JOIN else Types.PICKLED_BYTE_ARRAY()
        step = streams[0].union(*streams[1:]).key_by(lambda message: message[1], key_type=Types.INT())
        name = stage.name.lower()
        outputs[stage] = step.process(StageFunction(flow, stage, keys), output_type=kind).uid(name).name(name)
        if stage is Stage.RESOLVE:
            outputs[stage].set_parallelism(1)
    # Seeds need no heartbeats, and a later floor says what one said before.
    has_floors = flow.retained is not None and not seeding
    floors = outputs[Stage.RESOLVE].get_side_output(floors_tag()) if has_floors else None
    _write(environment, outputs[Stage.JOIN], floors, settings, () if seeding else keys)


def _write(
    environment: StreamExecutionEnvironment,
    verdicts: DataStream,
    floors: DataStream | None,
    settings: Settings,
    keys: Sequence[bytes],
) -> None:
    """Write verdicts, and heartbeats for `keys` into the fingerprint topic: otherwise time would stop in silent partitions.

    Floors go there too, so that all tasks learn of them at one place in the order.

    A record has its partition's key: PyFlink's DataStream sink cannot set one.
    """
    tables = StreamTableEnvironment.create(environment)
    columns = Schema.new_builder().column("k", DataTypes.BYTES()).column("v", DataTypes.BYTES()).build()
    statements = tables.create_statement_set()
    tables.create_temporary_table("verdicts", _sink(columns, settings.topics.verdicts, settings))
    statements.add_insert("verdicts", tables.from_data_stream(verdicts, columns))
    if keys:
        _add_heartbeats(tables, statements, _sink(columns, settings.topics.fingerprints, settings), keys)
    if floors is not None:
        statements.add_insert("signs", tables.from_data_stream(floors, columns))
    statements.attach_as_datastream()


def _add_heartbeats(
    tables: StreamTableEnvironment, statements: StatementSet, sink: TableDescriptor, keys: Sequence[bytes]
) -> None:
    tables.create_temporary_table("signs", sink)
    ticks = TableDescriptor.for_connector("datagen").option("rows-per-second", str(HEARTBEATS_PER_SECOND))
    tick = Schema.new_builder().column("tick", DataTypes.BIGINT()).build()
    tables.create_temporary_table("ticks", ticks.schema(tick).build())
    # No join with a list of all: Flink would keep every tick for ever.
    each = [f"SELECT X'{key.hex()}', X'{heartbeat(place).hex()}' FROM ticks" for place, key in enumerate(keys)]
    statements.add_insert_sql(f"INSERT INTO signs {' UNION ALL '.join(each)}")


def _sink(columns: Schema, topic: str, settings: Settings) -> TableDescriptor:
    options = {
        "topic": topic,
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
        "sink.delivery-guarantee": "at-least-once",
        **{f"properties.{name}": value for name, value in client_properties(settings.kafka).items()},
        # In offset order, despite producer retries.
        "properties.enable.idempotence": "true",
        "properties.acks": "all",
    }
    sink = TableDescriptor.for_connector("kafka").schema(columns)
    for name, value in options.items():
        sink = sink.option(name, value)
    return sink.build()


def main(arguments: Sequence[str] | None = None) -> None:
    """Submit the job to the cluster that Flink's own options name."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--config", type=Path, help="TOML file of the service's settings")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="one setting; repeatable"
    )
    parser.add_argument("--seed", action="store_true", help="only read the entries that `streamer index seed` wrote")
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="begin without a state where the fingerprints begin, though earlier documents of the input are unknown",
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=SHARDS,
        help="keys of the state; never fewer than tasks, since they cannot change (default: %(default)s)",
    )
    parser.add_argument(
        "--epoch-minutes",
        type=float,
        help="with retention: the state forgets by runs of this much of the log's time. It cannot change (default: an eighth of "
        "index.age_max_hours, or 60)",
    )
    options = parser.parse_args(arguments)
    settings = load(options.config, options.set)
    environment = StreamExecutionEnvironment.get_execution_environment()
    build(
        environment,
        settings,
        partitions_between(settings),
        shards=options.shards,
        seeding=options.seed,
        incomplete=options.incomplete,
        epoch_minutes=options.epoch_minutes,
    )
    environment.execute(job_name(settings, seeding=options.seed))


if __name__ == "__main__":
    main()
