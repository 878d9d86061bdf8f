"""The fold: log batches that are new to `stories` join their rows, in the transaction that decides them.

`stories` is a view on the log: a mark in `meta` says which batches it has. So a replay adds nothing, and batches that a
restoration, an import or another process wrote join with the next fold. A root alone has no row: a unique document costs nothing
here.

A root is due if its size class or its longest member changes, or if a member leaves. A forgotten root is due with 0
documents.
"""

import struct
from itertools import islice

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Source, Verdict, given_back_source
from index.session import ReadSession, WriteSession
from index.storage import journal, log
from index.storage.codec import unpack_lengths
from index.storage.layout import LOG_KEY, LOG_KEY_BEGIN, STORIES_KEY, Filing, Table, pack_numbers
from index.storage.sources import known_number, streams_of
from index.storage.store import Transaction
from index.stories import rows
from index.stories.rows import STORY_JOIN, StoryRows

FOLDED_MAX = 64
"""Most log batches that join in one transaction."""

DUE_MAX = 1_000
"""Most roots under one mark."""

MARK = struct.Struct(">Q")

_JOINING = np.isin(np.arange(256), (Verdict.DUPLICATE, Verdict.SUSPECT))

Numbers = npt.NDArray[np.uint64]


def fold(session: WriteSession) -> bool:
    """Let the next batches join; returns whether later ones are left. Does nothing for an index without stories."""
    transaction, counters = session.transaction, session.counters
    begin = transaction.get(Table.META, STORIES_KEY) or LOG_KEY_BEGIN
    reached = LOG_KEY.pack(counters.next_number, counters.journal_rows)
    if session.opened.named_hosts is None or begin == reached:
        return False
    batches = list(islice(log.walk(transaction, session.words, begin), FOLDED_MAX + 1))
    joins = np.concatenate([np.empty(0, STORY_JOIN), *(joins_of(session, batch) for batch in batches[:FOLDED_MAX])])
    left = len(batches) > FOLDED_MAX
    transaction.put(Table.META, STORIES_KEY, batches[-1].key if left else reached)
    if not len(joins):
        return left
    before = rows.read(transaction, np.unique(joins["root"]))
    new = before.numbers[before.heads["documents"] == 0]
    roots = _roots(session, new)
    if len(roots) < len(new):
        # A root that has left the log gets no row.
        gone = new[~np.isin(new, roots["root"])]
        before, joins = before.take(~np.isin(before.numbers, gone)), joins[~np.isin(joins["root"], gone)]
    after = rows.added(before, np.concatenate([roots, joins])) if len(joins) else before
    rows.write(transaction, after)
    changed = (after.sizes != before.sizes) | (after.heads["longest"] != before.heads["longest"])
    _mark_due(session, after.numbers[changed])
    return left


def recount(session: WriteSession, numbers: Numbers) -> None:
    """Count stories again, uint64 [n] roots, that a member has left."""
    before = _stored(session, np.unique(numbers))
    if len(before.numbers):
        rows.write(session.transaction, recounted(session, before))
        _mark_due(session, before.numbers)


def recounted(session: ReadSession, before: StoryRows) -> StoryRows:
    """At least one story as the log has it, up to its row's last batch."""
    joins = [_roots(session, before.numbers)]
    for batch in log.since(session.transaction, int(before.numbers[0]), session.words):
        if log.rows_before(batch.key) >= before.heads["rows_end"].max():
            break
        joins.append(joins_of(session, batch, before.numbers))
    nothing = np.zeros(len(before.numbers), before.heads.dtype)
    nothing["first_ms"] = rows.UNKNOWN_MS
    empty = StoryRows(before.numbers, nothing, np.zeros(len(nothing), np.int64), before.hosts[:0])
    return rows.added(empty, np.concatenate(joins))


def forget(session: WriteSession, numbers: Numbers) -> None:
    """Remove forgotten documents, uint64 [n] ascending, from stories, and the stories whose roots they are."""
    if not session.transaction.count(Table.STORIES):
        return
    gone = _stored(session, numbers)
    # Without documents they are written out as removed; their rows stay until their roots leave the log.
    gone.heads["documents"] = 0
    rows.write(session.transaction, gone)
    _mark_due(session, gone.numbers)
    logged = log.documents(session.transaction, numbers, session.words)
    recount(session, logged.rows["number"][logged.there & _JOINING[logged.rows["verdict"]]].astype(np.uint64))


