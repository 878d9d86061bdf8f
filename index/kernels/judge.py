"""The judge: whether a candidate makes a row a duplicate, and why not.

Every caller that asks this question asks `judge`: the walk of a batch, queries, checks, restoration and Flink.
`index.decide.rule` says in words what the reasons mean.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels import second_look
from index.kernels.bins import (
    OwnLimits,
    bin_distances,
    brings_nothing_new,
    exceeds,
    in_one_frame,
    is_framed,
    own_length,
    signature_words,
)
from index.kernels.jit import compiled, inner, ones
from index.kernels.second_look import LookRule, look_again

NONE = -1
NEAR, EXACT = 0, 1
_BEYOND = 2**15


class Reason(IntEnum):
    """Why a candidate counts, or does not.

    >>> Reason(0).name
    'COUNTS'
    """

    COUNTS = 0
    """It makes the row a duplicate, unless a nearer one does."""
    TOO_FAR = 1
    """Its distance is beyond the limit."""
    REFUSED = 2
    """The second look says otherwise."""
    TEMPLATE_ONLY = 3
    """Only the frames of the hosts are alike."""
    ROOT_GONE = 4
    """It was dropped, and what it was dropped for no longer counts."""
    ROOT_TOO_FAR = 5
    """It was dropped, and the row is too far from what it was dropped for."""
    TOO_SHORT = 6
    """The row is much longer than its root."""
    OTHER_ID = 7
    """The row's id was given back: only its own versions count."""
    LOST = 8
    """An update of this batch replaced it."""
    OTHER_KIND = 9
    """A short text and a long one are never compared."""
    NEW_TEXT = 10
    """The root lacks too much of the row's text."""


# Plain numbers, which compiled code takes for constants.
COUNTS, TOO_FAR, REFUSED, TEMPLATE_ONLY, ROOT_GONE, ROOT_TOO_FAR, TOO_SHORT, OTHER_ID, LOST, OTHER_KIND, NEW_TEXT = (
    range(11)
)


class Rule(NamedTuple):
    """Limits of a decision.

    distance_max         largest distance of a match
    root_distance_max    largest distance to a match's root
    member_distance_min  a duplicate enters if all matches are farther than this by the plain distance
    bin_bits             bits of a signature's values; 0: fingerprints are compared bit by bit
    units                units of distance in 1 - similarity = 1
    longer               ten-thousandths of a root's length; a document this much longer is no duplicate; 0: no limit
    longer_distance_min  with frames: least distance at which the own texts' lengths count
    new_max              with signatures: largest share, in units, of a document's shingles that a root may lack; units: any
    """

    distance_max: int
    root_distance_max: int
    member_distance_min: int
    bin_bits: int
    units: int
    own: OwnLimits
    look: LookRule
    longer: int
    longer_distance_min: int
    new_max: int


class Documents(NamedTuple):
    """Columns of the rows of a batch, and behind them of indexed documents. A place is an index into all of them.

    order         uint64 [m], earlier ones first: a document's number, or ROW_ORDER + row
    fingerprints  uint64 [m, words]
    looks         uint8 [m, look bytes]
    kinds         uint8 [m], `Kind` values
    roots         int64 [m], place of the root; NONE: it no longer counts, so the document does not count either
    delivered     bool [m], documents that went out as unique: they go on as their own root if theirs is lost
    lost          bool [m], documents that no longer count
    lengths       int64 [m], letters; 0: unknown
    ids           uint64 [m], digest of the id; 0: none, or not asked for
    hosts         uint32 [m], digest of the host
    digests       uint64 [m, 2], of the text and its substance
    """

    order: npt.NDArray[np.uint64]
    fingerprints: npt.NDArray[np.uint64]
    looks: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.uint8]
    roots: npt.NDArray[np.int64]
    delivered: npt.NDArray[np.bool_]
    lost: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint64]
    hosts: npt.NDArray[np.uint32]
    digests: npt.NDArray[np.uint64]


