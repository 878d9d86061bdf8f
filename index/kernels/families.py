"""Compiled loops over rows that resemble something, where no template is known; see `index.kernels`.

`index.families.rule` decides the rows that these loops hand back, and `index.families.relearn` says what is learnt anew. The
vote is `index.matching.template.with_vote`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, ones
from index.kernels.minhash import Documents, RowsInBands

NONE = -1

VOTERS, DROPPED, RELATIVES, MADE_UNIQUE, OWN_BINS = range(5)
"""Columns of `Families.counts`, which `index.storage.layout.Family` explains."""


class Families(NamedTuple):
    """Families by place; see `index.families.family`. There is room for more than there are.

    heads       int64 [m]
    begun       bool [m]
    known       bool [m]
    changed     bool [m]
    counts      int64 [m, 5]
    values      uint8 [m, bins]
    leads       uint8 [m, bins]
    there       bool [m]
    references  uint64 [m, words]
    met         int64 [m], the last row that has met a family
    """

    heads: npt.NDArray[np.int64]
    begun: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]
    changed: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint8]
    leads: npt.NDArray[np.uint8]
    there: npt.NDArray[np.bool_]
    references: npt.NDArray[np.uint64]
    met: npt.NDArray[np.int64]


class Seen(NamedTuple):
    """What the index holds of what n rows resemble: row r has the pairs from begins[r] to begins[r + 1].

    begins     int64 [n + 1]
    places     int64 [m]
    distances  int16 [m]
    """

    begins: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int16]


class Verdicts(NamedTuple):
    """What is decided of n rows.

    verdicts   uint8 [n]
    distances  int16 [n]
    roots      int64 [n], place of the root that a row names; the row itself where it names none
    entering   bool [n]
    in_bands   bool [n], whether later rows find the row by its bands
    compared   int64 [n]
    """

    verdicts: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    roots: npt.NDArray[np.int64]
    entering: npt.NDArray[np.bool_]
    in_bands: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.int64]


class Shape(NamedTuple):
    """Numbers that stay the same: limits of `TemplateRule`, bits of a bin, and DISTANCE_UNITS."""

    relatives_apart: int
    voters: int
    bin_bits: int
    units: int


class Limits(NamedTuple):
    """Numbers that stay the same: limits as `Parameters`, `RootRule` and `TemplateRule` have them, shape, and a verdict."""

    distance_max: int
    reach: int
    root_distance_max: int
    root_apart: int
    relatives_apart: int
    voters: int
    bin_bits: int
    units: int
    duplicate: int


@compiled
def _slot(band_hash: Any, slots: Any) -> Any:
    """The slot of a band's hash in a table of so many slots, a power of two: int64."""
    return np.int64((band_hash >> np.uint64(32)) & np.uint64(slots - 1))


@compiled
def _filled(word: Any, bin_bits: int, lowest: Any) -> Any:
    """The lowest bit of every value of a word, set where the value is not 0; lowest: these bits of all values."""
    folded = word | (word >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        folded |= folded >> np.uint64(4)
    return folded & lowest


@compiled
def _lowest(bin_bits: int) -> Any:
    """The lowest bit of every value of a word."""
    return np.uint64(0x1111_1111_1111_1111 if bin_bits == 4 else 0x0101_0101_0101_0101)


@compiled
def _apart(
    left: npt.NDArray[np.uint64], row: Any, right: npt.NDArray[np.uint64], other: Any, bin_bits: int, units: int
) -> Any:
    """`signature_distances` of one row of left and one of right; units: DISTANCE_UNITS."""
    either, both, differing = np.int64(0), np.int64(0), np.int64(0)
    lowest, values = _lowest(bin_bits), (1 << bin_bits) - 1
    for word in range(left.shape[1]):
        of_one, of_other = left[row, word], right[other, word]
        filled, of_both = _filled(of_one, bin_bits, lowest), _filled(of_other, bin_bits, lowest)
        either += np.int64(ones(filled | of_both))
        both += np.int64(ones(filled & of_both))
        differing += np.int64(ones(_filled(of_one ^ of_other, bin_bits, lowest)))
    above, below = values * differing - either + both, max((values - 1) * either, np.int64(1))
    distance = (2 * units * above + below) // (2 * below) if either else units
    return max(0, min(units, distance))


@compiled
def _is_before(
    order: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], apart: npt.NDArray[np.int16], one: int, other: int
) -> Any:
    """Whether a document is nearer than another one, or as near and earlier."""
    if apart[one] != apart[other]:
        return apart[one] < apart[other]
    return order[places[one]] < order[places[other]]


