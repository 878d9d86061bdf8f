"""Survey of an index: distribution of its entries, bucket sizes, source ages, and readers."""

from collections.abc import Mapping
from typing import NamedTuple

from index.entry import Source
from index.index import Index, internals_of
from index.lsm.hash_table import TreeStats
from index.session import ReadSession
from index.storage import scan
from index.storage.counters import statistics_of
from index.storage.scan import Age
from index.tools.buckets import BucketSizes, bucket_sizes


class Survey(NamedTuple):
    """An index at one moment.

    stats    entries by place
    buckets  bucket sizes, from a sample
    ages     by source, if it has a record time

    >>> from index import Parameters
    >>> from index.tools import survey
    >>> with Index.open(folder, Parameters(), map_bytes_max=2**24) as index:
    ...     survey(index).stats.memtable_entries, survey(index).ages
    (0, {})
    """

    stats: TreeStats
    buckets: BucketSizes
    ages: Mapping[Source, Age]


def survey(index: Index) -> Survey:
    """Survey an index; reads a sample of the segments, and the entries outside them."""

    def operation(session: ReadSession) -> Survey:
        stats, buckets = bucket_sizes(session, statistics_of(session.transaction, session.words).entries)
        streams = {number: stream for number, (stream, _) in scan.numbered_streams(session.transaction).items()}
        numbered_ages = scan.ages(session.transaction).items()
        ages = {Source(streams[stream], partition): age for (stream, partition), age in numbered_ages}
        return Survey(stats, buckets, ages)

    return internals_of(index).read(operation)


def readers(index: Index) -> list[tuple[int, int | None]]:
    """Every reader, this process included: process id and read transaction, None between two reads."""
    return internals_of(index).store.readers()
