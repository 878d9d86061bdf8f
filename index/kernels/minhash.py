"""Compiled loops over MinHash signatures; see `index.kernels`.

`index.matching.minhash` and, of pages of templates, `index.matching.template` define what they compute.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, ones, prefetch

NONE = -1

_AHEAD = 8
"""Signatures between the one that is compared and the one that begins to load."""


class Shape(NamedTuple):
    """Numbers that stay the same: bits of a bin, DISTANCE_UNITS, and the share of own bins that makes two pages one."""

    bin_bits: int
    units: int
    own_share_min: float


class Documents(NamedTuple):
    """Columns of a gallery, by place: see `index.families.gallery`.

    signatures  uint64 [m, words]
    order       uint64 [m]
    roots       int64 [m]
    families    int64 [m]
    lost        bool [m]
    stamps      int64 [m], of the last look that has met a document
    """

    signatures: npt.NDArray[np.uint64]
    order: npt.NDArray[np.uint64]
    roots: npt.NDArray[np.int64]
    families: npt.NDArray[np.int64]
    lost: npt.NDArray[np.bool_]
    stamps: npt.NDArray[np.int64]


class Postings(NamedTuple):
    """Places of the documents under each key: int64 [keys, most]; how many there are, int64 [keys]."""

    places: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class RowsInBands(NamedTuple):
    """Rows of a batch in chains, by a hash of each band.

    hashes     uint64 [n, bands], as `band_hashes` gives them
    heads      int32 [bands, slots], the last row of each chain, or -1; slots is a power of two
    following  int32 [n, bands], the next row of the chain, or -1
    met        int64 [n], the last row that has met this one
    """

    hashes: npt.NDArray[np.uint64]
    heads: npt.NDArray[np.int32]
    following: npt.NDArray[np.int32]
    met: npt.NDArray[np.int64]


@compiled
def band_hashes(
    values: npt.NDArray[np.uint8], draws: npt.NDArray[np.int64], bands: int, rows: int
) -> npt.NDArray[np.uint64]:
    """Hashes of the bands of signatures: values uint8 [n, bins] -> uint64 [n, bands].

    The low 40 bits of `band_keys`, as the top bits of a word. draws: int64 [bins, bins - 1], those of `densify`.
    """
    count, used, orders = values.shape[0], bands * rows, draws.shape[1]
    hashes, filled = np.empty((count, bands), np.uint64), np.empty(used, np.uint8)
    # Whether a bin is empty is chance: so the first draws are looked up in any case, without a branch.
    first, second = draws[:used, 0].copy(), draws[:used, 1].copy()
    for place in range(count):
        row = values[place]
        for own in range(used):
            value, drawn, other = row[own], row[first[own]], row[second[own]]
            drawn = drawn if drawn else other
            filled[own] = value if value else drawn
        for own in range(used):
            draw = 2
            while filled[own] == 0 and draw < orders:
                filled[own] = row[draws[own, draw]]
                draw += 1
        for band in range(bands):
            chain = np.uint64(0)
            for own in range(band * rows, (band + 1) * rows):
                chain = (chain + np.uint64(filled[own])) * np.uint64(0x9E3779B97F4A7C15)
                chain ^= chain >> np.uint64(32)
            hashes[place, band] = (chain * np.uint64(0xD6E8FEB86659FD93)) & np.uint64(0xFFFF_FFFF_FF00_0000)
    return hashes


@compiled
def _slot(band_hash: Any, slots: Any) -> Any:
    """The slot of a band's hash in a table of so many slots, a power of two: int64."""
    return np.int64((band_hash >> np.uint64(32)) & np.uint64(slots - 1))


