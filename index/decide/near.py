"""Entries near documents now, nearest first, and what the judge says of each."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index import sets
from index.decide.gather import gather
from index.decide.load import load
from index.decide.prepare import prepared_whole, stored_form
from index.decide.rule import rule_of
from index.entry import Entries
from index.frames.hosts import with_frames
from index.kernels.judge import NONE, Reason, judge_pairs
from index.lsm.lookup import NearLookup, lookup_of
from index.matching.distance import Matches, joined, nearest, no_matches
from index.matching.frame import without_frames
from index.session import ReadSession
from index.storage import documents
from index.storage.documents import Document


class Judged(NamedTuple):
    """An entry near a document, and why it would make the document a duplicate, or would not.

    distance       between both, with the frames of hosts; 0 for a document of another kind
    reason         why it counts, or does not
    root_distance  from the document to the entry's root; None unless the reason comes after it in `index.decide.rule`

    >>> Judged._fields[1:]
    ('distance', 'reason', 'root_distance')
    """

    document: Document
    distance: int
    reason: Reason
    root_distance: int | None


def within(session: ReadSession, lookup: NearLookup, limit: int) -> Matches:
    """Visible NEAR entries within a look-up's distance, nearest and earliest first, at most `limit` a row."""
    found = no_matches()
    for matches, _ in session.tree.matches(session.transaction, lookup):
        visible = matches.take(session.visibility.visible(matches.numbers))
        found = nearest(joined([found, visible]), limit)
    return found


def queried(session: ReadSession, lookup: NearLookup, limit: int) -> list[list[tuple[Document, int]]]:
    """Implementation of `Index.query`: entries with their distances, by row of the look-up."""
    matches = within(session, lookup, limit)
    stored = documents.read(session.transaction, matches.numbers, session.words)
    answer: list[list[tuple[Document, int]]] = [[] for _ in range(len(lookup))]
    columns = (matches.rows.tolist(), matches.distances.tolist(), matches.numbers.tolist())
    for row, distance, number in zip(*columns, strict=True):
        answer[row].append((stored[number], distance))
    return answer


def equal(session: ReadSession, fingerprints: npt.NDArray[np.uint64]) -> list[Document | None]:
    """Implementation of `Index.query_exact`."""
    rows, numbers = documents.equals(session.visibility, without_frames(fingerprints, session.words))
    stored = documents.read(session.transaction, numbers, session.words)
    answer: list[Document | None] = [None] * len(fingerprints)
    # Ascending numbers: the earliest entry comes last here, and stays.
    for row, number in reversed(list(zip(rows.tolist(), numbers.tolist(), strict=True))):
        answer[row] = stored[number]
    return answer


def judged(session: ReadSession, entries: Entries, distance_max: int, limit: int) -> list[list[Judged]]:
    """Implementation of `Index.judged`."""
    fingerprints, words = entries.fingerprints, session.parameters.words
    if fingerprints.shape[1:] == (session.words,) and session.words > words:
        entries = stored_form(replace(entries, fingerprints=fingerprints[:, :words]), session.parameters)
        entries = replace(entries, fingerprints=fingerprints)
    else:
        entries = stored_form(entries, session.parameters)
        # The host's sample has taken the page in already.
        entries = with_frames(session, entries, np.arange(len(entries)), are_known=True)
    chunk = prepared_whole(entries, session.parameters)
    chunk = replace(chunk, lookup=lookup_of(entries.fingerprints[chunk.near], session.parameters, distance_max))
    found, by_id = gather(session, chunk, by_look=False), documents.are_given_back(session.visibility, entries.ids)
    loaded = load(session, entries, found.numbers, with_ids=True)
    places = loaded.places(found.numbers)
    rows, numbers, places = (each[places != NONE] for each in (found.rows, found.numbers, places))
    columns = judge_pairs(rows, places, by_id, loaded.documents, rule_of(session.parameters, session.longer))
    return _nearest(session, len(entries), rows, numbers, columns, limit)


def _nearest(
    session: ReadSession,
    count: int,
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint64],
    columns: npt.NDArray[np.int64],
    limit: int,
) -> list[list[Judged]]:
    reasons, _, distances, _, root_distances = columns
    answer: list[list[Judged]] = [[] for _ in range(count)]
    order = np.lexsort((numbers, distances, rows))
    stored, taken = sets.read(session, numbers), set[tuple[int, int]]()
    for place in order.tolist():
        row, number = int(rows[place]), int(numbers[place])
        if len(answer[row]) < limit and number in stored and (row, number) not in taken:
            taken.add((row, number))
            to_root = int(root_distances[place])
            each = Judged(
                stored[number], int(distances[place]), Reason(int(reasons[place])), None if to_root < 0 else to_root
            )
            answer[row].append(each)
    return answer
