"""Forgetting on Flink: a record of the fingerprint topic names what leaves, and its place in the log says before what."""

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from index.dataflow import name_digests
from streamer.errors import SettingsError
from streamer.flink.batches import forget_batch
from streamer.flink.carried import dataflow_of
from streamer.flink.taking_in import Written
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import Loader, partitions_between

PARTITION = 0
"""It takes all commands. Any would do: the order of the log is one for all partitions."""

NAMES_MAX = 10_000
"""Most names in a record."""


def forget(settings: Settings, ids: Sequence[str], scope: str | None = None) -> Written:
    """Write into the log that documents are forgotten: those with one of these ids, or all of a scope.

    ids    as they are indexed: see `streamer.records.names.bounded_id`
    scope  as names begin with it, and the slash behind it

    Raises SettingsError if Flink cannot do it by these settings; BrokerUnavailable.
    """
    if not dataflow_of(settings).leaves:
        raise SettingsError(
            "index.recrawl: duplicate: without updates and without retention no entry leaves a job on Flink, and its state says "
            'nothing about ids. Forgetting needs a job with index.recrawl = "update", index.entries_max or index.age_max_hours.'
        )
    partitions_between(settings)
    names = [name_digests(id_)[0] for id_ in ids] if scope is None else [name_digests(scope)[1]]
    digests, topic = np.array(names, np.uint64), settings.topics.fingerprints
    with closing(Loader(settings, topic)) as loader:
        loader.send_to(
            (PARTITION, None, forget_batch(PARTITION, digests[begin : begin + NAMES_MAX]))
            for begin in range(0, len(digests), NAMES_MAX)
        )
        return Written(topic, len(digests), dict(loader.ends))
