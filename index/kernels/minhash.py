"""MinHash fingerprints, and rows with candidates.

`index.matching.minhash` and `index.matching.frame` define the results, `index.frames.rule` the decisions.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.bands import Bands
from index.kernels.jit import compiled, ones

NONE = -1
NO_DISTANCE, UNMEASURED = -1, -2
NOTHING, TO_ROOTS, LOOK_UP = 0, 1, 2
BY_RULE = 255
_UNIQUE = 0


class OwnLimits(NamedTuple):
    """Limits from `index.matching.frame`: OWN_BINS_MIN, OWN_DOUBT, APART_BINS_MIN and OWN_SHARE_MIN."""

    bins_min: int
    doubt: int
    apart_min: int
    share_min: float


class Candidates(NamedTuple):
    """Documents that n rows may match; those of row r are at begins[r] to begins[r + 1].

    begins     int64 [n + 1]
    places     int64 [m], places in `Documents`: rows come first
    distances  int16 [m], UNMEASURED: `judge` measures it by the frames; NO_DISTANCE: no candidate after all
    to_roots   int16 [m], distance to the candidate's root; NO_DISTANCE: too far; UNMEASURED: not known yet
    """

    begins: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int16]
    to_roots: npt.NDArray[np.int16]


class Documents(NamedTuple):
    """Columns of `index.matching.candidates.CandidateSet`; lengths in letters, 0 if unknown."""

    fingerprints: npt.NDArray[np.uint64]
    order: npt.NDArray[np.uint64]
    roots: npt.NDArray[np.int64]
    lost: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]


class Verdicts(NamedTuple):
    """Decisions on n rows.

    verdicts   uint8 [n]
    distances  int16 [n]
    named      int64 [n], place of the document that a row names, or the row itself
    entering   bool [n], entries: later rows may match them
    compared   int64 [n], comparisons
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    named: npt.NDArray[np.int64]
    entering: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.int64]


class Versions(NamedTuple):
    """What older versions of n rows' documents decide.

    verdicts   uint8 [n]; BY_RULE: nothing
    places     int64 [n], place of the current version, or the row itself; the row names it unless it is UNIQUE
    others     int64 [n], place of another page that the last version was a copy of, or NONE; if lost, the walk stops
    nearest    int16 [n], a match nearer than this decides instead, unless its root is at either place
    distances  int16 [n], distance that the verdict reports
    decided    bool [n], whether they decided
    replacing  whether an update's older version gets lost
    """

    verdicts: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]
    others: npt.NDArray[np.int64]
    nearest: npt.NDArray[np.int16]
    distances: npt.NDArray[np.int16]
    decided: npt.NDArray[np.bool_]
    replacing: bool


class Limits(NamedTuple):
    """Limits from `index.decide.rule.limits_of`.

    apart          a duplicate enters if its match is farther than this
    outlives_root  whether a member goes on as its own root once its root is lost
    longer         ten-thousandths of a root's length; a document that is this much longer is no duplicate; 0: no limit
    longer_apart   with frames: least distance of such a document to the root
    """

    distance_max: int
    root_distance_max: int
    apart: int
    outlives_root: bool
    bin_bits: int
    units: int
    own: OwnLimits
    longer: int
    longer_apart: int
    duplicate: int
    template: int
    extends: int


class Judgement(NamedTuple):
    """Judgement of a row's candidates.

    match     the document that makes the row a duplicate, or NONE
    root      its root; without a match that of the nearest document that fails by its root's length alone, then by the
              frames alone; or NONE
    distance  distance to the match
    plain     least distance without frames to a candidate that counts; 0 for a row without novelty, which does not enter
    reported  distance to the root, as the verdict reports it
    asks      NOTHING; or TO_ROOTS or LOOK_UP: `judge` needs these distances, or another candidate, and comes again
    verdict   of a row with a root
    """

    match: int
    root: int
    distance: int
    plain: int
    reported: int
    asks: int
    verdict: int


@compiled
def _slot(band_hash: Any, slots: Any) -> Any:
    """Slot for a band's hash in a table with `slots` slots, a power of two: int64."""
    return np.int64((band_hash >> np.uint64(32)) & np.uint64(slots - 1))