def drop(session: WriteSession, numbers: Numbers) -> None:
    """Remove stories whose roots leave the log, uint64 [n] consecutive; nothing is written out."""
    if len(numbers) and session.transaction.count(Table.STORIES):
        for key in session.transaction.keys(Table.STORIES, *pack_numbers(numbers[[0, -1]])):
            session.transaction.delete(Table.STORIES, key)


def clear(transaction: Transaction, mark: int) -> None:
    """Clear due roots up to a mark."""
    for key in transaction.keys(Table.DUE, last=MARK.pack(mark)):
        transaction.delete(Table.DUE, key)


def _stored(session: ReadSession, numbers: Numbers) -> StoryRows:
    stored = rows.read(session.transaction, numbers)
    return stored.take(stored.heads["documents"] > 0)


def _mark_due(session: WriteSession, numbers: Numbers) -> None:
    # Marks ascend, also without new rows: what is on its way out clears no later mark.
    last = session.transaction.floor(Table.DUE, MARK.pack(2**64 - 1))
    mark = max(session.counters.journal_rows, 0 if last is None else MARK.unpack(last[0])[0] + 1)
    for at, begin in enumerate(range(0, len(numbers), DUE_MAX)):
        session.transaction.put(Table.DUE, MARK.pack(mark + at), numbers[begin : begin + DUE_MAX].tobytes())


def _roots(session: ReadSession, numbers: Numbers) -> npt.NDArray[np.void]:
    """STORY_JOIN for each root, uint64 [n], that the log has."""
    logged = log.documents(session.transaction, numbers, session.words)
    there = logged.there
    return _join(numbers[there], logged.rows[there], logged.sources[there], 0)


def joins_of(session: ReadSession, batch: log.Batch, wanted: Numbers | None = None) -> npt.NDArray[np.void]:
    """STORY_JOIN [m] for a batch's duplicates, without those that were forgotten or given back since.

    wanted  only duplicates with these roots, uint64 [n]; None: all
    """
    rows = batch.rows
    chosen = np.flatnonzero(_JOINING[rows["verdict"]] & (rows["number"] != NO_NUMBER))
    if wanted is not None:
        chosen = chosen[np.isin(rows["number"][chosen], wanted)]
    if len(chosen):
        chosen = chosen[~(_are_forgotten(session, batch, chosen) | _are_given_back(session, batch, chosen))]
    taken, rows_end = rows[chosen], log.rows_before(batch.key) + len(rows)
    return _join(taken["number"], taken, batch.sources[taken["source"]], rows_end)


def _join(
    roots: Numbers, rows: npt.NDArray[np.void], sources: npt.NDArray[np.void], rows_end: int
) -> npt.NDArray[np.void]:
    joins = np.empty(len(rows), STORY_JOIN)
    joins["root"], joins["host"], joins["rows_end"] = roots, rows["host"], rows_end
    member = joins["member"]
    member["length"], member["time_ms"] = unpack_lengths(rows["length"]), rows["time_ms"]
    member["stream"], member["partition"], member["offset"] = sources["stream"], sources["partition"], rows["offset"]
    return joins


def _are_forgotten(session: ReadSession, batch: log.Batch, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    forgotten: npt.NDArray[np.bool_] = batch.rows["filing"][chosen] != Filing.NOTHING
    numbers = batch.numbers()[np.searchsorted(batch.entered(), chosen[forgotten])]
    gone = session.visibility.are_retired(numbers)
    # Expiry alone removes no member.
    gone[gone] = session.visibility.are_unexpired(numbers[gone])
    forgotten[forgotten] = gone
    return forgotten


def _are_given_back(session: ReadSession, batch: log.Batch, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    given_back, transaction = np.zeros(len(chosen), np.bool_), session.transaction
    streams = streams_of(transaction, batch.sources["stream"].tolist())
    for source, (number, partition) in enumerate(batch.sources.tolist()):
        stream = known_number(transaction, given_back_source(Source(streams[number], partition)).stream)
        if stream is not None:
            source_rows = np.flatnonzero(batch.rows["source"][chosen] == source)
            offsets = batch.rows["offset"][chosen[source_rows]]
            for _, _, places in journal.holding(transaction, stream, partition, offsets, session.words):
                given_back[source_rows[places]] = True
    return given_back
