"""Templates that an index knows: whose they are, what they kept, and what was lost before they were known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.entry import NO_NUMBER, Position, Source, Verdict
from index.families.table import heads_of, read_families
from index.index import Index, internals_of
from index.session import ReadSession
from index.storage import documents, log, scan
from index.storage.layout import Family, Filing, Table, unpack_family, unpack_numbers
from index.storage.store import Transaction

KEPT_EXAMPLES_MAX = 5
"""Kept pages that are told of a template."""


class Page(NamedTuple):
    """A document by its id and its place in the input."""

    id: str
    position: Position


@dataclass(frozen=True, slots=True)
class Template:
    """A known template, and the pages of its family.

    number         document number of the family's head, its first page
    head           the head; None where it has left the log
    documents      documents of the family: the head, those that were dropped before the template was known, and all that
                   entered besides: pages kept, relatives, and copies of both that are members
    kept           pages that were unique by the template alone
    own_share      share of their bins that these had of their own, in the mean, 0 to 1; None where there are none
    dropped        pages that were dropped before the template was known: all of them
    dropped_pages  these, in the order of deciding, as far as the log still holds them. Where a page came again unchanged
                   meanwhile, the list may name it in the place of another one.
    kept_pages     the first KEPT_EXAMPLES_MAX kept ones
    """

    number: int
    head: Page | None
    documents: int
    kept: int
    own_share: float | None
    dropped: int
    dropped_pages: list[Page] = field(default_factory=list)
    kept_pages: list[Page] = field(default_factory=list)


def templates_of(index: Index, limit: int, progress: Callable[[int], None] = lambda _: None) -> list[Template]:
    """Known templates, the largest families first, at most `limit`; reads the log from their heads on.

    `progress` is called with the rows of the log read so far. Memory grows with `limit` alone. Raises IndexDamaged.
    """
    return internals_of(index).read(lambda session: _templates(session, limit, progress))


def found_by_own_text(index: Index) -> npt.NDArray[np.uint64]:
    """Numbers of the pages that are found by what they have beside a template alone, uint64 [n], ascending."""

    def operation(session: ReadSession) -> npt.NDArray[np.uint64]:
        found = [np.zeros(0, np.uint64)]
        if session.transaction.count(Table.RELATIVES):
            for batch in log.walk(session.transaction, session.words):
                filings = batch.rows["filing"][batch.entered()]
                found.append(batch.numbers()[filings == Filing.OWN])
        return np.concatenate(found)

    return internals_of(index).read(operation)


def _templates(session: ReadSession, limit: int, progress: Callable[[int], None]) -> list[Template]:
    transaction = session.transaction
    families = read_families(transaction, _largest(transaction, limit))
    streams = {number: stream for number, (stream, _) in scan.numbered_streams(transaction).items()}
    of_heads = documents.origins(transaction, np.array(sorted(families), np.uint64), session.words)
    found = {
        number: _template(number, family, _head(of_heads.get(number), streams)) for number, family in families.items()
    }
    if found:
        reading = _Reading(session, streams, found)
        done = 0
        for batch in log.since(transaction, min(found), session.words):
            reading.add(batch)
            done += len(batch.rows)
            progress(done)
    return sorted(found.values(), key=lambda each: (-each.documents, each.number))


def _head(origin: log.Origin | None, streams: Mapping[int, str]) -> Page | None:
    if origin is None:
        return None
    return Page(origin.id, Position(Source(streams[origin.stream], origin.partition), origin.offset))


def _largest(transaction: Transaction, limit: int) -> list[int]:
    """Heads of the largest families whose templates are known."""
    pairs = ((key, unpack_family(bytes(value))) for key, value in transaction.walk(Table.FAMILIES))
    sizes = ((_documents(family), -int(unpack_numbers([key])[0])) for key, family in pairs if family.is_known)
    return [-head for _, head in nlargest(limit, sizes)]


def _documents(family: Family) -> int:
    return 1 + family.dropped + family.relatives


def _template(number: int, family: Family, head: Page | None) -> Template:
    own_share = family.own_bins / (family.made_unique * len(family.values)) if family.made_unique else None
    return Template(number, head, _documents(family), family.made_unique, own_share, family.dropped)


class _Reading:
    """Reader of the log that notes the pages of some templates."""

    def __init__(self, session: ReadSession, streams: Mapping[int, str], templates: Mapping[int, Template]) -> None:
        self._transaction, self._streams, self._templates = session.transaction, streams, templates
        self._heads = np.array(sorted(templates), np.uint64)

    def add(self, batch: log.Batch) -> None:
        """Note the pages of a batch; batches come in the order of the log."""
        rows, own = batch.rows, np.full(len(batch.rows), NO_NUMBER, np.uint64)
        own[batch.entered()] = batch.numbers()
        unequal = (rows["verdict"] == Verdict.DUPLICATE) & (rows["distance"] > 0)
        asked = np.flatnonzero(unequal | (rows["verdict"] == Verdict.TEMPLATE))
        # A page stands for itself; what was dropped belongs to the family of what it was dropped for.
        documents_of = np.where(unequal[asked], rows["number"][asked], own[asked])
        heads = heads_of(self._transaction, documents_of, documents_of)
        wanted = np.isin(heads, self._heads)
        for row, head in zip(asked[wanted].tolist(), heads[wanted].tolist(), strict=True):
            template = self._templates[head]
            if rows["verdict"][row] == Verdict.TEMPLATE:
                if len(template.kept_pages) < KEPT_EXAMPLES_MAX:
                    template.kept_pages.append(self._page(batch, row))
            # After the first page that a template kept, it drops copies alone.
            elif not template.kept_pages and len(template.dropped_pages) < template.dropped:
                template.dropped_pages.append(self._page(batch, row))

    def _page(self, batch: log.Batch, row: int) -> Page:
        stream, partition = batch.sources[int(batch.rows["source"][row])].tolist()
        (id_,) = batch.ids(np.array([row]))
        return Page(id_, Position(Source(self._streams[stream], partition), int(batch.rows["offset"][row])))
