"""Everything an index knows as a sequence of records; `taking` makes an index of such a sequence.

Records come in the order of the log, which is that of deciding. So the first part of a sequence is an older index: a
taking-over that is broken off leaves nothing that does not fit together. What has left the log is in no record: numbers
need not begin at 0, and may have gaps.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import contents, log
from index.documents import Document, of_batch
from index.entry import NO_DISTANCE, NO_NUMBER, Position, Source, Verdict
from index.living import Living
from index.parameters import Parameters
from index.store import Transaction

_NOTHING_LATER = 2**64 - 1


class Original(NamedTuple):
    """The original that a duplicate names, as it was when that was decided."""

    id: str
    position: Position


class Record(NamedTuple):
    """What is known of one position.

    original   number of the original, a unique document's own; None where the verdict has none, where its document is not
               in the sequence any more, and where a duplicate is its own original for that reason
    origin     for duplicates what their original was
    distance   None where there is none
    document   what entered; None for a position that entered nothing
    forgotten  the document is no longer searched: it was forgotten, or has expired
    settled    every position of the source below this one came before it
    """

    source: Source
    offset: int
    verdict: Verdict
    reason: int
    distance: int | None
    original: int | None
    origin: Original | None
    document: Document | None
    forgotten: bool
    settled: bool


class _Held:
    """Which document numbers stand in the batches seen so far."""

    def __init__(self) -> None:
        self._firsts, self._ends = array("Q"), array("Q")

    def add(self, found: log.Batch) -> None:
        self._firsts.append(found.first_number)
        self._ends.append(found.end_number)

    def has(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        firsts, ends = np.frombuffer(self._firsts, np.uint64), np.frombuffer(self._ends, np.uint64)
        # Of batches with one first number only the last can hold documents.
        places = np.searchsorted(firsts, numbers, side="right") - 1
        has: npt.NDArray[np.bool_] = (places >= 0) & (numbers < ends[places])
        return has


class _Later:
    """The least offset of a source in all batches behind the one that is looked at."""

    def __init__(self, transaction: Transaction, words: int) -> None:
        least: dict[tuple[int, int], array[int]] = {}
        for found in log.walk(transaction, words):
            of_batch = np.full(len(found.sources), _NOTHING_LATER, np.uint64)
            np.minimum.at(of_batch, found.rows["source"], found.rows["offset"])
            for source, offset in zip(found.sources.tolist(), of_batch.tolist(), strict=True):
                least.setdefault(source, array("Q", ())).append(offset)
        self._least = {
            source: np.minimum.accumulate(np.frombuffer(offsets, np.uint64)[::-1]) for source, offsets in least.items()
        }
        """By source, the last batch first."""
        self._left = {source: len(offsets) for source, offsets in self._least.items()}

    def behind(self, found: log.Batch) -> list[int]:
        """For every source of the next batch the least offset in all batches behind it."""
        offsets = []
        for source in found.sources.tolist():
            self._left[source] -= 1
            left = self._left[source]
            offsets.append(int(self._least[source][left - 1]) if left else _NOTHING_LATER)
        return offsets


def count(transaction: Transaction, words: int) -> int:
    """How many `records` there are."""
    return sum(len(found.rows) for found in log.walk(transaction, words))


def records(transaction: Transaction, parameters: Parameters) -> Iterator[Record]:
    """Everything the index knows of any position that did not leave the log."""
    words = parameters.words
    streams = {number: stream for number, (stream, _) in contents.numbered_streams(transaction).items()}
    living, held, later = Living(transaction, words), _Held(), _Later(transaction, words)
    for found in log.walk(transaction, words):
        held.add(found)
        retired = ~living.are(transaction, found.numbers())
        entered = dict(
            zip(found.entered().tolist(), of_batch(transaction, found, np.arange(len(retired))), strict=True)
        )
        gone = dict(zip(entered, retired.tolist(), strict=True))
        duplicates = np.flatnonzero(found.rows["verdict"] == Verdict.DUPLICATE)
        origins = dict(zip(duplicates.tolist(), found.origins(duplicates), strict=True))
        own = np.full(len(found.rows), NO_NUMBER, np.uint64)
        own[found.entered()] = found.numbers()
        named = found.rows["number"]
        in_sequence = held.has(named) & ((own != named) | (found.rows["verdict"] == Verdict.UNIQUE))
        order = _order(found)
        settled = _settled(found, order, later.behind(found))
        places = [Source(streams[stream], partition) for stream, partition in found.sources.tolist()]
        in_sequence_list, columns = in_sequence.tolist(), found.rows.tolist()
        for row, is_settled in zip(order.tolist(), settled.tolist(), strict=True):
            offset, number, _, source, _, distance, verdict, reason, _, _ = columns[row]
            document, origin = entered.get(row), origins.get(row)
            original = number if in_sequence_list[row] else None
            if document is not None and original is None:
                document = document._replace(root=document.number)
            yield Record(
                places[source],
                offset,
                Verdict(verdict),
                reason,
                None if distance == NO_DISTANCE else distance,
                original,
                None if origin is None else _original(origin, streams),
                document,
                gone.get(row, False),
                is_settled,
            )


def _original(origin: log.Origin, streams: Mapping[int, str]) -> Original:
    return Original(origin.id, Position(Source(streams[origin.stream], origin.partition), origin.offset))


def _order(found: log.Batch) -> npt.NDArray[np.int64]:
    """The rows of a batch, those at the end that name a later one of it as their original: a restoration has such."""
    rows = np.arange(len(found.rows))
    named = found.rows["number"]
    here = np.flatnonzero((named >= np.uint64(found.first_number)) & (named < np.uint64(found.end_number)))
    names_later = np.zeros(len(rows), np.bool_)
    of_named = (named[here] - np.uint64(found.first_number)).astype(np.int64)
    names_later[here] = found.entered()[of_named] > here
    return np.argsort(names_later, kind="stable")


def _settled(found: log.Batch, order: npt.NDArray[np.int64], behind: Sequence[int]) -> npt.NDArray[np.bool_]:
    """For the rows in this order whether no lower offset of their source comes later: bool [n]."""
    offsets, of_sources = found.rows["offset"][order], found.rows["source"][order]
    settled = np.zeros(len(order), np.bool_)
    for source, later in enumerate(behind):
        places = np.flatnonzero(of_sources == source)
        following = np.append(offsets[places], np.uint64(later))
        settled[places] = offsets[places] < np.minimum.accumulate(following[::-1])[::-1][1:]
    return settled


def portions(found: Iterator[Record], rows_max: int) -> Iterator[list[Record]]:
    """Cut into lists of at most `rows_max` records, in each of which the offsets of a source increase."""
    portion: list[Record] = []
    last: dict[Source, int] = {}
    for record in found:
        if len(portion) == rows_max or record.offset <= last.get(record.source, -1):
            yield portion
            portion, last = [], {}
        portion.append(record)
        last[record.source] = record.offset
    if portion:
        yield portion