@compiled
def _bin_of(signatures: npt.NDArray[np.uint64], row: Any, at: int, bin_bits: int) -> Any:
    """The value of one bin of a signature, uint8."""
    bit = at * bin_bits
    word = signatures[row, bit >> 6] >> np.uint64(bit & 63)
    return np.uint8(word & np.uint64((1 << bin_bits) - 1))


@compiled
def vote(
    families: Families, family: int, signatures: npt.NDArray[np.uint64], page: int, voters: int, bin_bits: int
) -> bool:
    """Count the vote of a page, a row of signatures, in a family whose template is not known; gives whether it is known now.

    voters  votes that settle the template

    Changes what the family's columns hold. The first vote begins with that of the head, and does not where the head is gone.
    """
    values, leads = families.values[family], families.leads[family]
    if not families.begun[family]:
        if not families.there[family]:
            return False
        families.begun[family] = True
        for at in range(len(values)):
            values[at], leads[at] = _bin_of(families.references, family, at, bin_bits), 1
    for at in range(len(values)):
        value = _bin_of(signatures, page, at, bin_bits)
        if values[at] == value:
            leads[at] += 1
        elif leads[at] == 0:
            values[at], leads[at] = value, 1
        else:
            leads[at] -= 1
    families.changed[family] = True
    families.counts[family, VOTERS] += 1
    if families.counts[family, VOTERS] < voters:
        return False
    families.known[family] = families.there[family] = True
    families.references[family] = 0
    for at in range(len(values)):
        bit = at * bin_bits
        families.references[family, bit >> 6] |= np.uint64(values[at]) << np.uint64(bit & 63)
    return True


@compiled
def _earlier_rows(
    row: int, begin: int, standing: npt.NDArray[np.bool_], rows: RowsInBands, met: npt.NDArray[np.int64]
) -> Any:
    """As `minhash.sharing_bands`, at any distance: puts the earlier rows into met, int64 [n], and gives how many there are."""
    bands, slots = rows.heads.shape
    for other in range(begin, row):
        if standing[other]:
            for band in range(bands):
                slot = _slot(rows.hashes[other, band], slots)
                rows.following[other, band] = rows.heads[band, slot]
                rows.heads[band, slot] = other
    found = 0
    for band in range(bands):
        place = np.int64(rows.heads[band, _slot(rows.hashes[row, band], slots)])
        while place >= 0:
            if rows.hashes[place, band] == rows.hashes[row, band] and rows.met[place] != row:
                rows.met[place] = row
                met[found] = place
                found += 1
            place = np.int64(rows.following[place, band])
    return found


@compiled
def _relative(
    row: int,
    places: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int16],
    count: int,
    documents: Documents,
    families: Families,
    limits: Limits,
) -> Any:
    """The first family of candidates, that of the nearest and earliest first, whose reference the row resembles; or NONE.

    changes families.met
    """
    best, family = NONE, NONE
    for each in range(count):
        candidate = documents.families[places[each]]
        if best != NONE and not _is_before(documents.order, places, apart, each, best):
            continue
        if candidate == family:
            best = each
        elif families.met[candidate] != row and families.there[candidate]:
            to_reference = _apart(
                documents.signatures, row, families.references, candidate, limits.bin_bits, limits.units
            )
            if to_reference <= limits.relatives_apart:
                best, family = each, candidate
            else:
                families.met[candidate] = row
    return family


