"""The journal: which position got which verdict. It makes deciding idempotent.

The verdicts themselves stand in the log. The journal has, by source and first offset, the runs of offsets that stand in
one batch of the log. The runs of a source never overlap, so the run that may hold an offset is the one with the
greatest first offset that is not above it; where rows fall between the rows of a run, the run is cut around them.
A position that is not in a run is known to be new without a look at the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from index.entry import Verdict
from index.storage import log
from index.storage.layout import JOURNAL_KEY, SOURCE_KEY, JournalRun, Table, pack_journal_run, unpack_journal_run
from index.storage.log import Origin
from index.storage.store import Transaction

DECISION = np.dtype([("offset", "u8"), ("number", "u8"), ("distance", "i2"), ("verdict", "u1"), ("reason", "u1")])
"""A decision as the log has it: its `number` is the row's own where it is UNIQUE, its original's where a DUPLICATE."""

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class JournaledDecisions:
    """What the journal knows of some offsets of one source.

    rows     structured DECISION [n], row for row with the offsets asked for; not to be read where not known
    known    bool [n]
    origins  the original of every known row that is a DUPLICATE, by its row
    """

    rows: Rows
    known: npt.NDArray[np.bool_]
    origins: dict[int, Origin]


def find(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64], words: int
) -> JournaledDecisions:
    """Look up offsets uint64 [n], ascending, of one source. One step per run that may hold any of them."""
    rows = np.zeros(len(offsets), DECISION)
    known = np.zeros(len(offsets), np.bool_)
    origins: dict[int, Origin] = {}
    for begin, end, _, run in _runs(transaction, stream, partition, offsets):
        if run is None or int(offsets[begin]) > run.last:
            continue
        batch = log.read(transaction, run.batch, words)
        of_source = np.flatnonzero(batch.rows["source"] == run.source)
        held = batch.rows[of_source]
        places = np.searchsorted(held["offset"], offsets[begin:end])
        places[places == len(held)] = 0
        for name in DECISION.names or ():
            rows[name][begin:end] = held[name][places]
        known[begin:end] = held["offset"][places] == offsets[begin:end]
        duplicates = begin + np.flatnonzero(known[begin:end] & (rows["verdict"][begin:end] == Verdict.DUPLICATE))
        found = batch.origins(of_source[places[duplicates - begin]])
        origins.update(zip(duplicates.tolist(), found, strict=True))
    return JournaledDecisions(rows, known, origins)


def add(
    transaction: Transaction,
    stream: int,
    partition: int,
    offsets: npt.NDArray[np.uint64],
    batch: bytes,
    source: int,
    words: int,
) -> None:
    """Note that offsets uint64 [n], ascending, none of which the journal knows, stand in a batch of the log.

    batch, source  the batch's key, and the place of the source among its sources
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
                name, place = (batch, source) if is_new[start] else (run.batch, run.source)
                _put(transaction, stream, partition, both[start:stop], name, place)
        if inside < len(new):
            _put(transaction, stream, partition, new[inside:], batch, source)


def _runs(
    transaction: Transaction, stream: int, partition: int, offsets: npt.NDArray[np.uint64]
) -> Iterator[tuple[int, int, int, JournalRun | None]]:
    """Ascending offsets in parts [begin, end) that have the same run below them, with its first offset; or none."""
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
    """Delete the runs of a batch that leaves the log: its positions are not known any more."""
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