class Judgement(NamedTuple):
    """What `judge` finds of one candidate.

    reason         `Reason` value
    plain          distance without frames
    distance       distance by which it ranks; with frames the lesser one that counts
    root           place of the root, or NONE
    root_distance  distance to it, or NONE if it was not measured
    """

    reason: int
    plain: int
    distance: int
    root: int
    root_distance: int


@inner
def measured(row: Any, place: Any, documents: Documents, rule: Rule) -> Any:
    """Distances of a NEAR row to an earlier NEAR document, int64 each: plain, and with frames."""
    prints = documents.fingerprints
    if rule.bin_bits:
        return bin_distances(prints, row, prints, place, rule.bin_bits, rule.units, rule.own)
    bits = np.int64(0)
    for word in range(prints.shape[1]):
        bits += np.int64(ones(prints[row, word] ^ prints[place, word]))
    return bits, bits


@inner
def compared(row: Any, place: Any, documents: Documents, rule: Rule) -> Any:
    """`Reason` of the pair alone, without roots; and its plain distance and the one by which it ranks."""
    far: Any = np.int64(_BEYOND)
    if documents.kinds[row] != documents.kinds[place]:
        return OTHER_KIND, far, far
    if documents.kinds[row] == EXACT:
        for word in range(documents.fingerprints.shape[1]):
            if documents.fingerprints[row, word] != documents.fingerprints[place, word]:
                return TOO_FAR, far, far
        return COUNTS, np.int64(0), np.int64(0)
    plain, distance = measured(row, place, documents, rule)
    if distance > rule.distance_max:
        return (TEMPLATE_ONLY if plain <= rule.distance_max else TOO_FAR), plain, distance
    if rule.look.kind == second_look.NO_LOOK:
        return COUNTS, plain, distance
    accepted, ranked = look_again(documents.looks, row, documents.looks, place, distance, rule.look)
    return (COUNTS if accepted else REFUSED), ranked, ranked


@inner
def _are_equal(row: Any, root: Any, documents: Documents) -> Any:
    """Whether two documents have one fingerprint, whatever their frames."""
    prints, differing = documents.fingerprints, np.uint64(0)
    for word in range(signature_words(prints.shape[1])):
        differing |= prints[row, word] ^ prints[root, word]
    return differing == 0


@inner
def too_short(row: Any, root: Any, root_distance: Any, documents: Documents, rule: Rule) -> Any:
    """Whether a root is too short for the row to be its duplicate."""
    prints = documents.fingerprints
    signature = signature_words(prints.shape[1])
    if _are_equal(row, root, documents):
        return False
    length, root_length = documents.lengths[row], documents.lengths[root]
    if not (is_framed(prints, row, signature) or is_framed(prints, root, signature)):
        return exceeds(length, root_length, rule.longer)
    shares_frame = in_one_frame(prints, row, root, rule.bin_bits)
    # Text that other pages of the host have too may still be new to the root.
    if shares_frame and exceeds(length, root_length, rule.longer):
        return True
    # The own share of a page is an estimate: the distance must agree with it.
    if brings_nothing_new(prints, row, signature) or root_distance < rule.longer_distance_min:
        return False
    own_root_length = own_length(prints, documents.lengths, root, rule.bin_bits)
    if shares_frame:
        # Two pages in one frame differ in own text alone.
        own: Any = own_root_length + length - root_length
    else:
        own = own_length(prints, documents.lengths, row, rule.bin_bits)
    return exceeds(own, own_root_length, rule.longer)


@compiled
def new_share(root_distance: Any, length: Any, root_length: Any, units: int) -> Any:
    """Share of a document's shingles that a root lacks, in units, as `streamer.records.relation` defines it."""
    shared = (units - root_distance) / (2 * units - root_distance) * (1 + root_length / length)
    return units * max(0.0, 1 - root_length / length, 1 - shared)


@inner
def has_new_text(row: Any, root: Any, root_distance: Any, documents: Documents, rule: Rule) -> Any:
    """Whether a root lacks too much of a row's text for the row to be its duplicate; never if a length is unknown."""
    length, root_length = documents.lengths[row], documents.lengths[root]
    if rule.new_max >= rule.units or rule.bin_bits == 0 or length == 0 or root_length == 0:
        return False
    if documents.kinds[row] != NEAR or _are_equal(row, root, documents):
        return False
    return new_share(root_distance, length, root_length, rule.units) > rule.new_max


