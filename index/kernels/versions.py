"""Pages crawled again: what a row's known id decides. `index.decide.recrawl` defines it in words."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.bins import is_framed, own_distance, own_length, signature_words
from index.kernels.jit import inner, ones
from index.kernels.judge import EXACT, NONE, Documents, Rule, measured
from index.kernels.second_look import look_again

UNKNOWN = -2
"""Origin of a page's last version: a record before this batch."""

RETURNS_MAX = 4
"""Returns of a page to earlier texts that are updates. Further ones are none, until a new text comes."""

STRANGERS_MAX = 2
"""Updates in a row with nothing in common with the text before. The next one shows that many documents share the id."""

MINOR, OTHER_TEXT, SHARED_ID, RETURNED = 1, 2, 3, 4
"""What the walk notes of a row besides its verdict: `Plan.mark`."""

OWN_LETTERS_MIN = 100
"""Letters without the frame from which on two texts without a passage in common say something."""

_COMMON_MIN = 0.05
"""Least similarity of texts with something in common: unrelated ones lie below it, but for one in a thousand."""

_UNLIKE_BITS = 5 / 16
"""The same for SimHash: share of bits in which they differ at most. Unrelated texts differ in half of them."""

_KIN, _UNSURE, _STRANGER = 0, 1, 2

_RETURNS_LIMIT = 255
_ANY_DISTANCE = 2**15 - 1
_NO_DISTANCE = -1


class Pages(NamedTuple):
    """Known versions of the documents with k keys, an id on a host each, before the next row.

    keys        int64 [n], each row's key; NONE without a usable id
    exist       bool [k], whether any version is known
    last        int64 [k], place of the document that the last record was or repeated, or NONE
    digests     uint64 [k, 2], of the last record's text and substance
    foreign     bool [k], whether `last` is a document with another key
    current     int64 [k], place of the current version, or NONE
    returns     int64 [k], how often the page has returned to an earlier substance
    strangers   int64 [k], updates in a row that were strangers; above STRANGERS_MAX for good: the id is shared
    origins     int64 [k], row of the last record, or UNKNOWN
    substances  uint64 [s], of all versions, key after key
    begins      int64 [k], each key's first substance
    counts      int64 [k], number of its substances
    """

    keys: npt.NDArray[np.int64]
    exist: npt.NDArray[np.bool_]
    last: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint64]
    foreign: npt.NDArray[np.bool_]
    current: npt.NDArray[np.int64]
    returns: npt.NDArray[np.int64]
    strangers: npt.NDArray[np.int64]
    origins: npt.NDArray[np.int64]
    substances: npt.NDArray[np.uint64]
    begins: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class Plan(NamedTuple):
    """What a row's page decides.

    decides    whether the page decides the row; else the rule does
    replaces   whether the row is an update; else it is a duplicate
    mark       MINOR: counters and dates alone differ; RETURNED: the page returned too often; OTHER_TEXT: an update that is
               a stranger; SHARED_ID: the row is no version, as its id is shared; or 0
    named      place of the version that the row names, or NONE
    nearest    a match nearer than this decides instead, unless its root is the current or the last version
    distance   distance to the named version
    returns    the page's returns if the plan is carried out
    strangers  likewise
    """

    decides: bool
    replaces: bool
    mark: int
    named: int
    nearest: int
    distance: int
    returns: int
    strangers: int


@inner
def no_plan() -> Plan:
    """The rule decides."""
    nothing: Any = np.int64(NONE)
    return Plan(False, False, 0, nothing, nothing, nothing, nothing, nothing)


@inner
def _distance(row: Any, place: Any, documents: Documents, rule: Rule) -> Any:
    """Distance from a row to a version of its document, and the one at which the version counts as a match.

    The first is `_NO_DISTANCE` unless both are NEAR, the second `_ANY_DISTANCE` unless the version is near.
    """
    if place == NONE:
        return np.int64(_NO_DISTANCE), np.int64(_ANY_DISTANCE)
    if documents.kinds[row] == EXACT or documents.kinds[place] == EXACT:
        return np.int64(_NO_DISTANCE), np.int64(_ANY_DISTANCE)
    _, distance = measured(row, place, documents, rule)
    accepted, ranked = look_again(documents.looks, row, documents.looks, place, distance, rule.look)
    return ranked, ranked if accepted and distance <= rule.distance_max else np.int64(_ANY_DISTANCE)


@inner
def _own_letters(place: Any, documents: Documents, rule: Rule) -> Any:
    if not is_framed(documents.fingerprints, place, signature_words(documents.fingerprints.shape[1])):
        return documents.lengths[place]
    return own_length(documents.fingerprints, documents.lengths, place, rule.bin_bits)


