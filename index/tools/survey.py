"""Survey: where the entries of an index stand, how full its buckets are, how far its sources have come, who reads it."""

from collections.abc import Mapping
from typing import NamedTuple

from index.entry import Source
from index.index import Index, internals_of
from index.lsm.tree import Standing
from index.session import ReadSession
from index.storage import scan
from index.storage.scan import Age
from index.storage.statistics import statistics_of
from index.tools.buckets import BucketSizes, bucket_sizes


class Survey(NamedTuple):
    """An index at one moment.

    standing  where the entries stand
    buckets   how many entries the buckets hold, from a sample
    ages      of every source whose record time is kept
    """

    standing: Standing
    buckets: BucketSizes
    ages: Mapping[Source, Age]


class Reader(NamedTuple):
    """A process that has the index open: its id, and the transaction that it reads, None between two reads."""

    process: int
    transaction: int | None


def survey(index: Index) -> Survey:
    """The survey of an index; reads a sample of the segments, and the entries that do not stand in them."""

    def operation(session: ReadSession) -> Survey:
        standing, buckets = bucket_sizes(session, statistics_of(session.transaction, session.words).entries)
        streams = {number: stream for number, (stream, _) in scan.numbered_streams(session.transaction).items()}
        of_sources = scan.ages(session.transaction).items()
        ages = {Source(streams[stream], partition): age for (stream, partition), age in of_sources}
        return Survey(standing, buckets, ages)

    return internals_of(index).read(operation)


def readers(index: Index) -> list[Reader]:
    """Everybody who reads the index, this process among them."""
    return [Reader(*reader) for reader in internals_of(index).store.readers()]
