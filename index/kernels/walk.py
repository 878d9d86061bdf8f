"""The walk: decides the rows of a batch one after the other. Each sees the entries before it.

`index.decide.rule` defines the decision in words.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.bins import brings_nothing_new, signature_words
from index.kernels.jit import compiled, inner
from index.kernels.judge import (
    COUNTS,
    EXACT,
    NEW_TEXT,
    NONE,
    TEMPLATE_ONLY,
    TOO_SHORT,
    Documents,
    Rule,
    judge,
    measured,
)
from index.kernels.meet import Chains, meet
from index.kernels.versions import SHARED_ID, Pages, note, plan

UNIQUE, DUPLICATE, TEMPLATE, UPDATE, EXTENDS, ADDS = 0, 1, 4, 5, 8, 9
"""Values of `Verdict` that the walk gives."""

NO_ORIGIN = -1


class Candidates(NamedTuple):
    """Documents that n rows may match; those of row r are at begins[r] to begins[r + 1].

    begins  int64 [n + 1]
    places  int64 [m]
    by_id   bool [n], rows that match versions of their own document alone
    """

    begins: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    by_id: npt.NDArray[np.bool_]


class Outcomes(NamedTuple):
    """Decisions on n rows; the walk fills them in.

    verdicts   uint8 [n]
    distances  int16 [n], NONE without a match
    named      int64 [n], place of the document that a row names, or the row itself
    entering   bool [n], entries: later rows may match them
    compared   int64 [n], comparisons
    marks      uint8 [n], `Plan.mark`; SHARED_ID for UNIQUE rows alone
    returns    uint8 [n], how often the page has returned to an earlier substance
    strangers  uint8 [n], `Pages.strangers` after the row
    origins    int64 [n], for an UPDATE without a current version: `Pages.origins`; else NO_ORIGIN
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    named: npt.NDArray[np.int64]
    entering: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    returns: npt.NDArray[np.uint8]
    strangers: npt.NDArray[np.uint8]
    origins: npt.NDArray[np.int64]


class Best(NamedTuple):
    """The candidate that decides a row.

    match     its place, or NONE
    root      its root; without a match that of the nearest document that fails alone by what its root lacks, then by the
              frames alone; or NONE
    distance  distance to the match
    reported  distance to the root, as the verdict reports it
    plain     least distance without frames to a candidate that counts
    verdict   of a row with a root
    """

    match: int
    root: int
    distance: int
    reported: int
    plain: int
    verdict: int


@inner
def _is_nearer(distance: Any, place: Any, least: Any, other: Any, documents: Documents) -> Any:
    """Whether a candidate is nearer than another at distance `least`, or as near and earlier; other: NONE for none."""
    if other == NONE:
        return True
    return distance < least or (distance == least and documents.order[place] < documents.order[other])


@inner
def best_of(
    row: int, candidates: Candidates, chains: Chains, documents: Documents, outcomes: Outcomes, rule: Rule
) -> Best:
    """Judge all candidates of a row: those from the index, and entries of the batch that it meets."""
    none: Any = np.int64(NONE)
    match, root, distance, reported, plain = none, none, none, none, none
    short, short_root, short_distance, short_reported, short_verdict = none, none, none, none, EXTENDS
    template, template_root, template_distance = none, none, none
    begin, end = candidates.begins[row], candidates.begins[row + 1]
    met = meet(row, chains, outcomes.entering) if chains.meets[row] else 0
    outcomes.compared[row] += met
    count, by_id = len(outcomes.verdicts), candidates.by_id[row]
    for at in range(begin, end + met):
        place = candidates.places[at] if at < end else chains.met[at - end]
        if place < count and not outcomes.entering[place]:
            continue
        found = judge(row, place, by_id, documents, rule)
        # The earliest wins a tie, so the candidates' order does not matter.
        if found.reason == COUNTS:
            plain = found.plain if match == NONE else min(plain, found.plain)
            if _is_nearer(found.distance, place, distance, match, documents):
                match, root, distance, reported = place, found.root, found.distance, found.root_distance
        elif found.reason == TOO_SHORT or found.reason == NEW_TEXT:
            if _is_nearer(found.distance, place, short_distance, short, documents):
                short, short_root, short_distance = place, found.root, found.distance
                short_reported = found.root_distance
                short_verdict = EXTENDS if found.reason == TOO_SHORT else ADDS
        elif (
            found.reason == TEMPLATE_ONLY
            and not by_id
            and _is_nearer(found.plain, place, template_distance, template, documents)
        ):
            template, template_root, template_distance = place, found.root, found.plain
    if match != NONE:
        # A row without novelty would match nothing that its match does not.
        if brings_nothing_new(documents.fingerprints, row, signature_words(documents.fingerprints.shape[1])):
            plain = np.int64(0)
        return Best(match, root, distance, reported, plain, DUPLICATE)
    if short != NONE:
        return Best(none, short_root, none, short_reported, none, short_verdict)
    if template != NONE:
        reported, _ = measured(row, template_root, documents, rule)
        return Best(none, template_root, none, reported, none, TEMPLATE)
    return Best(none, none, none, none, none, UNIQUE)


