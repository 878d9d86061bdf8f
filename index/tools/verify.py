"""Verification: whether everything in the tables fits together. It only reads, and does not trust what it reads.

counters  what is counted is what the tables hold
log       batches whole, without gaps but where some have expired, their rows in the journal; every original exists, is its
          own original and is not later, or has left the log, or is a duplicate whose own original is retired
blocks    every entry stands once in each table where the log, the merge state and the tombstones say that it does, and
          nothing else does: in the segments, in `exact`, in `repeats`; segments are in order
journal   the runs of a source do not overlap, and name rows that exist
applied   every source's applied offset lies behind its journal

Entries are not looked up one by one. Of every part of every table (see `filed`) the hashes of what ought to stand there
are added up while the log is read, those of what does stand there are taken off while the tables are read, each from one
end to the other: a part that is not as it ought to be shows as a sum that is not 0, but for one in 2^64. Only the parts
that do are then looked at entry by entry. So the time goes with the size of the index, and the memory is a byte or two
a document and 8 bytes a part.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from index.decide.forget import ignored
from index.entry import NO_NUMBER
from index.storage import scan
from index.storage.counters import counters_of
from index.storage.layout import Counters, Table
from index.storage.log import Batch
from index.storage.parameters import Parameters
from index.storage.store import Transaction
from index.tools import verify_log
from index.tools.finding import Finding
from index.tools.verify_log import Batches, LogCheck
from index.tools.verify_tables import PARTS, Documents, Filed, Lot, Note, standing_aside, standing_in_segments

PARTS_MAX = 64
"""Parts of tables that are looked at entry by entry."""

ENTRIES_MAX = 2**22
"""Entries that are held for it."""


def verify(
    transaction: Transaction, parameters: Parameters, progress: Callable[[int], None] = ignored
) -> list[Finding]:
    """Hold the tables against each other, one Finding a check.

    `progress` is told how much is done: every document counts once in the log, and once in the segments, where most stand.
    """
    words, of_log, blocks = parameters.words, Finding("log"), Finding("blocks")
    batches = Batches(transaction, words, of_log)
    documents = Documents(batches)
    check = LogCheck(transaction, parameters, documents, of_log)
    filed = Filed(transaction, parameters, documents, blocks.note)
    tally = _Tally(filed.shape.tables + 2)
    for lot in standing_aside(transaction, Table.REPEATS, filed.repeats, words, blocks.note):
        filed.note_repeats(lot)
        tally.take_off(lot)
        blocks.examined += len(lot.parts)
    for lot in filed.lots(_told(check.checked(batches), progress)):
        tally.add(lot)
    blocks.note(f"document {number} was filed aside and is nowhere" for number in filed.nowhere)
    for lot in _standing(transaction, filed, words, blocks.note):
        tally.take_off(lot)
        blocks.examined += len(lot.parts)
        progress(documents.count + blocks.examined // filed.shape.tables)
    _explain(transaction, filed, batches, tally.differing(), blocks)
    counters = counters_of(transaction)
    check.ended(counters.next_number, counters.journal_rows)
    return [
        _counters(transaction, filed, counters, check.near_entries),
        of_log,
        blocks,
        verify_log.journal(transaction, words, batches),
        _applied(transaction),
    ]


def _told(batches: Iterable[Batch], progress: Callable[[int], None]) -> Iterator[Batch]:
    looked_at = 0
    for batch in batches:
        yield batch
        looked_at += len(batch.fingerprints)
        progress(looked_at)


def _counters(transaction: Transaction, filed: Filed, counters: Counters, near_entries: int) -> Finding:
    tombstones, merge = filed.tombstones, filed.merge
    held = {
        "NEAR entries": (counters.near_entries, near_entries),
        "streams by name": (transaction.count(Table.STREAM_NUMBERS), transaction.count(Table.STREAMS)),
        "tombstones since the run was frozen": (
            counters.next_tombstone - merge.frozen_tombstones,
            sum(number >= merge.frozen_tombstones for number in tombstones),
        ),
        "tombstones": (len(tombstones), counters.next_tombstone - tombstones[0] if tombstones else 0),
    }
    finding = Finding("counters", len(held) + 1)
    finding.note(f"{name}: counted {told}, there are {is_}" for name, (told, is_) in held.items() if told != is_)
    in_order = merge.merged_to <= merge.frozen_to <= counters.next_number
    stays = merge.frozen_tombstones <= (
        tombstones[0] if tombstones and not merge.is_moving else counters.next_tombstone
    )
    if not (in_order and stays and (merge.is_moving or merge.merged_to == merge.frozen_to)):
        finding.note([f"the merge state {merge[:3]} does not fit {counters.next_number}, {counters.next_tombstone}"])
    return finding


class _Tally:
    """By table and part the sum of the hashes of what was added, without those of what was taken off."""

    def __init__(self, tables: int) -> None:
        self._sums = np.zeros((tables, PARTS), np.uint64)

    def add(self, lot: Lot) -> None:
        np.add.at(self._sums[lot.table], lot.parts, lot.hashes())

    def take_off(self, lot: Lot) -> None:
        np.subtract.at(self._sums[lot.table], lot.parts, lot.hashes())

    def differing(self) -> npt.NDArray[np.int64]:
        """Tables and parts, int64 [n, 2], whose sums are not 0."""
        return np.argwhere(self._sums)


def _standing(transaction: Transaction, filed: Filed, words: int, note: Note) -> Iterator[Lot]:
    """What stands in `exact` and in the segments, without what may stand there or not."""
    yield from standing_aside(transaction, Table.EXACT, filed.exact, words, note)
    uncertain = filed.uncertain()
    for lot in standing_in_segments(transaction, filed.shape, note):
        yield lot.take(~np.isin(lot.hashes(), uncertain[lot.table])) if lot.table in uncertain else lot


def _ignored(_: Iterable[str]) -> None:
    """Nobody is told again."""


def _explain(
    transaction: Transaction, filed: Filed, batches: Batches, differing: npt.NDArray[np.int64], finding: Finding
) -> None:
    """Find out which entries are missing, and which stand where none ought to, in parts int64 [n, 2] of the tables."""
    if not len(differing):
        return
    chosen = np.zeros((filed.shape.tables + 2, PARTS), np.bool_)
    chosen[tuple(differing[:PARTS_MAX].T)] = True
    ought = _gathered(filed.lots(batches), chosen)
    stand = _gathered(_all_standing(transaction, filed, filed.shape.words), chosen)
    before = finding.wrong
    for table in range(filed.shape.tables + 2):
        finding.note(_differences(filed, ought.get(table, []), stand.get(table, []), table))
    if len(differing) > PARTS_MAX or finding.wrong == before:
        finding.note([f"{len(differing)} parts of tables are not what they ought to be"])


def _all_standing(transaction: Transaction, filed: Filed, words: int) -> Iterator[Lot]:
    yield from standing_aside(transaction, Table.REPEATS, filed.repeats, words, _ignored)
    yield from _standing(transaction, filed, words, _ignored)


def _gathered(lots: Iterable[Lot], chosen: npt.NDArray[np.bool_]) -> dict[int, list[Lot]]:
    """Of the lots only what is in the chosen parts, by table."""
    found: dict[int, list[Lot]] = {}
    count = 0
    for lot in lots:
        inside = chosen[lot.table, lot.parts]
        if inside.any() and count < ENTRIES_MAX:
            found.setdefault(lot.table, []).append(lot.take(inside))
            count += int(np.count_nonzero(inside))
    return found


def _differences(filed: Filed, ought: list[Lot], stand: list[Lot], table: int) -> Iterator[str]:
    wanted, numbers, _ = _columns(ought)
    there, told, parts = _columns(stand)
    for place in np.flatnonzero(~np.isin(wanted, there)).tolist():
        if table == filed.exact:
            yield f"document {numbers[place]} is not among the exact ones"
        elif table == filed.repeats:
            yield f"document {numbers[place]} is not among the repeated ones"
        else:
            yield f"document {numbers[place]} is not found through its {_named(filed, table)}"
    firsts = np.zeros(len(there), np.bool_)
    firsts[np.unique(there, return_index=True)[1]] = True
    for place in np.flatnonzero(~np.isin(there, wanted) | ~firsts).tolist():
        document = f"document {told[place]}" if told[place] != NO_NUMBER else "an entry"
        if table >= filed.exact:
            kind = "exact" if table == filed.exact else "repeated"
            yield f"{document} stands among the {kind} ones wrongly"
        else:
            yield f"the segments of {_named(filed, table)} hold {document} under {parts[place]:#06x}, which does not belong"


def _columns(
    lots: list[Lot],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hashes, numbers and parts of the entries of some lots."""
    hashes = [np.empty(0, np.uint64), *(lot.hashes() for lot in lots)]
    numbers = [np.empty(0, np.uint64), *(lot.numbers for lot in lots)]
    parts = [np.empty(0, np.int64), *(lot.parts for lot in lots)]
    return np.concatenate(hashes), np.concatenate(numbers), np.concatenate(parts)


def _named(filed: Filed, table: int) -> str:
    return f"{'block' if filed.shape.banding is None else 'band'} {table}"


def _applied(transaction: Transaction) -> Finding:
    """A restoration that is under way, or was broken off, leaves rows behind the applied offset too."""
    streams = scan.numbered_streams(transaction)
    applied = scan.applied_offsets(transaction)
    finding = Finding("applied")
    for stream, partition in scan.journaled_sources(transaction):
        finding.examined += 1
        identity, name = streams.get(stream, (f"number {stream}", ""))
        end = applied.get((stream, partition), 0)
        beyond = scan.last_offset(transaction, stream, partition)
        if beyond >= end:
            finding.note(
                [
                    f"{name or identity}/{partition} is applied up to {end}, but journaled up to {beyond + 1}: "
                    "damage, or a restoration not yet finished, which the service goes on with when it starts"
                ]
            )
    return finding
