"""Stories for readers: ids and positions for numbers."""

from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.decide.find import decided_at
from index.entry import Position, Source, Verdict
from index.session import ReadSession
from index.storage import documents, log
from index.storage.layout import Table, unpack_numbers
from index.storage.sources import begin_with, streams_of
from index.stories import rows
from index.stories.host_names import names_of

FIRST_HOSTS = 16
"""Hosts that a story names."""

LISTED_MAX = 2**16
"""Most stories that a list chooses from: those with the latest roots."""

IDS_AT_ONCE = 1_000
"""Roots whose ids a list by prefix reads at once: most lists end with the first ones, since large stories come first."""


class Named(NamedTuple):
    """A document by id and position; the id is None if its decision has left the index.

    >>> left = Named(None, Position(Source("topic", 3), 17))
    >>> left.id or f"offset {left.position.offset}"
    'offset 17'
    """

    id: str | None
    position: Position


class Story(NamedTuple):
    """A root and its duplicates.

    number             the root's number
    root               the kept document
    documents          records that are the root or were decided its duplicates
    host_count         their hosts, at most 10,000
    hosts              the first 16 by record time, as far as the index knows their names
    first_ms, last_ms  least and greatest record time; None if unknown
    longest, newest    its documents; either may be the root
    extends, updates   the document that the root is a longer version of, or whose text it replaced; None for other roots

    >>> root = Named("a", Position(Source("topic", 3), 17))
    >>> rest = {"longest": root, "newest": root, "extends": None, "updates": None}
    >>> story = Story(4, root, 9, 2, ("a.example", "b.example"), first_ms=1_000, last_ms=5_000, **rest)
    >>> f"{story.documents} documents from {story.host_count} hosts in {(story.last_ms - story.first_ms) // 1000} s"
    '9 documents from 2 hosts in 4 s'
    """

    number: int
    root: Named
    documents: int
    host_count: int
    hosts: tuple[str, ...]
    first_ms: int | None
    last_ms: int | None
    longest: Named
    newest: Named
    extends: Named | None
    updates: Named | None


def due(session: ReadSession, limit: int) -> tuple[list[Story], int]:
    """Implementation of `Index.due_stories`."""
    numbers, mark = np.empty(0, np.uint64), 0
    for key, value in session.transaction.walk(Table.DUE):
        numbers, mark = np.union1d(numbers, np.frombuffer(value, "<u8")), int.from_bytes(key, "big")
        if len(numbers) >= limit:
            break
    return stories_of(session, numbers), mark


def largest(session: ReadSession, limit: int, since_ms: int | None, host: int | None, prefix: str) -> list[Story]:
    """Implementation of `Index.stories`; host: a digest."""
    keys = session.transaction.last_keys(Table.STORIES, LISTED_MAX)
    stored = rows.read(session.transaction, unpack_numbers(keys))
    newest_ms, counts = stored.heads["newest"]["time_ms"], stored.heads["documents"]
    chosen = counts > 1
    if since_ms is not None:
        chosen &= newest_ms >= since_ms
    if host is not None:
        chosen[np.bincount(stored.places_of_hosts[stored.hosts["digest"] == host], minlength=len(chosen)) == 0] = False
    order = np.lexsort((newest_ms, counts))[::-1]
    numbers = stored.numbers[order[chosen[order]]]
    numbers = (_with_prefix(session, numbers, prefix, limit) if prefix else numbers)[:limit]
    stories = {story.number: story for story in stories_of(session, np.sort(numbers))}
    return [stories[number] for number in numbers.tolist()]


def _with_prefix(
    session: ReadSession, numbers: npt.NDArray[np.uint64], prefix: str, limit: int
) -> npt.NDArray[np.uint64]:
    """Roots, uint64 [n] distinct, with ids that begin so (`begin_with`), in their order: at least the first `limit`."""
    found = np.empty(0, np.uint64)
    for begin in range(0, len(numbers), IDS_AT_ONCE):
        portion = numbers[begin : begin + IDS_AT_ONCE]
        roots = log.documents(session.transaction, portion, session.words)
        places = roots.sources, roots.rows["offset"]
        found = np.append(found, portion[begin_with(session.transaction, prefix, roots.ids, *places)])
        if len(found) >= limit:
            break
    return found


def stories_of(session: ReadSession, numbers: npt.NDArray[np.uint64]) -> list[Story]:
    """Stories with a row and a root in the log, by root: uint64 [n] ascending and distinct."""
    stored = rows.read(session.transaction, numbers)
    roots = documents.read(session.transaction, numbers, session.words)
    stored = stored.take(np.isin(numbers, np.array(list(roots), np.uint64)) & (stored.heads["rows_end"] > 0))
    best = np.concatenate([stored.heads["longest"], stored.heads["newest"]]).tolist()
    streams = streams_of(session.transaction, {stream for _, _, stream, *_ in best})
    places = [Position(Source(streams[stream], partition), offset) for _, _, stream, partition, offset in best]
    asked = list(dict.fromkeys([*places, *(root.position for root in roots.values())]))
    decided = {at: each for at, each in zip(asked, decided_at(session, asked), strict=True) if each is not None}
    members = [Named(decided[at].id if at in decided else None, at) for at in places]
    stories, ends = [], np.cumsum(stored.counts).tolist()
    groups = [stored.hosts[end - count : end] for end, count in zip(ends, stored.counts.tolist(), strict=True)]
    firsts = [each["digest"][np.lexsort((each["digest"], each["first_ms"]))[:FIRST_HOSTS]].tolist() for each in groups]
    names = names_of(session.transaction, sorted({*chain(*firsts)}))
    for place, (number, head, first) in enumerate(zip(stored.numbers.tolist(), stored.heads, firsts, strict=True)):
        root, decision = roots[number], decided.get(roots[number].position)
        at = None if decision is None else decision.original_position
        links = {} if decision is None or at is None else {decision.verdict: Named(decision.original_id, at)}
        story = Story(
            number,
            Named(root.id, root.position),
            int(head["documents"]),
            int(stored.counts[place]),
            tuple(names[digest] for digest in first if digest in names),
            None if head["first_ms"] == rows.UNKNOWN_MS else int(head["first_ms"]),
            int(head["newest"]["time_ms"]) if head["newest"]["time_ms"] > 0 else None,
            members[place],
            members[place + len(ends)],
            links.get(Verdict.EXTENDS, links.get(Verdict.ADDS)),
            links.get(Verdict.UPDATE),
        )
        stories.append(story)
    return stories