@inner
def _conclude(row: int, best: Best, documents: Documents, outcomes: Outcomes, rule: Rule) -> None:
    """Decide a row by its best candidate; rows start as UNIQUE entries that name themselves."""
    if best.root == NONE:
        return
    outcomes.verdicts[row] = best.verdict
    outcomes.named[row], outcomes.distances[row] = best.root, best.reported
    if best.verdict == DUPLICATE:
        documents.roots[row], documents.delivered[row] = best.root, False
        # A member this near to its match would match hardly anything that its match does not.
        outcomes.entering[row] = best.plain > rule.member_distance_min


@inner
def _conclude_by_page(
    row: int, decision: Any, pages: Pages, documents: Documents, outcomes: Outcomes, is_check: bool
) -> None:
    """Decide a row as its page's plan says."""
    outcomes.marks[row] = decision.mark
    outcomes.distances[row] = decision.distance
    if decision.named != NONE:
        outcomes.named[row] = decision.named
    if decision.replaces:
        outcomes.verdicts[row] = UPDATE
        if decision.named == NONE:
            outcomes.origins[row] = pages.origins[pages.keys[row]]
        elif not is_check:
            # Later rows must not match the version that this row replaces.
            documents.lost[decision.named] = True
        return
    outcomes.verdicts[row], outcomes.entering[row] = DUPLICATE, False
    documents.roots[row], documents.delivered[row] = decision.named, False


@inner
def _is_version(best: Best, key: Any, nearest: Any, pages: Pages) -> Any:
    """Whether no other document is nearer to a row than the versions of its page, at distance `nearest`."""
    if best.match == NONE or best.distance >= nearest:
        return True
    return best.root == pages.current[key] or (pages.foreign[key] and best.root == pages.last[key])


@compiled
def walk(
    candidates: Candidates,
    chains: Chains,
    pages: Pages,
    documents: Documents,
    outcomes: Outcomes,
    rule: Rule,
    is_check: bool,
) -> None:
    """Decide all rows in order; changes documents, pages and outcomes. is_check: no row sees another."""
    for row in range(len(outcomes.verdicts)):
        if documents.kinds[row] > EXACT:
            continue
        best = best_of(row, candidates, chains, documents, outcomes, rule)
        key = pages.keys[row]
        decision = plan(row, pages, documents, rule)
        returns, strangers = (pages.returns[key], pages.strangers[key]) if key != NONE else (np.int64(0), np.int64(0))
        is_version = key != NONE and _is_version(best, key, decision.nearest, pages)
        if is_version and (decision.decides or decision.mark == SHARED_ID):
            returns, strangers = decision.returns, decision.strangers
        if is_version and decision.decides:
            _conclude_by_page(row, decision, pages, documents, outcomes, is_check)
        else:
            _conclude(row, best, documents, outcomes, rule)
            if decision.mark == SHARED_ID and outcomes.verdicts[row] == UNIQUE:
                outcomes.marks[row] = SHARED_ID
        outcomes.returns[row], outcomes.strangers[row] = returns, strangers
        if key != NONE and not is_check:
            place: Any = row if documents.delivered[row] else outcomes.named[row]
            note(row, place, returns, strangers, pages, documents)


@compiled
def choose_members(
    candidates: Candidates,
    chains: Chains,
    documents: Documents,
    outcomes: Outcomes,
    rule: Rule,
    roots: npt.NDArray[np.int64],
) -> None:
    """Decide in order which rows with known roots enter as members, as the walk would; changes documents and outcomes.

    roots  int64 [n], place of each dropped row's root; NONE for rows that enter or stay out anyway
    """
    for row in range(len(roots)):
        if roots[row] == NONE:
            continue
        best = best_of(row, candidates, chains, documents, outcomes, rule)
        outcomes.entering[row] = best.match == NONE or best.plain > rule.member_distance_min
        documents.roots[row], documents.delivered[row] = roots[row], False
