"""Decided but undelivered records in their later form: from the input and the verdicts."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from kafka import TopicPartition

from index import Source
from streamer.errors import RecoveryRefused
from streamer.fingerprint.scheme import measure_of, parameters_for
from streamer.parts.batches import Batches
from streamer.parts.verdict_batch import VerdictBatch, unpack_verdicts
from streamer.parts.verdict_rows import verdicts_on
from streamer.records.record import Destination, Record
from streamer.records.route import Router
from streamer.settings.settings import Settings
from streamer.transports.kafka.topic_reader import TopicReader


def read_undelivered(
    settings: Settings, source: Source, wanted: range, destinations: Sequence[Destination]
) -> Iterator[list[Record]]:
    """A source's records at these offsets with verdicts for the destinations, with output headers.

    Yields portions; empty ones mark time. Raises RecoveryRefused for missing verdicts, and reading errors.
    """
    topic, name = settings.topics.verdicts, f"{settings.topics.input}/{source.partition}"
    batches: Batches[VerdictBatch] = Batches(settings, topic, unpack_verdicts)
    inputs = TopicPartition(settings.topics.input, source.partition)
    measure = measure_of(settings, parameters_for(settings, {}))
    router = Router(settings.kafka.group, "", shadow=settings.route.shadow, measure=measure)

    def outputs(records: list[Record], fresh: Sequence[VerdictBatch]) -> list[Record]:
        verdicts, unknown = verdicts_on(records, {source: fresh}), [None] * len(records)
        outgoing = router.explained(records, verdicts.documents, unknown, verdicts.decisions, verdicts.names)
        return [replace(each.record, headers=each.headers) for each in outgoing if each.destination in destinations]

    with closing(batches), closing(TopicReader(settings, f"{settings.topics.input!r}")) as reader:
        begin = batches.covering(source.partition, source.stream, wanted.start)
        reached = wanted.start
        for read in batches.read(source.partition, range(begin, batches.extent(source.partition).stop)):
            fresh: list[VerdictBatch] = []
            for stored in read:
                heading = stored.batch.heading
                if heading.stream != source.stream or heading.end <= reached or reached >= wanted.stop:
                    continue
                if heading.begin > reached:
                    raise RecoveryRefused(
                        f"{name}: the index is to be restored, and no verdicts are left on offsets {reached} to "
                        f"{heading.begin - 1}, which were decided and not delivered: {topic!r} lost them. Bring a newer backup "
                        "of the index back (streamer index restore)."
                    )
                fresh.append(stored.batch)
                reached = heading.end
            if fresh:
                offsets = range(max(fresh[0].heading.begin, wanted.start), min(reached, wanted.stop))
                for records in reader.records({inputs: offsets}, source.stream):
                    yield outputs(records, fresh) if records else []
            else:
                yield []
            if reached >= wanted.stop:
                return
        raise RecoveryRefused(
            f"{name}: the index is to be restored, and {topic!r} ends at the verdicts on offset {reached - 1}, though those "
            f"below {wanted.stop} were decided: it lost records. Bring a newer backup of the index back (streamer index restore)."
        )