@compiled
def sharing(
    hashes: npt.NDArray[np.uint64], leading: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a row and an earlier leading row that share a hash in some band: int64 [m] twice, by row, each pair once.

    hashes   uint64 [n, bands], as `band_hashes` gives them
    leading  bool [n], whether later rows may be paired with this one
    """
    count, bands = hashes.shape
    slots = 1
    while slots < 2 * count:
        slots *= 2
    heads = np.full((bands, slots), -1, np.int32)
    following = np.empty((count, bands), np.int32)
    met = np.full(count, -1, np.int32)
    rows, earlier = np.empty(1024, np.int64), np.empty(1024, np.int64)
    found = 0
    for row in range(count):
        for band in range(bands):
            slot = _slot(hashes[row, band], slots)
            place = heads[band, slot]
            while place >= 0:
                if hashes[place, band] == hashes[row, band] and met[place] != row:
                    met[place] = row
                    if found == len(rows):
                        rows, earlier = np.concatenate((rows, rows)), np.concatenate((earlier, earlier))
                    rows[found], earlier[found] = row, place
                    found += 1
                place = following[place, band]
            if leading[row]:
                following[row, band] = heads[band, slot]
                heads[band, slot] = row
    return rows[:found], earlier[:found]


@compiled
def shared(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether each row shares a hash with an earlier one in some band: hashes uint64 [n, bands] -> bool [n]."""
    count, bands = hashes.shape
    slots = 1
    while slots < 2 * count:
        slots *= 2
    rows, are = np.empty(slots, np.int32), np.zeros(count, np.bool_)
    for band in range(bands):
        rows[:] = -1
        for row in range(count):
            slot = _slot(hashes[row, band], slots)
            while rows[slot] >= 0 and hashes[rows[slot], band] != hashes[row, band]:
                slot = (slot + 1) & (slots - 1)
            if rows[slot] >= 0:
                are[row] = True
            else:
                rows[slot] = row
    return are


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
def distances(
    left: npt.NDArray[np.uint64],
    right: npt.NDArray[np.uint64],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
    bin_bits: int,
    units: int,
) -> npt.NDArray[np.int16]:
    """`signature_distances` of left[left_rows[i]] and right[right_rows[i]]: int16 [m]; units: DISTANCE_UNITS."""
    found = np.empty(len(left_rows), np.int16)
    for place in range(len(left_rows)):
        found[place] = _apart(left, left_rows[place], right, right_rows[place], bin_bits, units)
    return found


@compiled
def sharing_bands(
    row: int,
    begin: int,
    standing: npt.NDArray[np.bool_],
    rows: RowsInBands,
    signatures: npt.NDArray[np.uint64],
    reach: int,
    shape: Shape,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], int]:
    """Filed rows that share a band with a row, int64 [m], their distances, int16 [m], and how many were compared.

    begin  the rows from here to the row are filed first, if they are standing, bool [n]; changes heads and following
    reach  the largest distance; changes met
    """
    bands, slots = rows.heads.shape
    for other in range(begin, row):
        if standing[other]:
            for band in range(bands):
                slot = _slot(rows.hashes[other, band], slots)
                rows.following[other, band] = rows.heads[band, slot]
                rows.heads[band, slot] = other
    earlier, apart, found, compared = np.empty(16, np.int64), np.empty(16, np.int16), 0, 0
    for band in range(bands):
        place = np.int64(rows.heads[band, _slot(rows.hashes[row, band], slots)])
        while place >= 0:
            if rows.hashes[place, band] == rows.hashes[row, band] and rows.met[place] != row:
                rows.met[place] = row
                compared += 1
                distance = _apart(signatures, row, signatures, place, shape.bin_bits, shape.units)
                if distance <= reach:
                    if found == len(earlier):
                        earlier, apart = np.concatenate((earlier, earlier)), np.concatenate((apart, apart))
                    earlier[found], apart[found] = place, distance
                    found += 1
            place = np.int64(rows.following[place, band])
    return earlier[:found], apart[:found], compared


@compiled
def own_keys(
    pages: npt.NDArray[np.uint64],
    templates: npt.NDArray[np.uint64],
    needed: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.uint16],
    by_rank: npt.NDArray[np.uint16],
    no_own_key: int,
    bin_bits: int,
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """`keys_of` pages, uint64 [n, words], beside their templates, uint64 [n, words]: uint16 [m], and where each page's end.

    needed          int64 [n], `own_bins_needed` of each page
    ranks, by_rank  uint16 [65536], the place of each key in the order of preference, and the key at each place
    """
    of_word, mask = 64 // bin_bits, np.uint64((1 << bin_bits) - 1)
    keys, ends = np.empty(1024, np.uint16), np.empty(len(pages), np.int64)
    of_page, count = np.empty(pages.shape[1] * of_word, np.uint16), 0
    for page in range(len(pages)):
        own = 0
        for word in range(pages.shape[1]):
            value, template = pages[page, word], templates[page, word]
            for place in range(of_word):
                shift = np.uint64(place * bin_bits)
                in_page = (value >> shift) & mask
                if in_page != 0 and in_page != (template >> shift) & mask:
                    of_page[own] = ranks[np.uint64(word * of_word + place) << np.uint64(8) | in_page]
                    own += 1
        if count + own + 1 > len(keys):
            keys = np.concatenate((keys, np.empty(len(keys) + own + 1, np.uint16)))
        ordered = np.sort(of_page[:own])
        for place in range(own):
            keys[count + place] = by_rank[ordered[place]]
        count += own
        if own < needed[page]:
            keys[count] = no_own_key
            count += 1
        ends[page] = count
    return keys[:count], ends