@compiled
def root_of(place: Any, documents: Documents) -> Any:
    """Place of the root that a document has now; NONE if it counts no more for its root's sake."""
    root = documents.roots[place]
    if root != NONE and documents.lost[root]:
        return place if documents.delivered[place] else np.int64(NONE)
    return root


@inner
def by_root(row: Any, place: Any, distance: Any, documents: Documents, rule: Rule) -> Any:
    """`Reason` of a candidate that is near enough by its root, the root, and the distance to it."""
    root: Any = root_of(place, documents)
    if root == NONE:
        return ROOT_GONE, root, np.int64(NONE)
    root_distance: Any = np.int64(distance)
    if root != place and documents.kinds[row] == NEAR:
        _, root_distance = measured(row, root, documents, rule)
        if root_distance > rule.root_distance_max:
            return ROOT_TOO_FAR, root, root_distance
        if rule.look.kind != second_look.NO_LOOK:
            accepted, root_distance = look_again(documents.looks, row, documents.looks, root, root_distance, rule.look)
            if not accepted:
                return ROOT_TOO_FAR, root, root_distance
    if too_short(row, root, root_distance, documents, rule):
        return TOO_SHORT, root, root_distance
    if has_new_text(row, root, root_distance, documents, rule):
        return NEW_TEXT, root, root_distance
    return COUNTS, root, root_distance


@inner
def has_other_id(row: Any, place: Any, documents: Documents) -> Any:
    """Whether a document is no version of the row: its id or its root's differs."""
    root = documents.roots[place]
    return documents.ids[place] != documents.ids[row] or (root != NONE and documents.ids[root] != documents.ids[row])


@inner
def judge(row: Any, place: Any, by_id: Any, documents: Documents, rule: Rule) -> Judgement:
    """Judge one candidate of a row. by_id: only versions of the row's document count."""
    nothing: Any = np.int64(NONE)
    reason, plain, distance = compared(row, place, documents, rule)
    if documents.lost[place]:
        return Judgement(LOST, plain, distance, nothing, nothing)
    if by_id and has_other_id(row, place, documents):
        return Judgement(OTHER_ID, plain, distance, nothing, nothing)
    if reason == TEMPLATE_ONLY:
        root = root_of(place, documents)
        return Judgement(ROOT_GONE if root == NONE else TEMPLATE_ONLY, plain, distance, root, nothing)
    if reason != COUNTS:
        return Judgement(reason, plain, distance, nothing, nothing)
    reason, root, root_distance = by_root(row, place, distance, documents, rule)
    return Judgement(reason, plain, distance, root, root_distance)


@compiled
def judge_pairs(
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    by_id: npt.NDArray[np.bool_],
    documents: Documents,
    rule: Rule,
) -> npt.NDArray[np.int64]:
    """`Judgement` of pairs of a row and a candidate, int64 [m] each, by columns: int64 [5, m]. by_id: bool [n]."""
    found = np.empty((5, len(rows)), np.int64)
    for pair in range(len(rows)):
        judgement = judge(rows[pair], places[pair], by_id[rows[pair]], documents, rule)
        found[0, pair], found[1, pair], found[2, pair] = judgement.reason, judgement.plain, judgement.distance
        found[3, pair], found[4, pair] = judgement.root, judgement.root_distance
    return found


@compiled
def distances_to(
    rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], documents: Documents, rule: Rule
) -> npt.NDArray[np.int16]:
    """Distances of rows to documents, int64 [m] each, whatever the limits: plain, and as verdicts report it: int16 [2, m]."""
    found = np.zeros((2, len(rows)), np.int16)
    for pair in range(len(rows)):
        row, place = rows[pair], places[pair]
        if documents.kinds[row] == NEAR and documents.kinds[place] == NEAR:
            plain, distance = measured(row, place, documents, rule)
            _, ranked = look_again(documents.looks, row, documents.looks, place, distance, rule.look)
            found[0, pair], found[1, pair] = plain, ranked
    return found
