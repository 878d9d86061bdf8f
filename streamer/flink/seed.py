"""An index's entries as the start of a Flink job: from decisions on one host to many."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from index import Index, Source
from index.tools import snapshot
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import key_for, parameters_for, scheme_for
from streamer.flink.carried import dataflow_of
from streamer.flink.seeding import Seed, seeds_of
from streamer.flink.taking_in import Written
from streamer.settings.parts import settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka import topics
from streamer.transports.kafka.topic_reader import TopicReader

LOOKED_BACK = 64
"""Offsets among which the last record is. Ends of transactions have offsets too."""


def seed(settings: Settings, index: Index, progress: Callable[[int], None]) -> Written:
    """Write a snapshot of all entries into a new topic. `progress` receives the entries so far.

    Raises SettingsError if Flink cannot decide by these settings, or decisions are unpublished; ParametersDifferError for an
    index with other settings; IndexDamagedError, BrokerUnavailable.
    """
    flow = dataflow_of(settings)
    index.parameters.require_equal(
        parameters_for(settings, scheme_for(settings, key_for(settings, index.secret)).stamp()),
        str(settings.index.directory),
    )
    partitions, topic = topics.partitions_between(settings), topics.seed_topic(settings)
    _require_published(settings, {at: each.offset for at, each in index.applied().items()})
    topics.create_seed_topic(settings, partitions)
    until_ms, entries = _known_until(settings), 0

    def counted(seeds: Iterator[Seed]) -> Iterator[tuple[int, int, bytes]]:
        nonlocal entries
        for each in seeds:
            entries += each.documents
            progress(entries)
            yield each.partition, each.time_ms, each.content

    with closing(topics.Loader(settings, topic)) as loader:
        snapshot(index, lambda taken: loader.send_to(counted(seeds_of(taken, partitions, flow, until_ms))))
        return Written(topic, entries, dict(loader.ends))


def _known_until(settings: Settings) -> Mapping[int, int]:
    """By partition, the time until which the deciding service has read the log. Its index knows all before."""
    claims = topics.claims_of_group(settings_of(settings, "decide"))
    ends = {source.partition: claim.offset for source, claim in claims.items()}
    with closing(TopicReader(settings, "the fingerprints back")) as reader:
        read = [at for at in reader.partitions(settings.topics.fingerprints) if at.partition in ends]
        ranges = reader.ranges(read, {at: min(end, ends[at.partition]) for at, end in reader.ends(read).items()})
        lasts = {at: range(max(each.start, each.stop - LOOKED_BACK), each.stop) for at, each in ranges.items()}
        return {
            at.partition: records[-1].timestamp
            for polled, _ in reader.read(lasts)
            for at, records in polled.items()
            if records
        }


def _require_published(settings: Settings, applied: Mapping[Source, int]) -> None:
    """Raise SettingsError for unpublished verdicts: the next decider would never publish them."""
    published = {source: claim.offset for source, claim in topics.claims_of_group(settings).items()}
    for at, claim in topics.claims_of_group(settings_of(settings, "decide")).items():
        if claim.place is not None:
            source = Source(claim.place.stream, at.partition)
            published[source] = max(claim.place.offset, published.get(source, 0))
    lines = "; ".join(
        f"partition {source.partition}: decided up to {offset}, published up to {published[source]}"
        for source, offset in applied.items()
        if source in published and offset > published[source]
    )
    if lines:
        raise SettingsError(
            f"index.directory: the index in {settings.index.directory} has unpublished decisions ({lines}). Start the service "
            "that uses it once more, stop it with SIGTERM, and seed then."
        )
