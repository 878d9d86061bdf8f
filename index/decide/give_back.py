"""Giving back: a person reverses a drop, and the document counts as unique from then on.

The drop stays as decided. The document enters again with the verdict GIVEN_BACK, under its own source
(`entry.given_back_source`). A position enters there once, so nothing is given back twice. Later documents equal or
near to it are its duplicates.

Until the given-back document is forgotten or expires, a record with its id is a DUPLICATE only of its own earlier
versions, and otherwise UNIQUE, however near other documents are. The judge gives others the reason OTHER_ID. An earlier
version is an entry with the same id whose root has that id too. It is looked up as every entry is, so `index.recrawl`
knows the page's last version without a band in common. Guard and policies treat such a duplicate as any other.

The key `giving back` names a decided batch until its delivery is settled, and blocks other batches meanwhile.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide.batch import Batch
from index.decide.prepare import stored_form
from index.decide.restore import NO_ENDS, enter_again, numbers_at, positions_of
from index.entry import NO_DISTANCE, NO_NUMBER, Entries, Kind, Position, Source, Verdict, given_back_source
from index.errors import GivingBackError
from index.frames.hosts import with_frames
from index.matching.outcome import Outcome
from index.session import ReadSession, WriteSession
from index.storage import journal, log
from index.storage.layout import GIVING_BACK_KEY, LOG_KEY, Table
from index.storage.sources import streams_of
from index.stories.fold import recount


def give_back(session: WriteSession, entries: Entries, *, delivered: bool) -> npt.NDArray[np.bool_]:
    """Implementation of `Index.give_back`."""
    # The host's sample took the page in when the filter dropped it.
    entries = stored_form(entries, session.parameters)
    entries = with_frames(session, entries, np.arange(len(entries)), are_known=True)
    roots = numbers_at(session, positions_of(entries, np.arange(len(entries))))
    # The reason stays with the drop.
    sources, reasons = tuple(map(given_back_source, entries.sources)), np.zeros_like(entries.reasons)
    entries = replace(entries, sources=sources, reasons=reasons)
    batch, counters = Batch(session, entries), session.counters
    new = ~batch.journaled.known
    if not new.any():
        return new
    if not delivered:
        if undelivered(session):
            raise GivingBackError("Another batch is being given back, and its delivery is not settled.")
        session.transaction.put(Table.META, GIVING_BACK_KEY, LOG_KEY.pack(counters.next_number, counters.journal_rows))
    entering = new & (entries.kinds <= Kind.EXACT)
    verdicts, unnamed = np.full(len(new), Verdict.GIVEN_BACK, np.uint8), np.full(len(new), NO_NUMBER, np.uint64)
    distances = np.full(len(new), NO_DISTANCE, np.int16)
    outcome = Outcome(verdicts, distances, entering, counters.next_number, unnamed)
    enter_again(session, batch, entries, new, outcome, (), NO_ENDS, leaving=np.zeros_like(new))
    recount(session, roots[new])
    return new


def are_known(session: ReadSession, positions: Sequence[Position]) -> npt.NDArray[np.bool_]:
    """Implementation of `Index.are_given_back`."""
    given_back = [position._replace(source=given_back_source(position.source)) for position in positions]
    known = np.zeros(len(positions), np.bool_)
    for _, _, places in journal.at_positions(session.transaction, given_back, session.words):
        known[places] = True
    return known


def settle(session: WriteSession, positions: Collection[Position]) -> bool:
    """Implementation of `Index.settle`."""
    # Another command may have settled it and decided the next batch.
    theirs = set(undelivered(session)) != set(positions)
    return not theirs and session.transaction.delete(Table.META, GIVING_BACK_KEY)


def undelivered(session: ReadSession) -> list[Position]:
    """Positions in the unsettled batch; empty without one, or if all its entries have expired."""
    transaction, key = session.transaction, session.transaction.get(Table.META, GIVING_BACK_KEY)
    if key is None or transaction.get(Table.LOG, key) is None:
        return []
    batch = log.copied(transaction, key, session.words)
    sources = batch.sources[batch.rows["source"]]
    streams = streams_of(transaction, sources["stream"].tolist())
    columns = sources["stream"].tolist(), sources["partition"].tolist(), batch.rows["offset"].tolist()
    return [Position(Source(streams[stream], partition), at) for stream, partition, at in zip(*columns, strict=True)]