@inner
def _kinship(row: Any, place: Any, documents: Documents, rule: Rule) -> Any:
    """Whether a row has anything in common with a version of its document, without frames. Short texts leave it open."""
    if place == NONE or documents.kinds[row] == EXACT or documents.kinds[place] == EXACT:
        return _UNSURE
    prints = documents.fingerprints
    if rule.bin_bits:
        unlike = own_distance(prints, row, prints, place, rule.bin_bits, rule.units) > (1 - _COMMON_MIN) * rule.units
    else:
        bits = 0
        for word in range(prints.shape[1]):
            bits += ones(prints[row, word] ^ prints[place, word])
        unlike = bits > _UNLIKE_BITS * 64 * prints.shape[1]
    if not unlike:
        return _KIN
    letters = min(_own_letters(row, documents, rule), _own_letters(place, documents, rule))
    return _STRANGER if letters >= OWN_LETTERS_MIN else _UNSURE


@inner
def _was_there(substance: Any, key: Any, pages: Pages) -> bool:
    found, begin = False, pages.begins[key]
    for at in range(begin, begin + pages.counts[key]):
        found |= pages.substances[at] == substance
    return found


@inner
def plan(row: Any, pages: Pages, documents: Documents, rule: Rule) -> Plan:
    """What the page of a row decides, once all earlier rows are concluded."""
    key = pages.keys[row]
    if key == NONE or not pages.exist[key]:
        return no_plan()
    text, substance = documents.digests[row, 0], documents.digests[row, 1]
    last, current, foreign = pages.last[key], pages.current[key], pages.foreign[key]
    # A version dropped as a copy of another document is known by that document.
    counts = foreign and last != NONE and not documents.lost[last]
    # A copy of the last version, dropped for another document: the rule finds that document again.
    if counts and pages.digests[key, 0] == text:
        return no_plan()
    nearest: Any = np.int64(_NO_DISTANCE)
    returns: Any = pages.returns[key]
    strangers: Any = pages.strangers[key]
    if current != NONE and documents.digests[current, 0] == text:
        distance, _ = _distance(row, current, documents, rule)
        return Plan(True, False, 0, current, nearest, max(distance, np.int64(0)), returns, strangers)
    if current != NONE and documents.digests[current, 1] == substance:
        distance, _ = _distance(row, current, documents, rule)
        return Plan(True, False, MINOR, current, nearest, distance, returns, strangers)
    same = foreign and pages.digests[key, 1] == substance
    if same and counts:
        distance, _ = _distance(row, last, documents, rule)
        return Plan(True, False, MINOR, last, nearest, distance, returns, strangers)
    if current == NONE and (same or not foreign):
        return no_plan()
    # No other document may be nearer than the last or the current version.
    to_last, last_match = _distance(row, last, documents, rule)
    to_current, nearest = _distance(row, current, documents, rule)
    if current == NONE or (foreign and not same and last_match < nearest):
        nearest = last_match
    is_return = _was_there(substance, key, pages)
    named: Any = current if current != NONE else (last if counts else np.int64(NONE))
    kinship = _kinship(row, last, documents, rule)
    if current != NONE and current != last:
        # A page that was a copy of another document for a while is compared with its own text too.
        own_kinship = _kinship(row, current, documents, rule)
        kinship = _KIN if _KIN in (kinship, own_kinship) else max(kinship, own_kinship)
    if is_return and kinship == _STRANGER:
        # Two texts in turn are one page's.
        kinship = _UNSURE
    is_shared = strangers > STRANGERS_MAX
    if (is_shared and kinship != _KIN) or (strangers == STRANGERS_MAX and kinship == _STRANGER):
        nothing: Any = np.int64(_NO_DISTANCE)
        shared: Any = np.int64(STRANGERS_MAX + 1)
        return Plan(False, False, SHARED_ID, named, nearest, nothing, returns, shared)
    if is_return and returns >= RETURNS_MAX and named != NONE:
        distance = to_current if current != NONE else to_last
        return Plan(True, False, RETURNED, named, nearest, distance, returns, strangers)
    # Substances A, B, A: the third record returns once. A substance C ends the count.
    returns = min(returns + 1, np.int64(_RETURNS_LIMIT)) if is_return else np.int64(0)
    if not is_shared and kinship != _UNSURE:
        strangers = strangers + 1 if kinship == _STRANGER else np.int64(0)
    mark = OTHER_TEXT if kinship == _STRANGER else 0
    return Plan(True, True, mark, current, nearest, to_current, returns, strangers)


@inner
def note(row: Any, place: Any, returns: Any, strangers: Any, pages: Pages, documents: Documents) -> None:
    """Note a concluded row as its page's last version.

    place               of the document that the row is or repeats
    returns, strangers  the page's after the row
    """
    key = pages.keys[row]
    if key == NONE:
        return
    if place < len(pages.keys):
        is_own = pages.keys[place] == key
    else:
        is_own = documents.ids[place] == documents.ids[row] and documents.hosts[place] == documents.hosts[row]
    is_own = is_own and documents.delivered[place] and not documents.lost[place]
    pages.exist[key], pages.last[key], pages.origins[key] = True, place, row
    pages.returns[key], pages.strangers[key] = returns, strangers
    pages.digests[key, 0], pages.digests[key, 1] = documents.digests[row, 0], documents.digests[row, 1]
    pages.foreign[key] = not is_own
    pages.substances[pages.begins[key] + pages.counts[key]] = documents.digests[row, 1]
    pages.counts[key] += 1
    if is_own:
        pages.current[key] = place
