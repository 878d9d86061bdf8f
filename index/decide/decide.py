"""One chunk of rows to its verdicts: gather, load, walk.

```
gather   all visible entries within the distance of each row         streams over memtables and segments
load     rows, those entries, known versions and roots as columns    one read of the log
walk     row after row: judge every candidate, conclude, enter       compiled
```
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import sets
from index.decide.gather import gather
from index.decide.load import Loaded, load
from index.decide.prepare import Prepared
from index.decide.recrawl import pages_of
from index.decide.rule import rule_of
from index.entry import NO_DISTANCE, Entries, Kind, Verdict
from index.kernels.judge import NONE
from index.kernels.meet import Chains, chains_of
from index.kernels.walk import NO_ORIGIN, Candidates, Outcomes, walk
from index.matching.outcome import ROW_ORDER, Outcome
from index.session import ReadSession
from index.storage import documents
from index.versions.history import Versions, versions_of
from index.versions.reasons import original_columns


class DecidedChunk(NamedTuple):
    """A chunk's outcome.

    equal     bool [n], whether a visible entry has the row's fingerprint
    compared  int64 [n], comparisons

    >>> DecidedChunk._fields
    ('outcome', 'equal', 'compared')
    """

    outcome: Outcome
    equal: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.int64]


def decide(session: ReadSession, chunk: Prepared) -> DecidedChunk:
    """Decide prepared rows, each with the entries of the rows before it."""
    entries, parameters = chunk.entries, session.parameters
    by_id = documents.are_given_back(session.visibility, entries.ids)
    versions = versions_of(session, entries)
    gathered = gather(session, chunk)
    is_keyed = versions is not None or bool(by_id.any())
    numbers = gathered.numbers
    known = versions.numbers() if versions is not None else numbers[:0]
    loaded = load(session, entries, np.concatenate([numbers, known]), with_ids=is_keyed)
    candidates = candidates_of(gathered.rows, loaded.places(numbers), by_id)
    pages = pages_of(versions, loaded, len(entries))
    outcomes, rule = undecided(entries, gathered.compared), rule_of(parameters, session.longer)
    walk(candidates, chains_of_chunk(chunk), pages, loaded.documents, outcomes, rule, chunk.is_check)
    return DecidedChunk(_outcome(session, outcomes, loaded, versions), gathered.equal, outcomes.compared)


def candidates_of(
    rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], by_id: npt.NDArray[np.bool_]
) -> Candidates:
    """Candidates by row, int64 [m] each, for rows with these `by_id`. Documents that have left the log are none."""
    rows, places = rows[places != NONE], places[places != NONE]
    order = np.argsort(rows, kind="stable")
    begins = np.searchsorted(rows[order], np.arange(len(by_id) + 1))
    return Candidates(begins, places[order], by_id)


def chains_of_chunk(chunk: Prepared) -> Chains:
    """Chains in which the rows meet each other."""
    decided = chunk.entries.kinds <= Kind.EXACT
    meets = np.zeros_like(decided) if chunk.is_check else decided
    return chains_of(chunk.hashes, decided, meets, chunk.lookup.probes)


def undecided(entries: Entries, compared: npt.NDArray[np.int64]) -> Outcomes:
    """Outcomes before the walk: rows of a kind that is decided are UNIQUE entries."""
    count, kinds = len(entries), entries.kinds
    verdicts = np.full(count, Verdict.UNIQUE, np.uint8)
    verdicts[kinds == Kind.UNDECIDABLE] = Verdict.UNDECIDABLE
    verdicts[kinds == Kind.DEAD_LETTER] = Verdict.DEAD_LETTER
    return Outcomes(
        verdicts,
        distances=np.full(count, NO_DISTANCE, np.int16),
        named=np.arange(count),
        entering=verdicts == Verdict.UNIQUE,
        compared=compared,
        marks=np.zeros(count, np.uint8),
        returns=np.zeros(count, np.uint8),
        strangers=np.zeros(count, np.uint8),
        origins=np.full(count, NO_ORIGIN),
    )


def _outcome(session: ReadSession, outcomes: Outcomes, loaded: Loaded, versions: Versions | None) -> Outcome:
    former = {row: versions.former(row, origin) for row, origin in _without_current(outcomes)} if versions else {}
    ratios, equal_texts = original_columns(outcomes, loaded.documents)
    return Outcome(
        outcomes.verdicts,
        outcomes.distances,
        outcomes.entering,
        session.counters.next_number,
        _numbered(session, loaded.documents.order[outcomes.named]),
        former,
        outcomes.marks,
        outcomes.returns,
        outcomes.strangers,
        ratios,
        equal_texts,
    )


def _numbered(session: ReadSession, orders: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Document numbers in these orders, uint64 [n]; rows of the batch stay as they are."""
    return np.where(orders < np.uint64(ROW_ORDER), sets.orders(session, orders), orders) if session.bases else orders


def _without_current(outcomes: Outcomes) -> list[tuple[int, int]]:
    """Updates that replace no entry, with the origin of their page's last version."""
    rows = np.flatnonzero(outcomes.origins != NO_ORIGIN)
    return list(zip(rows.tolist(), outcomes.origins[rows].tolist(), strict=True))
