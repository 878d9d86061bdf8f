"""The journal: verdicts by position. It makes deciding idempotent.

The log holds the verdicts. The journal holds runs: by source and first offset, the offsets in one log batch. A source's
runs never overlap: only the run with the greatest first offset not above an offset can hold it. New rows between a
run's rows split it. A position outside every run is new, without a read of the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.entry import Position, Source, naming_originals
from index.storage import log
from index.storage.layout import JOURNAL_KEY, SOURCE_KEY, JournalRun, Table, pack_journal_run, unpack_journal_run
from index.storage.log import Origin
from index.storage.sources import known_number
from index.storage.store import Transaction

_LOG_COLUMNS = [("offset", "u8"), ("number", "u8"), ("distance", "i2"), ("verdict", "u1"), ("reason", "u1")]

DECISION = np.dtype([*_LOG_COLUMNS, ("ratio", "u2")])
"""A stored decision; `number` is a UNIQUE row's own, or a DUPLICATE row's original."""

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class JournaledDecisions:
    """Stored decisions on n positions, row for row.

    rows     structured DECISION [n], undefined if not known
    known    bool [n], whether the position was decided
    origins  the original of every known DUPLICATE, by row

    >>> stored = JournaledDecisions(np.zeros(2, DECISION), np.array([True, False]), {0: Origin("a", 1, 0, 17)})
    >>> [stored.origins.get(row) for row in np.flatnonzero(stored.known).tolist()]
    [Origin(id='a', stream=1, partition=0, offset=17)]
    """

    rows: Rows
    known: npt.NDArray[np.bool_]
    origins: dict[int, Origin]


def find(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64], words: int
) -> JournaledDecisions:
    """Look up a source's offsets uint64 [n], ascending; one step for each run that may hold some."""
    rows = np.zeros(len(offsets), DECISION)
    known = np.zeros(len(offsets), np.bool_)
    origins: dict[int, Origin] = {}
    for batch, batch_rows, places in holding(transaction, stream, partition, offsets, words):
        for name, _ in _LOG_COLUMNS:
            rows[name][places] = batch.rows[name][batch_rows]
        known[places] = True
        naming = naming_originals(rows["verdict"][places])
        rows["ratio"][places[naming]] = batch.ratios(batch_rows[naming])
        origins.update(zip(places[naming].tolist(), batch.origins(batch_rows[naming]), strict=True))
    return JournaledDecisions(rows, known, origins)


def holding(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64], words: int
) -> Iterator[tuple[log.Batch, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Log batches that hold some of a source's offsets, uint64 [n], ascending.

    Yields a batch, its rows int64 [m], and their offsets' places int64 [m] in `offsets`.
    """
    for begin, end, _, run in _runs(transaction, stream, partition, offsets):
        if run is None or int(offsets[begin]) > run.last:
            continue
        batch = log.read(transaction, run.batch, words)
        source_rows = np.flatnonzero(batch.rows["source"] == run.source)
        held = batch.rows["offset"][source_rows]
        rows = np.searchsorted(held, offsets[begin:end])
        rows[rows == len(held)] = 0
        held_here = np.flatnonzero(held[rows] == offsets[begin:end])
        yield batch, source_rows[rows[held_here]], begin + held_here


def at_positions(
    transaction: Transaction, positions: Sequence[Position | None], words: int
) -> Iterator[tuple[log.Batch, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Log batches that hold some positions, as `holding`; positions may repeat, and None is held by no batch."""
    by_source: dict[Source, list[tuple[int, int]]] = {}
    for place, position in enumerate(positions):
        if position is not None:
            by_source.setdefault(position.source, []).append((position.offset, place))
    for source, asked in by_source.items():
        stream = known_number(transaction, source.stream)
        if stream is not None:
            offsets, places = (np.array(column) for column in zip(*sorted(asked), strict=True))
            held_by = holding(transaction, stream, source.partition, offsets.astype(np.uint64), words)
            yield from ((batch, rows, places[held]) for batch, rows, held in held_by)


def add(
    transaction: Transaction,
    stream: int,
    partition: int,
    offsets: npt.NDArray[np.uint64],
    batch: bytes,
    source: int,
    words: int,
) -> None:
    """Record that a log batch holds a source's offsets uint64 [n], ascending and all new.

    batch   the batch's key
    source  its place among the batch's sources
    """
    for begin, end, first, run in list(_runs(transaction, stream, partition, offsets)):
        new = offsets[begin:end]
        inside = 0 if run is None else int(np.searchsorted(new, np.uint64(run.last)))
        if run is not None and inside:
            rows = log.read(transaction, run.batch, words).rows
            held = rows["offset"][rows["source"] == run.source]
            held = held[(held >= first) & (held <= run.last)]
            both = np.concatenate([held, new[:inside]])
            order = np.argsort(both)
            both, is_new = both[order], order >= len(held)
            edges = [0, *(np.flatnonzero(np.diff(is_new)) + 1).tolist(), len(both)]
            for start, stop in pairwise(edges):
                batch_key, source_place = (batch, source) if is_new[start] else (run.batch, run.source)
                _put(transaction, stream, partition, both[start:stop], batch_key, source_place)
        if inside < len(new):
            _put(transaction, stream, partition, new[inside:], batch, source)


def _runs(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64]
) -> Iterator[tuple[int, int, int, JournalRun | None]]:
    """Slices of ascending offsets with the same run below: begin, end, the run's first offset, the run or None."""
    source = SOURCE_KEY.pack(stream, partition)
    begin = 0
    while begin < len(offsets):
        key = JOURNAL_KEY.pack(stream, partition, int(offsets[begin]))
        below = transaction.floor(Table.JOURNAL, key)
        above = transaction.key_above(Table.JOURNAL, key)
        end = len(offsets)
        if above is not None and above.startswith(source):
            end = int(np.searchsorted(offsets, np.uint64(JOURNAL_KEY.unpack(above)[2])))
        if below is not None and below[0].startswith(source):
            yield begin, end, JOURNAL_KEY.unpack(below[0])[2], unpack_journal_run(bytes(below[1]))
        else:
            yield begin, end, 0, None
        begin = end


def drop(transaction: Transaction, batch: log.Batch) -> None:
    """Delete the runs of a batch that leaves the log; its positions are then unknown."""
    for number, source in enumerate(batch.sources):
        offsets = batch.rows["offset"][batch.rows["source"] == number]
        if not len(offsets):
            continue
        stream, partition = int(source["stream"]), int(source["partition"])
        begin, last = (JOURNAL_KEY.pack(stream, partition, int(offset)) for offset in (offsets[0], offsets[-1]))
        keys = []
        for key, value in transaction.walk(Table.JOURNAL, begin):
            if key > last:
                break
            if unpack_journal_run(bytes(value)).batch == batch.key:
                keys.append(key)
        for key in keys:
            transaction.delete(Table.JOURNAL, key)


def _put(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64], batch: bytes, source: int
) -> None:
    key = JOURNAL_KEY.pack(stream, partition, int(offsets[0]))
    transaction.put(Table.JOURNAL, key, pack_journal_run(JournalRun(int(offsets[-1]), batch, source)))