@compiled
def sharing_own_text(
    row: int,
    slots: npt.NDArray[np.int64],
    postings: Postings,
    documents: Documents,
    some_are_lost: bool,
    look: int,
    reach: int,
    shape: Shape,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], int]:
    """Documents that stand under keys of a row, each once: places int64 [m], distances int16 [m], how many were compared.

    slots  int64 [k], the keys
    some_are_lost  whether any document is lost
    look   number of this look; whose stamp it is already has been met, and is left out; changes stamps
    reach  the largest distance

    Leaves out what is lost, itself or its root.
    """
    count = 0
    for slot in slots:
        count += postings.counts[slot]
    met, compared = np.empty(count, np.int64), 0
    stamps = np.uint64(documents.stamps.ctypes.data)
    for slot in slots:
        for each in range(postings.counts[slot]):
            prefetch(stamps + np.uint64(8 * max(0, postings.places[slot, each])))
        for each in range(postings.counts[slot]):
            place = postings.places[slot, each]
            if place < 0 or documents.stamps[place] == look:
                continue
            documents.stamps[place] = look
            if some_are_lost and (documents.lost[place] or documents.lost[documents.roots[place]]):
                continue
            met[compared] = place
            compared += 1
    signatures, found, apart = documents.signatures, 0, np.empty(compared, np.int16)
    begin, size = np.uint64(signatures.ctypes.data), np.uint64(signatures.shape[1] * 8)
    for each in range(compared):
        if each + _AHEAD < compared:
            address = begin + np.uint64(met[each + _AHEAD]) * size
            for line in range(0, signatures.shape[1], 8):
                prefetch(address + np.uint64(line * 8))
        distance = _apart(signatures, row, signatures, met[each], shape.bin_bits, shape.units)
        if distance <= reach:
            met[found], apart[found] = met[each], distance
            found += 1
    return met[:found], apart[:found], compared


@compiled
def file_by_own_text(
    row: int, slots: npt.NDArray[np.int64], own: int, postings: Postings, keys_max: int
) -> npt.NDArray[np.int64]:
    """File a row under those of its keys that have room: the first `keys_max` of `own`, and all behind; gives them, int64 [m].

    slots  int64 [k], the keys, those preferred first; changes postings
    """
    chosen, count = np.empty(len(slots), np.int64), 0
    for each in range(len(slots)):
        slot = slots[each]
        under = postings.counts[slot]
        if under < postings.places.shape[1] and (count < keys_max or each >= own):
            postings.places[slot, under] = row
            postings.counts[slot] += 1
            chosen[count] = slot
            count += 1
    return chosen[:count]


@compiled
def _are_one_page(
    signatures: npt.NDArray[np.uint64],
    row: int,
    other: int,
    templates: npt.NDArray[np.uint64],
    family: int,
    needed: int,
    shape: Shape,
) -> Any:
    """`are_one_page` of a row and another document, beside a family's template; needed: `own_bins_needed` of the row."""
    differing, equal, lowest = np.int64(0), np.int64(0), _lowest(shape.bin_bits)
    for word in range(signatures.shape[1]):
        page, that, template = signatures[row, word], signatures[other, word], templates[family, word]
        own = _filled((page ^ template) | (that ^ template), shape.bin_bits, lowest)
        own &= _filled(page | that, shape.bin_bits, lowest)
        differing += np.int64(ones(own))
        equal += np.int64(ones(own & ~_filled(page ^ that, shape.bin_bits, lowest)))
    return differing < needed or equal >= shape.own_share_min * differing


@compiled
def judged(
    row: int,
    places: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int16],
    documents: Documents,
    templates: npt.NDArray[np.uint64],
    known: npt.NDArray[np.bool_],
    needed: int,
    distance_max: int,
    root_distance_max: int,
    shape: Shape,
) -> tuple[int, int]:
    """Which of the documents that a row resembles is its match: the nearest, and earliest, that counts; NONE: none does.

    Gives also, where there is no match, which would have been the first but for its template.

    places, apart     int64 [m], int16 [m], the documents and their distances, in any order
    templates, known  uint64 [families, words], bool [families]
    needed            `own_bins_needed` of the row
    """
    match, failed = NONE, NONE
    for each in range(len(places)):
        place, distance = places[each], apart[each]
        if distance > distance_max or (match != NONE and not _is_before(documents.order, places, apart, each, match)):
            continue
        root, family = documents.roots[place], documents.families[place]
        if root != place:
            to_root = _apart(documents.signatures, row, documents.signatures, root, shape.bin_bits, shape.units)
            if to_root > root_distance_max:
                continue
        of_template = known[family] and distance > 0
        if of_template and not _are_one_page(documents.signatures, row, place, templates, family, needed, shape):
            if failed == NONE or _is_before(documents.order, places, apart, each, failed):
                failed = each
            continue
        match = each
    return match, failed


@compiled
def _is_before(
    order: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], apart: npt.NDArray[np.int16], one: int, other: int
) -> Any:
    """Whether a document is nearer than another one, or as near and earlier."""
    if apart[one] != apart[other]:
        return apart[one] < apart[other]
    return order[places[one]] < order[places[other]]
