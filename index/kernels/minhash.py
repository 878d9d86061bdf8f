"""Compiled loops over MinHash signatures; `index.matching.minhash` defines what they compute. See `index.kernels`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from index.kernels.jit import compiled, ones


@compiled
def band_hashes(
    values: npt.NDArray[np.uint8], draws: npt.NDArray[np.int64], bands: int, rows: int
) -> npt.NDArray[np.uint64]:
    """Hashes of the bands of signatures: values uint8 [n, bins] -> uint64 [n, bands].

    The low 40 bits of `band_keys`, as the top bits of a word. draws: int64 [bins, bins - 1], those of `densify`.
    """
    hashes = np.empty((values.shape[0], bands), np.uint64)
    for place in range(values.shape[0]):
        for band in range(bands):
            chain = np.uint64(0)
            for own in range(band * rows, (band + 1) * rows):
                value, draw = values[place, own], 0
                while value == 0 and draw < draws.shape[1]:
                    value = values[place, draws[own, draw]]
                    draw += 1
                chain = (chain + np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
                chain ^= chain >> np.uint64(32)
            hashes[place, band] = (chain * np.uint64(0xD6E8FEB86659FD93)) & np.uint64(0xFFFF_FFFF_FF00_0000)
    return hashes


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
            slot = np.int64((hashes[row, band] >> np.uint64(32)) & np.uint64(slots - 1))
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
def _filled(word: Any, bin_bits: int, lowest: Any) -> Any:
    """The lowest bit of every value of a word, set where the value is not 0; lowest: these bits of all values."""
    folded = word | (word >> np.uint64(2))
    folded |= folded >> np.uint64(1)
    if bin_bits == 8:
        folded |= folded >> np.uint64(4)
    return folded & lowest


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
    lowest = np.uint64(0x1111_1111_1111_1111 if bin_bits == 4 else 0x0101_0101_0101_0101)
    values = (1 << bin_bits) - 1
    for place in range(len(left_rows)):
        either, both, differing = np.int64(0), np.int64(0), np.int64(0)
        for word in range(left.shape[1]):
            one, other = left[left_rows[place], word], right[right_rows[place], word]
            of_one, of_other = _filled(one, bin_bits, lowest), _filled(other, bin_bits, lowest)
            either += np.int64(ones(of_one | of_other))
            both += np.int64(ones(of_one & of_other))
            differing += np.int64(ones(_filled(one ^ other, bin_bits, lowest)))
        above, below = values * differing - either + both, max((values - 1) * either, np.int64(1))
        distance = (2 * units * above + below) // (2 * below) if either else units
        found[place] = max(0, min(units, distance))
    return found