@compiled
def _met_in_index(
    row: int,
    seen: Seen,
    documents: Documents,
    some_are_lost: bool,
    families: Families,
    places: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int16],
) -> Any:
    """Put what counts of the index into places and apart: gives how many, and whether the template of any is known."""
    found, with_template = 0, False
    for each in range(seen.begins[row], seen.begins[row + 1]):
        place = seen.places[each]
        if some_are_lost and (documents.lost[place] or documents.lost[documents.roots[place]]):
            continue
        with_template |= families.known[documents.families[place]]
        places[found], apart[found] = place, seen.distances[each]
        found += 1
    return found, with_template


@compiled
def _met_in_batch(
    row: int,
    met: npt.NDArray[np.int64],
    found: int,
    documents: Documents,
    families: Families,
    places: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int16],
    limits: Limits,
) -> Any:
    """As `_met_in_index`, of earlier rows, behind the first found; these rows count."""
    with_template = False
    for place in met:
        distance = _apart(documents.signatures, row, documents.signatures, place, limits.bin_bits, limits.units)
        if distance <= limits.reach:
            places[found], apart[found] = place, distance
            family = documents.families[place]
            with_template |= family != NONE and families.known[family]
            found += 1
    return found, with_template


@compiled
def _found_families(rows: npt.NDArray[np.int64], documents: Documents, families: Families, count: int) -> Any:
    """Give each of these documents that has none a family of its own, behind the first `count`; gives their new number."""
    for row in rows:
        if documents.families[row] == NONE:
            documents.families[row] = count
            families.heads[count], families.there[count] = -1 - row, True
            families.references[count] = documents.signatures[row]
            count += 1
    return count


@compiled
def _match(
    row: int,
    places: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int16],
    count: int,
    documents: Documents,
    limits: Limits,
) -> Any:
    """As `minhash.judged`, where no template is known."""
    match = NONE
    for each in range(count):
        if apart[each] > limits.distance_max:
            continue
        if match != NONE and not _is_before(documents.order, places, apart, each, match):
            continue
        root = documents.roots[places[each]]
        if root != places[each]:
            to_root = _apart(documents.signatures, row, documents.signatures, root, limits.bin_bits, limits.units)
            if to_root > limits.root_distance_max:
                continue
        match = each
    return match


@compiled
def _drop(row: int, place: int, distance: Any, documents: Documents, verdicts: Verdicts, limits: Limits) -> None:
    """Let a row be a duplicate of what the document at a place stands for."""
    root = documents.roots[place]
    documents.roots[row] = verdicts.roots[row] = root
    verdicts.verdicts[row], verdicts.entering[row] = limits.duplicate, distance > limits.root_apart
    if root != place:
        distance = _apart(documents.signatures, row, documents.signatures, root, limits.bin_bits, limits.units)
    verdicts.distances[row] = distance