@compiled
def _filled(word: Any, bin_bits: int, lowest: Any) -> Any:
    """Lowest bit of every value in a word, set if the value is not 0; lowest: these bits for all values."""
    # 4 bits a value: 0x0A40 folds to bits 0x0110.
    folded = word | (word >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        folded |= folded >> np.uint64(4)
    return folded & lowest


@compiled
def _lowest(bin_bits: int) -> Any:
    return np.uint64(0x1111_1111_1111_1111 if bin_bits == 4 else 0x0101_0101_0101_0101)


@compiled
def _signature_words(words: int) -> Any:
    """See `frame.signature_words`."""
    of_signature = 1
    while 2 * of_signature <= words:
        of_signature *= 2
    return of_signature


@compiled
def _spread(bits: Any, bin_bits: int) -> Any:
    """Spread one word's frame bits, from the lowest on, to each value's lowest bit."""
    # 8 bits a value: 0b101 becomes 0x010001.
    if bin_bits == 8:
        bits = (bits | bits << np.uint64(28)) & np.uint64(0x0000_000F_0000_000F)
        bits = (bits | bits << np.uint64(14)) & np.uint64(0x0003_0003_0003_0003)
        return (bits | bits << np.uint64(7)) & np.uint64(0x0101_0101_0101_0101)
    bits = (bits | bits << np.uint64(24)) & np.uint64(0x0000_00FF_0000_00FF)
    bits = (bits | bits << np.uint64(12)) & np.uint64(0x000F_000F_000F_000F)
    bits = (bits | bits << np.uint64(6)) & np.uint64(0x0303_0303_0303_0303)
    return (bits | bits << np.uint64(3)) & np.uint64(0x1111_1111_1111_1111)


@compiled
def _in_frame(fingerprints: npt.NDArray[np.uint64], row: Any, word: Any, of_signature: Any, bin_bits: int) -> Any:
    """Values in a fingerprint's word that are in its frame, at the lowest bit of each."""
    of_word = 64 // bin_bits
    bit = word * of_word
    bits = fingerprints[row, of_signature + (bit >> 6)] >> np.uint64(bit & 63)
    return _spread(bits & np.uint64((1 << of_word) - 1), bin_bits)


@compiled
def _brings_nothing_new(fingerprints: npt.NDArray[np.uint64], row: Any, of_signature: Any) -> Any:
    """Whether all bins are in the fingerprint's frame."""
    for word in range(of_signature, fingerprints.shape[1]):
        if ~fingerprints[row, word] != 0:
            return False
    return of_signature < fingerprints.shape[1]


@compiled
def exceeds(own: Any, of_root: Any, longer: int) -> Any:
    """Whether a length is `longer` ten-thousandths above a root's, for numbers or int64 [n] each; never if either is 0."""
    # 1,100 letters are too many for a root of 1,000 with longer = 1,000; 1,099 are not.
    return (own * 10_000 >= of_root * (10_000 + longer)) & (of_root > 0) & (longer > 0)


@compiled
def _own_length(row: Any, root: Any, documents: Documents, bin_bits: int) -> Any:
    """Length of a row without its frame, as the share of its own bins; to a root with the same frame exact."""
    prints, lengths, lowest = documents.fingerprints, documents.lengths, _lowest(bin_bits)
    of_signature = _signature_words(prints.shape[1])
    filled, own, agreeing = np.int64(0), np.int64(0), np.int64(0)
    for word in range(of_signature):
        of_word, in_frame = prints[row, word], _in_frame(prints, row, word, of_signature, bin_bits)
        either = in_frame | _in_frame(prints, root, word, of_signature, bin_bits)
        unlike = either & _filled(of_word ^ prints[root, word], bin_bits, lowest)
        filled += np.int64(ones(_filled(of_word, bin_bits, lowest)))
        own += np.int64(ones(_filled(of_word, bin_bits, lowest) & ~in_frame))
        agreeing += np.int64(ones(either)) - 2 * np.int64(ones(unlike))
    # Two pages in one frame differ in own text alone.
    if row != root and agreeing >= 0:
        return _own_length(root, root, documents, bin_bits) + lengths[row] - lengths[root]
    return lengths[row] * own // max(filled, np.int64(1))


@compiled
def _too_short(row: Any, root: Any, to_root: Any, documents: Documents, limits: Limits) -> Any:
    """Whether a root is too short for the row to be its duplicate."""
    prints = documents.fingerprints
    of_signature, differing, framed = _signature_words(prints.shape[1]), np.uint64(0), np.uint64(0)
    for word in range(of_signature):
        differing |= prints[row, word] ^ prints[root, word]
    for word in range(of_signature, prints.shape[1]):
        framed |= prints[row, word] | prints[root, word]
    own, of_root = documents.lengths[row], documents.lengths[root]
    if framed != 0:
        # The own share of a page is an estimate: the distance must agree with it.
        if to_root < limits.longer_apart:
            return False
        own = _own_length(row, root, documents, limits.bin_bits)
        of_root = _own_length(root, root, documents, limits.bin_bits)
    is_new = differing != 0 and not _brings_nothing_new(prints, row, of_signature)
    return is_new and exceeds(own, of_root, limits.longer)


@compiled
def _distance(either: Any, both: Any, differing: Any, bin_bits: int, units: int) -> Any:
    """`minhash.distances_of` for one pair."""
    values = (1 << bin_bits) - 1
    above, below = values * differing - either + both, max((values - 1) * either, np.int64(1))
    distance = (2 * units * above + below) // (2 * below) if either else np.int64(units)
    return max(np.int64(0), min(np.int64(units), distance))


@compiled
def _apart(
    left: npt.NDArray[np.uint64],
    row: Any,
    right: npt.NDArray[np.uint64],
    other: Any,
    bin_bits: int,
    units: int,
    limits: OwnLimits,
) -> Any:
    """Plain distance of a row in left to an earlier one in right, and `frame.framed_distances`: int64 each."""
    either, both, differing = np.int64(0), np.int64(0), np.int64(0)
    lowest, of_signature = _lowest(bin_bits), _signature_words(left.shape[1])
    for word in range(of_signature):
        of_one, of_other = left[row, word], right[other, word]
        of_row, of_that = _filled(of_one, bin_bits, lowest), _filled(of_other, bin_bits, lowest)
        either += np.int64(ones(of_row | of_that))
        both += np.int64(ones(of_row & of_that))
        differing += np.int64(ones(_filled(of_one ^ of_other, bin_bits, lowest)))
    plain = _distance(either, both, differing, bin_bits, units)
    framed = np.uint64(0)
    for word in range(of_signature, left.shape[1]):
        framed |= left[row, word] | right[other, word]
    if framed == 0 or differing == 0 or _brings_nothing_new(left, row, of_signature):
        return plain, plain
    # Frames matter only from here on: count the bins that are the pages' own.
    shared, unlike, any_side, alike = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for word in range(of_signature):
        of_one, of_other = left[row, word], right[other, word]
        one_framed = _in_frame(left, row, word, of_signature, bin_bits)
        other_framed = _in_frame(right, other, word, of_signature, bin_bits)
        unequal = _filled(of_one ^ of_other, bin_bits, lowest)
        own = _filled(of_one, bin_bits, lowest) & ~one_framed
        own_of_other = _filled(of_other, bin_bits, lowest) & ~other_framed
        on_any_side = (own | own_of_other) & (unequal | ~(one_framed | other_framed))
        shared += np.int64(ones(own & own_of_other))
        unlike += np.int64(ones(own & own_of_other & unequal))
        any_side += np.int64(ones(on_any_side))
        alike += np.int64(ones(on_any_side & ~unequal))
    least = np.int64(units)
    # Few own bins must agree better than many.
    if shared >= limits.bins_min:
        alone = _distance(shared, shared, unlike, bin_bits, units) * (shared + limits.doubt) // shared
        least = max(np.int64(1), min(np.int64(units), alone))
    # Too few equal own bins: two pages with one template, so the plain distance does not count.
    if any_side < limits.apart_min or alike >= limits.share_min * any_side:
        least = min(least, plain)
    return plain, least


@compiled
def least_distances(
    left: npt.NDArray[np.uint64],
    right: npt.NDArray[np.uint64],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
    bin_bits: int,
    units: int,
    limits: OwnLimits,
) -> npt.NDArray[np.int16]:
    """Lesser of both distances, see `_apart`, between left[left_rows[i]] and right[right_rows[i]]: int16 [m]."""
    distances = np.empty(len(left_rows), np.int16)
    for place in range(len(left_rows)):
        plain, framed = _apart(left, left_rows[place], right, right_rows[place], bin_bits, units, limits)
        distances[place] = min(plain, framed)
    return distances


@compiled
def _meet(row: int, bands: Bands, entering: npt.NDArray[np.bool_]) -> int:
    """Put earlier entries that share a band with a row into `met`; returns their number. entering: bool [n]."""
    of_row, slots = bands.heads.shape
    for other in range(bands.end[0], row):
        if bands.filed[other] and entering[other]:
            for band in range(of_row):
                slot = _slot(bands.hashes[other, band], slots)
                bands.following[other, band] = bands.heads[band, slot]
                bands.heads[band, slot] = other
    bands.end[0] = row
    count = 0
    for band in range(of_row):
        place = np.int64(bands.heads[band, _slot(bands.hashes[row, band], slots)])
        while place >= 0:
            if bands.hashes[place, band] == bands.hashes[row, band] and bands.seen_by[place] != row:
                bands.seen_by[place] = row
                bands.met[count] = place
                count += 1
            place = np.int64(bands.following[place, band])
    return count


@compiled
def sharing(bands: Bands, leading: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a row and an earlier leading row, bool [n], that share a band: int64 [m] each, by row, each pair once."""
    rows, earlier, end = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    for row in range(len(leading)):
        count = _meet(row, bands, leading)
        while end + count > len(rows):
            rows, earlier = np.concatenate((rows, rows)), np.concatenate((earlier, earlier))
        rows[end : end + count], earlier[end : end + count] = row, bands.met[:count]
        end += count
    return rows[:end], earlier[:end]


@compiled
def _candidate(at: int, end: int, candidates: Candidates, bands: Bands) -> tuple[Any, Any, Any]:
    """Place and both distances of a candidate; those from `end` on are met in bands."""
    if at < end:
        return candidates.places[at], np.int64(candidates.distances[at]), np.int64(candidates.to_roots[at])
    return bands.met[at - end], np.int64(UNMEASURED), np.int64(UNMEASURED)


@compiled
def judge(
    row: int, candidates: Candidates, bands: Bands, documents: Documents, verdicts: Verdicts, limits: Limits
) -> Judgement:
    """Judge a row's candidates, once all earlier rows are concluded.

    The match is the nearest candidate that counts, the earliest on ties: an entry whose root is near enough too. All
    indexed documents precede all rows. A root that is much shorter than the row makes it no duplicate.
    """
    # Row 5 is 2 from row 3, a member, and 3 from document 7. Row 3 is the match unless row 5 is too far from its root.
    prints, order, count = documents.fingerprints, documents.order, len(verdicts.verdicts)
    match, failed, root_of_match, nearest, plain_of_match, reported, plain_of_failed = NONE, NONE, NONE, 0, 0, 0, 0
    short, root_of_short, nearest_short, reported_short, verdict = NONE, NONE, 0, 0, limits.duplicate
    is_old = _brings_nothing_new(prints, row, _signature_words(prints.shape[1]))
    begin, end = candidates.begins[row], candidates.begins[row + 1]
    met = _meet(row, bands, verdicts.entering) if bands.meets[row] else 0
    verdicts.compared[row] += met
    for at in range(begin, end + met):
        place, distance, to_root = _candidate(at, end, candidates, bands)
        measures = distance == UNMEASURED
        if distance == NO_DISTANCE or (place < count and not verdicts.entering[place]):
            continue
        root = documents.roots[place]
        if documents.lost[place] or documents.lost[root]:
            # The look-up returned only this document from the index, so another may count now.
            if place >= count and not measures:
                return Judgement(NONE, NONE, 0, 0, 0, LOOK_UP, verdict)
            if documents.lost[place] or not limits.outlives_root:
                continue
            root = place
        plain = distance
        if measures:
            plain, distance = _apart(prints, row, prints, place, limits.bin_bits, limits.units, limits.own)
            if distance > limits.distance_max:
                nearer = plain < plain_of_failed or (plain == plain_of_failed and order[place] < order[failed])
                if plain <= limits.distance_max and (failed == NONE or nearer):
                    failed, plain_of_failed = place, plain
                continue
        # A row without novelty would match nothing that its match does not.
        plain = 0 if measures and is_old else plain
        # The earliest wins a tie, so the candidates' order does not matter.
        is_farther = match != NONE and (distance > nearest or (distance == nearest and order[place] > order[match]))
        if is_farther and plain >= plain_of_match:
            continue
        # A match that is its own root needs no second measurement.
        if root == place and to_root == UNMEASURED:
            to_root = distance
        elif measures:
            _, to_root = _apart(prints, row, prints, root, limits.bin_bits, limits.units, limits.own)
            if to_root > limits.root_distance_max:
                continue
        elif to_root == UNMEASURED:
            return Judgement(NONE, NONE, 0, 0, 0, TO_ROOTS, verdict)
        if to_root == NO_DISTANCE:
            continue
        if _too_short(row, root, to_root, documents, limits):
            nearer = distance < nearest_short or (distance == nearest_short and order[place] < order[short])
            if short == NONE or nearer:
                short, root_of_short, nearest_short, reported_short = place, root, distance, to_root
            continue
        plain_of_match = min(plain, plain_of_match) if match != NONE else plain
        if not is_farther:
            match, root_of_match, nearest, reported = place, root, distance, to_root
    if match == NONE and short != NONE:
        root_of_match, reported, verdict = root_of_short, reported_short, limits.extends
    # Near by the plain distance alone: both pages share a template.
    elif match == NONE and failed != NONE:
        root_of_match, verdict = documents.roots[failed], limits.template
        reported, _ = _apart(prints, row, prints, root_of_match, limits.bin_bits, limits.units, limits.own)
    return Judgement(match, root_of_match, nearest, plain_of_match, reported, NOTHING, verdict)


@compiled
def _by_version(row: int, judgement: Judgement, versions: Versions, documents: Documents, limits: Limits) -> Judgement:
    """The judgement by a row's older versions if they decide, else the given one."""
    place = versions.places[row]
    distance: Any = np.int64(versions.distances[row])
    verdict: Any = np.int64(versions.verdicts[row])
    # A match at distance 3 and the current version at 3: the version decides.
    is_nearer = judgement.match != NONE and judgement.distance < versions.nearest[row]
    if verdict == BY_RULE or (is_nearer and judgement.root != place and judgement.root != versions.others[row]):
        return judgement
    versions.decided[row] = True
    if verdict not in (limits.duplicate, _UNIQUE) and place != row:
        # Later rows must not match the version that this row replaces.
        documents.lost[place] = versions.replacing
    named: Any = NONE if verdict == _UNIQUE else place
    return Judgement(named, named, 0, 0, distance, NOTHING, verdict)


@compiled
def conclude(
    row: int, judgement: Judgement, versions: Versions, documents: Documents, verdicts: Verdicts, limits: Limits
) -> None:
    """Decide a row by its versions or its judgement; rows start as UNIQUE entries that name themselves."""
    judgement = _by_version(row, judgement, versions, documents, limits)
    if judgement.root == NONE:
        return
    verdicts.named[row], verdicts.distances[row] = judgement.root, judgement.reported
    verdicts.verdicts[row] = judgement.verdict
    if judgement.verdict != limits.duplicate:
        return
    documents.roots[row] = judgement.root
    # A member this near to its match would match hardly anything that its match does not.
    verdicts.entering[row] = judgement.plain > limits.apart


@compiled
def walk(
    row: int,
    stops: npt.NDArray[np.bool_],
    versions: Versions,
    candidates: Candidates,
    bands: Bands,
    documents: Documents,
    verdicts: Verdicts,
    limits: Limits,
) -> int:
    """Decide rows in order from `row` on; returns the first one left to the caller, or n.

    That is a row in `stops`, bool [n], or whose `Versions.others` is lost, or one whose judgement asks for more.
    """
    while row < len(stops):
        other = versions.others[row]
        if stops[row] or (other != NONE and documents.lost[other]):
            return row
        judgement = judge(row, candidates, bands, documents, verdicts, limits)
        if judgement.asks != NOTHING:
            return row
        conclude(row, judgement, versions, documents, verdicts, limits)
        row += 1
    return row
