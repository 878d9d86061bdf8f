"""Check stories: every row is what the log says, and every duplicate's root has one."""

from collections.abc import Iterable

import numpy as np

from index.session import ReadSession
from index.storage import log
from index.storage.bases import are_own
from index.storage.layout import LOG_KEY, STORIES_KEY, Table, unpack_numbers
from index.stories import rows
from index.stories.fold import joins_of, recounted
from index.tools.finding import Finding

_AT_ONCE = 2**14
"""Stories counted again in one pass over the log from the first one on."""


def stories(session: ReadSession, batches: Iterable[log.Batch]) -> Finding:
    """Count all stories again, except those that may have lost documents to retention."""
    transaction, finding = session.transaction, Finding("stories")
    counted = transaction.get(Table.META, STORIES_KEY)
    if counted is None:
        return finding
    expired_below = session.visibility.expired_below
    numbers = unpack_numbers(transaction.keys(Table.STORIES))
    numbers = numbers[numbers >= np.uint64(expired_below)]
    finding.examined = len(numbers)
    for begin in range(0, len(numbers), _AT_ONCE):
        stored = rows.read(transaction, numbers[begin : begin + _AT_ONCE])
        stored = stored.take(stored.heads["documents"] > 0)
        again = recounted(session, stored) if len(stored.numbers) else stored
        differs = (again.heads != stored.heads) | (again.counts != stored.counts)
        if not differs.any() and (again.hosts != stored.hosts).any():
            differs[stored.places_of_hosts[again.hosts != stored.hosts]] = True
        finding.note(
            f"the story of document {number} is not what the log says" for number in stored.numbers[differs].tolist()
        )
    for batch in batches if counted == LOG_KEY.pack(*session.counters[:2]) else ():
        roots = np.unique(joins_of(session, batch)["root"])
        # A document of a base set has no story here.
        roots = roots[are_own(roots)]
        roots = roots[(roots >= np.uint64(expired_below)) & ~np.isin(roots, numbers)]
        roots = roots[session.visibility.visible(roots)]
        finding.note(f"the duplicates of document {number} are in no story" for number in roots.tolist())
    return finding