@compiled
def decided(
    asked: npt.NDArray[np.int64],
    begin: int,
    filed_to: int,
    sharing: npt.NDArray[np.bool_],
    seen: Seen,
    rows: RowsInBands,
    documents: Documents,
    some_are_lost: bool,
    families: Families,
    count: int,
    verdicts: Verdicts,
    learnt: npt.NDArray[np.int64],
    limits: Limits,
) -> tuple[int, int, int, int]:
    """Decide rows in order, as `FamilyRule`, as far as they resemble nothing of a family whose template is known.

    asked     int64 [k], the rows, ascending
    begin     the place in `asked` to begin at
    filed_to  rows before this one stand in their bands, if they are to
    sharing   bool [n], rows that share a band with an earlier one
    count     families there are; there must be room for one more of each row
    learnt    int64 [m], is filled with the families whose templates become known

    Gives the place in `asked` of the row that it leaves to others, or k; and `filed_to`, `count` and the learnt families by then.
    What it gives up there it has not changed. Changes all columns.
    """
    most = 0
    for row in asked[begin:]:
        most = max(most, seen.begins[row + 1] - seen.begins[row])
    met = np.empty(len(sharing), np.int64)
    places, apart = np.empty(most + len(sharing), np.int64), np.empty(most + len(sharing), np.int16)
    known_now = 0
    for at in range(begin, len(asked)):
        row = asked[at]
        found, with_template = _met_in_index(row, seen, documents, some_are_lost, families, places, apart)
        if with_template:
            return at, filed_to, count, known_now
        if sharing[row]:
            of_bands = met[: _earlier_rows(row, filed_to, verdicts.in_bands, rows, met)]
            filed_to = row
            found, with_template = _met_in_batch(row, of_bands, found, documents, families, places, apart, limits)
            if with_template:
                rows.met[of_bands] = NONE
                return at, filed_to, count, known_now
            verdicts.compared[row] += len(of_bands)
            count = _found_families(places[:found], documents, families, count)
        match = _match(row, places, apart, found, documents, limits)
        if match != NONE:
            family, voting = documents.families[places[match]], apart[match] > 0
            _drop(row, places[match], np.int64(apart[match]), documents, verdicts, limits)
        else:
            family = _relative(row, places, apart, found, documents, families, limits)
            voting = family != NONE
        verdicts.in_bands[row] = verdicts.entering[row]
        if family == NONE:
            continue
        documents.families[row] = family
        if voting and vote(families, family, documents.signatures, row, limits.voters, limits.bin_bits):
            learnt[known_now] = family
            known_now += 1
        if voting and families.begun[family]:
            families.counts[family, DROPPED if match != NONE else RELATIVES] += 1
    return len(asked), filed_to, count, known_now


@compiled
def relearnt(
    named: npt.NDArray[np.int64],
    own: npt.NDArray[np.int64],
    unequal: npt.NDArray[np.bool_],
    signatures: npt.NDArray[np.uint64],
    dropped: npt.NDArray[np.bool_],
    standing: npt.NDArray[np.bool_],
    of_template: npt.NDArray[np.bool_],
    seen: Seen,
    documents: Documents,
    families: Families,
    limits: Shape,
) -> npt.NDArray[np.int64]:
    """Learn from n documents, in order, as `Relearning.learn`; gives the family that each joins as a relative, else NONE.

    named        int64 [n], place of what a document was dropped for or resembled; NONE where it is not known
    own          int64 [n], its own place; NONE where it did not enter
    unequal      bool [n], whether it differs from what it names
    signatures   uint64 [n, words]
    dropped      bool [n], whether it counts as dropped; standing: whether it stands for itself; of_template: whether it was kept
                 for its template
    seen         earlier documents that it resembles, nearest and earliest first

    Changes documents.families and the columns of families.
    """
    joined = np.full(len(named), NONE, np.int64)
    for row in range(len(named)):
        place = own[row]
        if named[row] != NONE:
            family, voting = documents.families[named[row]], unequal[row]
        elif place != NONE:
            family = NONE
            for each in range(seen.begins[row], seen.begins[row + 1]):
                candidate = documents.families[seen.places[each]]
                if candidate == documents.families[place] or families.met[candidate] == row:
                    continue
                families.met[candidate] = row
                if families.there[candidate]:
                    apart = _apart(
                        documents.signatures, place, families.references, candidate, limits.bin_bits, limits.units
                    )
                    if apart <= limits.relatives_apart:
                        family = candidate
                        break
            voting = family != NONE
        else:
            family, voting = NONE, False
        if family == NONE:
            continue
        if voting and not families.known[family]:
            vote(families, family, signatures, row, limits.voters, limits.bin_bits)
            if families.begun[family] and dropped[row]:
                families.counts[family, DROPPED] += 1
        if place != NONE and standing[row] and families.begun[family]:
            documents.families[place] = family
            families.changed[family] = True
            families.counts[family, RELATIVES] += 1
            families.counts[family, MADE_UNIQUE] += np.int64(of_template[row])
            joined[row] = family
    return joined
