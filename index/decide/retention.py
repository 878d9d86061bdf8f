"""Retention: how long entries count, and how expired entries free their space.

By number: the newest `entries_max` entries count. By age: an entry counts until its source's record time has advanced by
more than `age_max_ms` since its decision. A source's time is its watermark, the median of its latest record times, which
never goes back: a few wrong times do not move it. Retention reads no clock. Given-back documents use their original
source's time.

Expired entries are retired at once. Every batch then removes some wholly expired batches from the log, with their
entries (by a tombstone, see `layout`) and their journaled positions.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from index.decide.batch import Batch
from index.decide.retire import Leaving, retire
from index.entry import given_back_source, is_given_back, plain_source
from index.session import WriteSession
from index.storage import journal, layout, log, sources
from index.storage.store import Transaction
from index.stories import fold as stories

LATEST_RECORDS = 63
"""Number of latest record times whose median is the watermark."""

LATEST_RECORDS_MIN = 15
"""Record times required for a watermark."""

CLEANED_MAX = 4
"""Most batches that leave the log for each that enters: more than one, so cleaning keeps up."""

EXAMINED_MAX = 16
"""Most batches examined for cleaning, which skips those of a source without progress in time."""

AGES_DROPPED_MAX = 64


def watermark_ms(times: layout.Times, new_ms: npt.NDArray[np.int64]) -> layout.Times:
    """A source's times after more records, int64 [n] ms as they arrived; ignores times that are not positive."""
    latest = np.concatenate([times.latest_ms, new_ms[new_ms > 0]])[-LATEST_RECORDS:]
    if len(latest) < LATEST_RECORDS_MIN:
        return layout.Times(times.watermark_ms, latest)
    # Times [5, 9, 7] have the median 7: one wrong time moves it by one place at most.
    return layout.Times(max(times.watermark_ms, int(np.sort(latest)[len(latest) // 2])), latest)


def move_horizons(session: WriteSession, batch: Batch, new: npt.NDArray[np.bool_]) -> None:
    """Advance record times and horizons by a batch's new rows, bool [n]."""
    retention, transaction, entries = session.opened.retention, session.transaction, batch.entries
    horizon = layout.unpack_horizon(transaction.get(layout.Table.META, layout.HORIZON_KEY))
    number, source_horizons = horizon.number, horizon.sources
    if retention.entries_max is not None:
        # Next number 1,000 and entries_max 100: entries below 900 have expired.
        number = max(number, session.counters.next_number - retention.entries_max)
    if retention.age_max_ms is not None:
        for number_of_source, source in enumerate(entries.sources):
            if is_given_back(source.stream):
                continue
            times_ms = entries.times_ms[new & (entries.source_numbers == number_of_source)]
            oldest_ms = _advance(transaction, batch.sources[number_of_source], times_ms) - retention.age_max_ms
            # Given-back documents expire by the time of their original source.
            for each in (source, given_back_source(source)):
                stream = sources.known_number(transaction, each.stream)
                if stream is not None:
                    reached = _reached(transaction, stream, each.partition, oldest_ms)
                    source_horizons = _with_source(source_horizons, stream, each.partition, reached)
    moved = layout.Horizon(number, horizon.cleaned_to, source_horizons)
    if number != horizon.number or source_horizons is not horizon.sources:
        transaction.put(layout.Table.META, layout.HORIZON_KEY, layout.pack_horizon(moved))
        session.horizon_moved()


def note_ages_and_clean(session: WriteSession, batch: Batch) -> None:
    """`note_ages`, then clean the log."""
    note_ages(session, batch)
    if session.visibility.some_have_expired:
        _clean(session)


def _advance(transaction: Transaction, source: np.void, times_ms: npt.NDArray[np.int64]) -> int:
    """Advance a source's time, LOG_SOURCE; returns its watermark."""
    key = layout.SOURCE_KEY.pack(int(source["stream"]), int(source["partition"]))
    times = watermark_ms(layout.unpack_times(transaction.get(layout.Table.TIMES, key)), times_ms)
    transaction.put(layout.Table.TIMES, key, layout.pack_times(times))
    return times.watermark_ms


def _reached(transaction: Transaction, stream: int, partition: int, oldest_ms: int) -> bytes | None:
    """Log key below which a source's batches have expired, if it counts from `oldest_ms` on; None without progress."""
    key = layout.SOURCE_KEY.pack(stream, partition)
    if oldest_ms <= 0:
        return None
    below = transaction.floor(layout.Table.AGES, layout.AGE_KEY.pack(stream, partition, oldest_ms - 1))
    if below is None or not below[0].startswith(key):
        return None
    reached = bytes(below[1])
    # Passed notes are spent; dropping a few at a time bounds a batch's work.
    passed = [
        each for each, _ in islice(transaction.walk(layout.Table.AGES, key), AGES_DROPPED_MAX) if each <= below[0]
    ]
    for each in passed:
        transaction.delete(layout.Table.AGES, each)
    return reached


def _with_source(
    horizons: npt.NDArray[np.void], stream: int, partition: int, reached: bytes | None
) -> npt.NDArray[np.void]:
    """Advance one source of the horizons, SOURCE_HORIZON [s], to `reached`."""
    if reached is None:
        return horizons
    number, rows = layout.LOG_KEY.unpack(reached)
    own = (horizons["stream"] == stream) & (horizons["partition"] == partition)
    # A longer retention asks for an earlier key: expired entries stay expired.
    if (own & (horizons["rows"] >= rows)).any():
        return horizons
    return np.concatenate([horizons[~own], np.array([(stream, partition, number, rows)], layout.SOURCE_HORIZON)])


def note_ages(session: WriteSession, batch: Batch) -> None:
    """Note the record times of a batch's entries. Call after deciding."""
    if session.opened.retention.age_max_ms is None:
        return
    transaction, counters = session.transaction, session.counters
    behind = layout.LOG_KEY.pack(counters.next_number, counters.journal_rows)
    for source in {plain_source(each) for each in batch.entries.sources}:
        numbers = [sources.known_number(transaction, each.stream) for each in (source, given_back_source(source))]
        if numbers[0] is None:
            continue
        times = layout.unpack_times(
            transaction.get(layout.Table.TIMES, layout.SOURCE_KEY.pack(numbers[0], source.partition))
        )
        if times.watermark_ms >= 0:
            # At 12:00 the log ends at key 900: once 12:00 expires, so do the entries below 900.
            for stream in (number for number in numbers if number is not None):
                transaction.put(
                    layout.Table.AGES, layout.AGE_KEY.pack(stream, source.partition, times.watermark_ms), behind
                )


def _clean(session: WriteSession) -> None:
    transaction, visibility, words = session.transaction, session.visibility, session.words
    cleaned_to, expired = layout.LOG_KEY_BEGIN, []
    batches = visibility.expired(log.walk(transaction, words, visibility.horizon.cleaned_to))
    for examined, (batch, has_expired) in enumerate(batches, 1):
        cleaned_to = batch.key
        if has_expired:
            expired.append(batch.key)
        if examined == EXAMINED_MAX or len(expired) == CLEANED_MAX:
            break
    else:
        # The walk reached the end: the next one starts at the beginning.
        cleaned_to = layout.LOG_KEY_BEGIN
    if expired:
        _drop(session, [log.copied(transaction, key, words) for key in expired])
    if cleaned_to != visibility.horizon.cleaned_to:
        horizon = visibility.horizon._replace(cleaned_to=cleaned_to)
        transaction.put(layout.Table.META, layout.HORIZON_KEY, layout.pack_horizon(horizon))


def _drop(session: WriteSession, batches: Sequence[log.Batch]) -> None:
    """Remove batches from the log, their entries from the tables, their positions from the journal."""
    transaction, parts = session.transaction, []
    for batch in batches:
        rows, retired = batch.rows[batch.entered()], session.visibility.are_retired(batch.numbers())
        # Retired entries have left the tables; only their marks remain.
        left = ~retired
        columns = batch.numbers()[left], batch.fingerprints[left], rows["kind"][left], rows["filing"][left]
        parts.append(columns)
        for number in layout.pack_numbers(batch.numbers()[retired]):
            transaction.delete(layout.Table.RETIRED, number)
        journal.drop(transaction, batch)
        stories.drop(session, batch.numbers())
        transaction.delete(layout.Table.LOG, batch.key)
    retire(session, Leaving(*map(np.concatenate, zip(*parts, strict=True))), layout.Change.EXPIRED)
