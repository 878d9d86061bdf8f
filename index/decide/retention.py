"""How long entries count, and how what they took is used again.

By number: the newest `entries_max` entries count. By age: an entry counts until the record time of its source has moved
on by more than `age_max_ms` since it was decided. A source's time is its watermark, the median of its latest record
times, which never goes back: a few records with a wrong time do not move it. No clock is looked at.

What has expired is retired at once. Every batch then cleans the log of some batches that hold nothing else: their entries
leave the tables (a tombstone, see `layout`), their positions the journal.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from index.decide.retire import Leaving, retire
from index.entry import Entries
from index.lsm.tree import Tree
from index.storage import journal, log
from index.storage.layout import (
    AGE_KEY,
    HORIZON_KEY,
    LOG_KEY,
    LOG_KEY_BEGIN,
    SOURCE_HORIZON,
    SOURCE_KEY,
    Change,
    Counters,
    Horizon,
    Table,
    Times,
    pack_horizon,
    pack_numbers,
    pack_times,
    unpack_horizon,
    unpack_times,
)
from index.storage.store import Transaction
from index.storage.visibility import Visibility

LATEST_RECORDS = 63
"""The watermark is the median of so many latest record times."""

LATEST_RECORDS_MIN = 15
"""Before so many are known there is no watermark."""

CLEANED_MAX = 4
"""Batches that leave the log with one batch at most: more than come, so that cleaning keeps up."""

LOOKED_AT_MAX = 16
"""Batches looked at for it: those of a source whose time stands still are passed over."""

AGES_DROPPED_MAX = 64


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. It may differ from one opening to the next; what has expired stays so.

    entries_max  the newest so many entries count; None: all
    age_max_ms   entries count until their source's record time has moved on by more than this; None: always
    """

    entries_max: int | None = None
    age_max_ms: int | None = None

    def __post_init__(self) -> None:
        if self.entries_max is not None and self.entries_max < 1:
            raise ValueError("entries_max must be at least 1")
        if self.age_max_ms is not None and self.age_max_ms < 1:
            raise ValueError("age_max_ms must be at least 1")


def watermark_ms(times: Times, new_ms: npt.NDArray[np.int64]) -> Times:
    """A source's times behind some more records, int64 [n] in order of arrival; times that are not positive are none."""
    latest = np.concatenate([times.latest_ms, new_ms[new_ms > 0]])[-LATEST_RECORDS:]
    if len(latest) < LATEST_RECORDS_MIN:
        return Times(times.watermark_ms, latest)
    return Times(max(times.watermark_ms, int(np.sort(latest)[len(latest) // 2])), latest)


def advance(
    transaction: Transaction,
    retention: Retention,
    entries: Entries,
    sources: npt.NDArray[np.void],
    new: npt.NDArray[np.bool_],
    next_number: int,
) -> None:
    """Move record times and horizons on by the rows of a batch, before they are decided.

    sources  LOG_SOURCE [s], the index's own numbers of `entries.sources`
    new      bool [n], the rows that were not decided before
    """
    horizon = unpack_horizon(transaction.get(Table.META, HORIZON_KEY))
    number, of_sources = horizon.number, horizon.sources
    if retention.entries_max is not None:
        number = max(number, next_number - retention.entries_max)
    if retention.age_max_ms is not None:
        for source, (stream, partition) in enumerate(sources.tolist()):
            times_ms = entries.times_ms[new & (entries.source_numbers == source)]
            reached = _advance_time(transaction, stream, partition, times_ms, retention.age_max_ms)
            of_sources = _with_source(of_sources, stream, partition, reached)
    moved = Horizon(number, horizon.cleaned_to, of_sources)
    if number != horizon.number or of_sources is not horizon.sources:
        transaction.put(Table.META, HORIZON_KEY, pack_horizon(moved))


def _advance_time(
    transaction: Transaction, stream: int, partition: int, times_ms: npt.NDArray[np.int64], age_max_ms: int
) -> bytes | None:
    """Move a source's time on; the key of the log below which its batches have expired, where that is a new one."""
    key = SOURCE_KEY.pack(stream, partition)
    times = watermark_ms(unpack_times(transaction.get(Table.TIMES, key)), times_ms)
    transaction.put(Table.TIMES, key, pack_times(times))
    oldest_ms = times.watermark_ms - age_max_ms
    if oldest_ms <= 0:
        return None
    below = transaction.floor(Table.AGES, AGE_KEY.pack(stream, partition, oldest_ms - 1))
    if below is None or not below[0].startswith(key):
        return None
    reached = bytes(below[1])
    passed = [each for each, _ in islice(transaction.walk(Table.AGES, key), AGES_DROPPED_MAX) if each <= below[0]]
    for each in passed:
        transaction.delete(Table.AGES, each)
    return reached


def _with_source(
    horizons: npt.NDArray[np.void], stream: int, partition: int, reached: bytes | None
) -> npt.NDArray[np.void]:
    """SOURCE_HORIZON [s] with what one source has reached; the same array where that is nothing new."""
    if reached is None:
        return horizons
    number, rows = LOG_KEY.unpack(reached)
    own = (horizons["stream"] == stream) & (horizons["partition"] == partition)
    if (own & (horizons["rows"] >= rows)).any():
        return horizons
    new = np.array([(stream, partition, number, rows)], SOURCE_HORIZON)
    return np.concatenate([horizons[~own], new])


def note_ages(
    transaction: Transaction, retention: Retention, sources: npt.NDArray[np.void], counters: Counters
) -> None:
    """Note at which record time the entries of a batch came, behind it."""
    if retention.age_max_ms is None:
        return
    behind = LOG_KEY.pack(counters.next_number, counters.journal_rows)
    for stream, partition in sources.tolist():
        times = unpack_times(transaction.get(Table.TIMES, SOURCE_KEY.pack(stream, partition)))
        if times.watermark_ms >= 0:
            transaction.put(Table.AGES, AGE_KEY.pack(stream, partition, times.watermark_ms), behind)


def clean(transaction: Transaction, tree: Tree, visibility: Visibility, counters: Counters, words: int) -> Counters:
    """Let some batches leave the log that hold nothing that has not expired; the counters behind it."""
    if not visibility.some_have_expired:
        return counters
    cleaned_to, expired = LOG_KEY_BEGIN, []
    batches = visibility.expired(log.walk(transaction, words, visibility.horizon.cleaned_to))
    for looked_at, (batch, has_expired) in enumerate(batches, 1):
        cleaned_to = batch.key
        if has_expired:
            expired.append(batch.key)
        if looked_at == LOOKED_AT_MAX or len(expired) == CLEANED_MAX:
            break
    else:
        cleaned_to = LOG_KEY_BEGIN
    for key in expired:
        batch = log.copied(transaction, key, words)
        filed = batch.entered()
        kinds, filings = batch.rows["kind"][filed], batch.rows["filing"][filed]
        left = ~visibility.are_retired(batch.numbers())
        leaving = Leaving(batch.numbers()[left], batch.fingerprints[left], kinds[left], filings[left])
        counters = retire(transaction, tree, visibility, leaving, Change.EXPIRED, counters)
        for number in pack_numbers(batch.numbers()[~left]):
            transaction.delete(Table.RETIRED, number)
        journal.drop(transaction, batch)
        transaction.delete(Table.LOG, key)
    if cleaned_to != visibility.horizon.cleaned_to:
        horizon = unpack_horizon(transaction.get(Table.META, HORIZON_KEY))
        transaction.put(Table.META, HORIZON_KEY, pack_horizon(horizon._replace(cleaned_to=cleaned_to)))
    return counters
